//! Tickets: what one request has taken of its caller's quotas.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use onceward::{Arrival, Replay};

use super::account::Place;
use super::{Holdings, Over, Quotas, Subject, weight};
use crate::headers::{RATELIMIT, RATELIMIT_POLICY};

/// What one request has taken. Goes back when it is dropped, except for what was [used].
///
/// [used]: Ticket::use_up
pub(crate) struct Ticket {
    quotas: Arc<Quotas>,
    place: Place,
    taken: Taken,
    payer: Subject,
    arrival: Arrival,
    /// Whether it may turn out to be a duplicate's.
    asking: bool,
    used: bool,
}

/// From which slices of time was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) second: Option<u64>,
    pub(super) day: Option<u64>,
}

/// What a caller is told that is left to it.
#[derive(Debug)]
pub(crate) struct Left {
    remaining: HeaderValue,
    policy: Option<HeaderValue>,
}

// === impl Ticket ===

impl Ticket {
    pub(super) fn new(
        quotas: Arc<Quotas>,
        place: Place,
        taken: Taken,
        payer: &Subject,
        arrival: &Arrival,
        asking: bool,
    ) -> Self {
        Self {
            quotas,
            place,
            taken,
            payer: payer.clone(),
            arrival: arrival.clone(),
            asking,
            used: false,
        }
    }

    /// Says that it is for something new, or says what there is too little of by now.
    pub(crate) fn confirm(&mut self) -> Result<(), Over> {
        match std::mem::take(&mut self.asking) {
            true => self.quotas.confirm(&self.place),
            false => Ok(()),
        }
    }

    /// Says that work begins with it: only its place among those that run goes back. Returns what
    /// is left to the caller.
    pub(crate) fn use_up(&mut self) -> Option<Left> {
        self.used = true;
        let remaining = self.quotas.remaining(&self.place)?;
        let policy = self.quotas.policy.clone();
        Some(Left { remaining, policy })
    }

    /// Says that an outcome of this many bytes is stored; `resumed` if the record was an unknown one before.
    pub(crate) fn stored(&self, len: usize, resumed: bool) {
        self.add(Holdings {
            unknown: -i64::from(resumed),
            stored: self.weight(len),
        });
    }

    /// Says that nothing was executed, but the answer of other work is stored as for a new claim.
    pub(crate) fn copied(mut self, replay: &Replay) {
        self.use_up();
        self.stored(replay.outcome.kept_len(), false);
    }

    /// Says that nobody knows the outcome; `resumed` if nobody knew it before either.
    pub(crate) fn unknown(&self, resumed: bool) {
        if !resumed {
            self.add(Holdings {
                unknown: 1,
                stored: self.weight(0),
            });
        }
    }

    /// About how many bytes the record takes, with what is written for its identities.
    fn weight(&self, len: usize) -> i64 {
        let beside = self.arrival.identities().iter();
        let beside: u64 = beside.map(|identity| weight(identity.scope(), 0)).sum();
        let sum = weight(self.arrival.slot().scope(), len) + beside;
        i64::try_from(sum).unwrap_or(i64::MAX)
    }

    fn add(&self, more: Holdings) {
        if let Some(ledger) = &self.quotas.ledger {
            let tenant = self.arrival.slot().scope().tenant();
            ledger.add(&self.payer, tenant, more);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Taken { second, day } = self.taken;
        self.quotas.accounts.at(&self.place, |account| {
            account.running = account.running.saturating_sub(1);
            account.asking = account.asking.saturating_sub(u32::from(self.asking));
            if self.used {
                return;
            }
            for (window, slice) in [(&mut account.second, second), (&mut account.day, day)] {
                if let (Some(window), Some(slice)) = (window, slice) {
                    window.give_back(slice);
                }
            }
        });
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket")
            .field("taken", &self.taken)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

// === impl Left ===

impl Left {
    /// Tells the caller, unless the service behind tells it of limits of its own.
    pub(crate) fn mark(self, headers: &mut HeaderMap) {
        if headers.contains_key(RATELIMIT) || headers.contains_key(RATELIMIT_POLICY) {
            return;
        }
        headers.insert(RATELIMIT, self.remaining);
        if let Some(policy) = self.policy {
            headers.insert(RATELIMIT_POLICY, policy);
        }
    }
}
