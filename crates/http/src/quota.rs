//! Quotas: what one caller may take.
//!
//! Only new claims are limited. A request takes what it needs before the store is asked, and gives
//! it back if the answer is not a claim; where nothing is left the slot is looked at, and whatever
//! is not new goes on as always. What is new then gets what those hold who may turn out to be
//! duplicates; if they do not, it is they who have nothing left. No library of rate limits lets go of what was taken, and a caller
//! has one account for all its limits, so they are counted here.
//!
//! Everything counts for one process: with several, a caller may take as much from each. Only
//! `unknown` and `stored` are of the store, which they share, as far as it was counted last.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::request::Parts;
use onceward::clock::{Clock, SystemClock};
use onceward::{Arrival, Scope};

use self::account::{Account, Accounts, Place};
use self::ledger::Ledger;
use self::window::{Rate, Window};

mod account;
mod habits;
mod ledger;
mod limits;
mod ticket;
mod window;

pub(crate) use self::habits::Weak;
pub use self::ledger::{Holdings, weight};
pub(crate) use self::limits::whole_secs;
pub use self::limits::{Limit, Limits, Over};
pub(crate) use self::ticket::Ticket;

/// What callers may take, and have taken. Guards share it.
///
/// Also notices callers whose keys are weak, which needs no limits: see the metric
/// `onceward_weak_keys_total`.
pub struct Quotas {
    limits: Limits,
    second: Option<Rate>,
    day: Option<Rate>,
    mismatches: Option<Rate>,
    clock: Arc<dyn Clock>,
    peer_of: Option<PeerOf>,
    policy: Option<HeaderValue>,
    accounts: Accounts,
    ledger: Option<Ledger>,
    counted_every: Duration,
}

type PeerOf = Box<dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync>;

/// What is known of a request that takes something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nature {
    /// Nothing: it may be a duplicate.
    Unseen,
    /// It begins something new.
    New,
    /// It goes on with work whose holder fell silent, or pays for what is written already: it adds
    /// no record.
    Resumed,
}

/// Who pays for a request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Subject {
    /// The caller.
    Caller(Arc<str>),
    /// Whoever sends from this address, under whichever name.
    Peer(IpAddr),
}

// === impl Quotas ===

impl Quotas {
    /// Returns quotas of which nothing is taken.
    pub fn new(limits: Limits) -> Self {
        Self {
            second: Rate::new(limits.claims_per_second, 1),
            day: Rate::new(limits.claims_per_day, 86_400),
            mismatches: Rate::new(limits.mismatches_per_minute, 60),
            clock: Arc::new(SystemClock),
            peer_of: None,
            policy: limits.policy(),
            accounts: Accounts::new(),
            ledger: limits.need_census().then(Ledger::default),
            counted_every: Duration::from_secs(600),
            limits,
        }
    }

    /// Uses another clock than the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Limits requests by the address that `peer_of` returns, if it returns one, and not by their
    /// caller: for callers that nobody has verified, who could give themselves any name. Of an
    /// IPv6 address the first 64 bits count, for a peer has all of the others.
    #[must_use]
    pub fn peers(
        mut self,
        peer_of: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.peer_of = Some(Box::new(peer_of));
        self
    }

    /// Sets how often records are counted, which is when a caller that has too many is told to
    /// come back. Default: 10 minutes.
    #[must_use]
    pub fn counted_every(mut self, span: Duration) -> Self {
        self.counted_every = span;
        self
    }

    /// What the limits are.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Says that records are about to be counted, for [`Quotas::end_count`].
    pub fn begin_count(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.begin();
        }
    }

    /// Takes what was counted since [`Quotas::begin_count`], by tenant, in place of what was
    /// counted before.
    pub fn end_count(&self, tenants: HashMap<Arc<str>, Holdings>) {
        if let Some(ledger) = &self.ledger {
            ledger.end(tenants);
        }
    }

    /// Who pays for a request of this caller.
    pub(crate) fn payer(&self, parts: &Parts, scope: &Scope) -> Subject {
        let peer = self.peer_of.as_ref().and_then(|peer_of| peer_of(parts));
        peer.map_or_else(|| Subject::Caller(scope.tenant().into()), Subject::peer)
    }

    /// Takes what a claim needs, or says what there is too little of.
    pub(crate) fn take(
        self: &Arc<Self>,
        payer: &Subject,
        arrival: &Arrival,
        nature: Nature,
    ) -> Result<Ticket, Over> {
        let now = self.clock.monotonic();
        let (place, taken) = self.accounts.of(payer, now, |account| {
            // First of all: a mismatch that is refused must look like any new claim, or it would
            // tell that there is one.
            self.check_mismatches(account, now)?;
            if nature != Nature::Resumed {
                self.check_holdings(payer)?;
            }
            let unseen = nature == Nature::Unseen;
            let spare = if unseen { 0 } else { account.asking };
            self.check_rates(account, spare, 1, now)?;
            let second = take_one(self.second, &mut account.second, now);
            let day = take_one(self.day, &mut account.day, now);
            account.running += 1;
            account.asking += u32::from(unseen);
            Ok(ticket::Taken { second, day })
        });
        let unseen = nature == Nature::Unseen;
        Ok(Ticket::new(
            self.clone(),
            place,
            taken?,
            payer,
            arrival,
            unseen,
        ))
    }

    /// Lets a request keep what it took before it was known that it begins something, unless
    /// others who knew have taken it meanwhile.
    fn confirm(&self, place: &Place) -> Result<(), Over> {
        let now = self.clock.monotonic();
        let mut checked = Ok(());
        self.accounts.at(place, |account| {
            account.asking = account.asking.saturating_sub(1);
            checked = self.check_rates(account, account.asking, 0, now);
        });
        checked
    }

    /// Counts a request whose key was used for another payload. Returns the limit if it is over
    /// it, and what is wrong with the caller's keys if the log is to be told.
    pub(crate) fn mismatched(
        &self,
        payer: &Subject,
        arrival: &Arrival,
    ) -> (Option<Over>, Option<(Weak, bool)>) {
        let now = self.clock.monotonic();
        let digest = self.accounts.digest(arrival.slot().key().as_str());
        let (_, noted) = self.accounts.of(payer, now, |account| {
            let over = self.check_mismatches(account, now).err();
            if over.is_none() {
                take_one(self.mismatches, &mut account.mismatches, now);
            }
            let weak = account.habits.mismatched(digest);
            let weak = weak.map(|weak| (weak, account.habits.tells(weak, now)));
            (over, weak)
        });
        noted
    }

    /// Notes the key of a new claim. Returns what is wrong with the caller's keys, if anything
    /// is, and whether the log is to be told.
    pub(crate) fn claimed(&self, payer: &Subject, arrival: &Arrival) -> Option<(Weak, bool)> {
        let now = self.clock.monotonic();
        let key = arrival.slot().key().as_str();
        let digest = self.accounts.digest(key);
        let (_, noted) = self.accounts.of(payer, now, |account| {
            let weak = account.habits.claimed(key, digest)?;
            Some((weak, account.habits.tells(weak, now)))
        });
        noted
    }

    fn check_holdings(&self, payer: &Subject) -> Result<(), Over> {
        let Some(ledger) = &self.ledger else {
            return Ok(());
        };
        let held = ledger.of(payer);
        let reached = |limit: Option<u64>, held: i64| {
            limit.is_some_and(|limit| u64::try_from(held).unwrap_or(0) >= limit)
        };
        if reached(self.limits.stored, held.stored) {
            return Err(self.over(Limit::Stored, self.counted_every));
        }
        if reached(self.limits.unknown, held.unknown) {
            return Err(self.over(Limit::Unknown, self.counted_every));
        }
        Ok(())
    }

    /// Says which limit an account has reached, if `more` than is taken passes it: first the one
    /// that lasts longest. So much of what is taken may be given back: it does not count.
    fn check_rates(
        &self,
        account: &mut Account,
        spare: u32,
        more: u32,
        now: Duration,
    ) -> Result<(), Over> {
        let wanted = i64::from(more) - i64::from(spare);
        let (day, second) = (&mut account.day, &mut account.second);
        self.check_rate(Limit::ClaimsPerDay, self.day, day, wanted, now)?;
        self.check_rate(Limit::ClaimsPerSecond, self.second, second, wanted, now)?;
        match self.limits.running {
            Some(most) if i64::from(account.running) + wanted > i64::from(most) => {
                Err(self.over(Limit::Running, Duration::from_secs(1)))
            }
            _ => Ok(()),
        }
    }

    fn check_mismatches(&self, account: &mut Account, now: Duration) -> Result<(), Over> {
        let (limit, rate) = (Limit::MismatchesPerMinute, self.mismatches);
        self.check_rate(limit, rate, &mut account.mismatches, 1, now)
    }

    fn check_rate(
        &self,
        limit: Limit,
        rate: Option<Rate>,
        window: &mut Option<Box<Window>>,
        wanted: i64,
        now: Duration,
    ) -> Result<(), Over> {
        let (Some(rate), Some(window)) = (rate, window) else {
            return Ok(());
        };
        match rate.margin(window, now) < wanted {
            true => Err(self.over(limit, rate.renews_in(window, now))),
            false => Ok(()),
        }
    }

    fn over(&self, limit: Limit, retry_after: Duration) -> Over {
        Over {
            limit,
            retry_after,
            policy: self.policy.clone(),
        }
    }

    /// What is left to an account: the value of `RateLimit`.
    fn remaining(&self, place: &Place) -> Option<HeaderValue> {
        let now = self.clock.monotonic();
        let mut text = String::new();
        self.accounts.at(place, |account| {
            for (limit, rate, window) in [
                (Limit::ClaimsPerSecond, self.second, &mut account.second),
                (Limit::ClaimsPerDay, self.day, &mut account.day),
            ] {
                let (Some(rate), Some(window)) = (rate, window) else {
                    continue;
                };
                let comma = if text.is_empty() { "" } else { ", " };
                let (name, left) = (limit.name(), rate.left(window, now));
                let renews = whole_secs(rate.renews_in(window, now));
                text += &format!("{comma}\"{name}\";r={left};t={renews}");
            }
        });
        HeaderValue::try_from(text).ok().filter(|it| !it.is_empty())
    }
}

fn take_one(rate: Option<Rate>, window: &mut Option<Box<Window>>, now: Duration) -> Option<u64> {
    Some(rate?.take(window.get_or_insert_default(), now))
}

impl fmt::Debug for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotas")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

// === impl Subject ===

impl Subject {
    /// Whoever sends from this address.
    pub(crate) fn peer(address: IpAddr) -> Self {
        Self::Peer(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Ipv6Addr::from_bits(network).into()
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}
