//! Policies: what is promised for one kind of work, and how long things last.

use std::borrow::Cow;
use std::time::Duration;

/// What the integrator gives, and so what happens when a holder falls silent.
///
/// Ordered from the most lenient to the strictest; of a record's class and an arrival's the
/// [`stricter`](Effect::stricter) wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Effect {
    /// Duplicates are allowed: silence means running it again. Outside the promise.
    Repeatable,
    /// The effect commits in the same store transaction as `complete`, so silence means that
    /// nothing happened: exactly once.
    Transactional,
    /// The service behind us deduplicates on the key and repeats its first answer, so silence
    /// means asking it again: exactly once.
    Keyed,
    /// The service refuses older fences and can say whether the work happened, so silence means
    /// fencing, then asking: exactly once.
    Probed,
    /// Nothing is known about the effect, so silence means that nobody knows: at most once.
    #[default]
    Opaque,
}

/// What a duplicate gets while the first is still running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OnBusy {
    /// It waits for the outcome, this long at the most.
    Wait(Duration),
    /// It is refused at once.
    Refuse,
}

/// The rules for one kind of work.
///
/// ```
/// use std::time::Duration;
/// use onceward::{Effect, Policy};
///
/// let policy = Policy::default()
///     .effect(Effect::Keyed)
///     .retention(Duration::from_secs(7 * 86_400));
/// assert_eq!(policy.lease, Duration::from_secs(30));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// What is known about the effect. Default: [`Effect::Opaque`].
    pub effect: Effect,
    /// How long a claim lives without being renewed; it is renewed every third of this.
    /// Default: 30 s. Longer survives longer pauses, shorter notices a dead holder sooner.
    pub lease: Duration,
    /// How long an outcome is kept, counted from the end of the work. Default: 24 h. It has to
    /// be longer than any caller goes on retrying.
    pub retention: Duration,
    /// How long the body of an outcome is kept, if less than the rest of it. Default: as long. A
    /// late retry is then told what the status was, and nothing is executed again.
    pub keep_body: Option<Duration>,
    /// How long an unknown record is kept. Default: until somebody settles it.
    pub unknown_retention: Option<Duration>,
    /// What a duplicate gets while the first is running. Default: it waits 10 s.
    pub on_busy: OnBusy,
    /// The largest body that is kept for replay. Default: 1 MiB. A larger one leaves a completed
    /// record without body.
    pub body_max: usize,
    /// The name of the route in metrics. Default: `default`.
    pub route: Cow<'static, str>,
}

// === impl Effect ===

impl Effect {
    /// The stricter of two classes.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        self.max(other)
    }
}

// === impl Policy ===

impl Policy {
    /// The shortest lease: below it a renewal every third of it could not be kept up.
    pub const LEASE_MIN: Duration = Duration::from_millis(100);

    /// Sets what is known about the effect.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Sets how long a claim lives without being renewed, [`Policy::LEASE_MIN`] at the least.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Self::LEASE_MIN);
        self
    }

    /// Sets how long an outcome is kept.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Lets the body of an outcome go before the rest of it.
    #[must_use]
    pub fn keep_body(mut self, keep: Duration) -> Self {
        self.keep_body = Some(keep);
        self
    }

    /// Lets unknown records expire. What they stood for may then be executed again.
    #[must_use]
    pub fn unknown_retention(mut self, retention: Duration) -> Self {
        self.unknown_retention = Some(retention);
        self
    }

    /// Sets what a duplicate gets while the first is running.
    #[must_use]
    pub fn on_busy(mut self, on_busy: OnBusy) -> Self {
        self.on_busy = on_busy;
        self
    }

    /// Sets the largest body that is kept for replay.
    #[must_use]
    pub fn body_max(mut self, bytes: usize) -> Self {
        self.body_max = bytes;
        self
    }

    /// Sets the name of the route in metrics.
    #[must_use]
    pub fn route(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.route = name.into();
        self
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            effect: Effect::Opaque,
            lease: Duration::from_secs(30),
            retention: Duration::from_secs(86_400),
            keep_body: None,
            unknown_retention: None,
            on_busy: OnBusy::Wait(Duration::from_secs(10)),
            body_max: 1 << 20,
            route: Cow::Borrowed("default"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_is_the_strictest_class_and_repeatable_the_most_lenient() {
        use Effect::{Keyed, Opaque, Probed, Repeatable, Transactional};
        for other in [Repeatable, Transactional, Keyed, Probed] {
            assert_eq!(Opaque.stricter(other), Opaque);
            assert_eq!(other.stricter(Repeatable), other);
        }
        assert_eq!(Keyed.stricter(Probed), Probed);
    }
}
