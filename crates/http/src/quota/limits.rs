//! Limits: what one caller may take, and how it is told that it has taken it.

use std::fmt::Write as _;
use std::time::Duration;

use http::HeaderValue;

/// What one caller may take. Without a number there is no limit.
///
/// ```
/// use onceward_http::quota::Limits;
///
/// let mut limits = Limits::default();
/// limits.claims_per_second = Some(100);
/// limits.running = Some(8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Limits {
    /// New claims within any second.
    pub claims_per_second: Option<u32>,
    /// New claims within any 24 hours.
    pub claims_per_day: Option<u32>,
    /// Executions under way at a time.
    pub running: Option<u32>,
    /// Records whose outcome nobody knows.
    pub unknown: Option<u64>,
    /// Bytes of all its records.
    pub stored: Option<u64>,
    /// Requests within any minute whose key was used for another payload.
    pub mismatches_per_minute: Option<u32>,
}

/// The name of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::claims_per_second`].
    ClaimsPerSecond,
    /// [`Limits::claims_per_day`].
    ClaimsPerDay,
    /// [`Limits::running`].
    Running,
    /// [`Limits::unknown`].
    Unknown,
    /// [`Limits::stored`].
    Stored,
    /// [`Limits::mismatches_per_minute`].
    MismatchesPerMinute,
}

/// A limit that a caller has reached.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Over {
    /// Which one.
    pub limit: Limit,
    /// When it may be worth to ask again.
    pub retry_after: Duration,
    /// What all limits are, for `RateLimit-Policy`.
    pub policy: Option<HeaderValue>,
}

// === impl Limits ===

impl Limits {
    /// Whether any of them refuses new claims.
    pub fn limit_claims(&self) -> bool {
        *self != Self::default()
    }

    /// Whether records have to be counted.
    pub fn need_census(&self) -> bool {
        self.unknown.is_some() || self.stored.is_some()
    }

    /// Every limit that is set, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Limit, u64)> + use<> {
        let all = [
            (
                Limit::ClaimsPerSecond,
                self.claims_per_second.map(u64::from),
            ),
            (Limit::ClaimsPerDay, self.claims_per_day.map(u64::from)),
            (Limit::Running, self.running.map(u64::from)),
            (Limit::Unknown, self.unknown),
            (Limit::Stored, self.stored),
            (
                Limit::MismatchesPerMinute,
                self.mismatches_per_minute.map(u64::from),
            ),
        ];
        all.into_iter()
            .filter_map(|(limit, number)| Some((limit, number?)))
    }

    /// The value of `RateLimit-Policy`.
    pub(super) fn policy(&self) -> Option<HeaderValue> {
        let mut text = String::new();
        for (limit, number) in self.iter() {
            let comma = if text.is_empty() { "" } else { ", " };
            let name = limit.name();
            // Writing to a text does not fail.
            let _ = write!(text, "{comma}\"{name}\";q={number}{}", limit.window());
        }
        HeaderValue::try_from(text).ok().filter(|it| !it.is_empty())
    }
}

// === impl Limit ===

impl Limit {
    /// What it is called in a configuration, in a refusal and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaimsPerSecond => "claims_per_second",
            Self::ClaimsPerDay => "claims_per_day",
            Self::Running => "running",
            Self::Unknown => "unknown",
            Self::Stored => "stored",
            Self::MismatchesPerMinute => "mismatches_per_minute",
        }
    }

    /// What `RateLimit-Policy` says of it beside its number.
    fn window(self) -> &'static str {
        match self {
            Self::ClaimsPerSecond => ";w=1",
            Self::ClaimsPerDay => ";w=86400",
            Self::MismatchesPerMinute => ";w=60",
            Self::Running => ";qu=\"concurrent-requests\"",
            Self::Stored => ";qu=\"content-bytes\"",
            Self::Unknown => "",
        }
    }

    /// What a caller that reached it is told.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::ClaimsPerSecond => {
                "You have begun as many new operations as you may in a second (claims_per_second). \
                 This one was not begun: retry with the same key."
            }
            Self::ClaimsPerDay => {
                "You have begun as many new operations as you may in a day (claims_per_day). This \
                 one was not begun: retry with the same key."
            }
            Self::Running => {
                "As many of your operations are under way as may be (running). This one was not \
                 begun: retry with the same key when one of them has ended."
            }
            Self::Unknown => {
                "It is not known of too many of your operations whether they happened (unknown). \
                 This one was not begun: have those settled, then retry with the same key."
            }
            Self::Stored => {
                "Your answers take up as much room as they may (stored). This operation was not \
                 begun: retry with the same key when older answers have expired."
            }
            Self::MismatchesPerMinute => {
                "Too many of your requests used a key of another request (mismatches_per_minute). \
                 This one was not begun: use one key per operation, and retry with the same key."
            }
        }
    }
}

// === impl Over ===

impl Over {
    #[cfg(test)]
    pub(crate) fn running() -> Self {
        Self {
            limit: Limit::Running,
            retry_after: Duration::from_secs(1),
            policy: None,
        }
    }

    /// The value of `RateLimit`: nothing is left of this limit.
    pub(crate) fn remaining(&self) -> Option<HeaderValue> {
        let (name, secs) = (self.limit.name(), whole_secs(self.retry_after));
        HeaderValue::try_from(format!("\"{name}\";r=0;t={secs}")).ok()
    }
}

/// Seconds, and one more for what is left.
pub(crate) fn whole_secs(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_a_list_of_named_quotas() {
        let limits = Limits {
            claims_per_second: Some(5),
            claims_per_day: Some(100),
            running: Some(2),
            stored: Some(1024),
            ..Limits::default()
        };
        let wanted = "\"claims_per_second\";q=5;w=1, \"claims_per_day\";q=100;w=86400, \
                      \"running\";q=2;qu=\"concurrent-requests\", \
                      \"stored\";q=1024;qu=\"content-bytes\"";
        assert_eq!(limits.policy().unwrap(), wanted);
        assert_eq!(Limits::default().policy(), None);
    }

    #[test]
    fn every_refusal_names_its_limit() {
        let limits = Limits {
            claims_per_second: Some(1),
            claims_per_day: Some(1),
            running: Some(1),
            unknown: Some(1),
            stored: Some(1),
            mismatches_per_minute: Some(1),
        };
        assert_eq!(limits.iter().count(), 6);
        for (limit, _) in limits.iter() {
            assert!(limit.message().contains(limit.name()));
        }
    }
}
