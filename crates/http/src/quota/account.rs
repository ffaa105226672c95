//! Accounts: what each caller has taken lately.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use parking_lot::Mutex;

use super::Subject;
use super::habits::Habits;
use super::window::Window;

/// What one caller has taken lately. Windows are made when something is taken.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) second: Option<Box<Window>>,
    pub(super) day: Option<Box<Window>>,
    pub(super) mismatches: Option<Box<Window>>,
    /// Executions under way, and requests that ask for one.
    pub(super) running: u32,
    /// Requests among them that may turn out to be duplicates.
    pub(super) asking: u32,
    pub(super) habits: Habits,
    /// When it was last looked at.
    used: Duration,
}

/// The accounts of all callers, in bounded memory.
#[derive(Debug)]
pub(super) struct Accounts {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    accounts: HashMap<Subject, Account>,
    /// What those share for whom there is no room.
    rest: Account,
    /// How many accounts there are when it is time to look for those that are not needed.
    tidy_at: usize,
    /// When that was last done.
    tidied: Duration,
}

/// Where an account is found again.
#[derive(Clone, Debug)]
pub(super) struct Place {
    shard: usize,
    /// Nobody, if it is the one that is shared for want of room.
    subject: Option<Subject>,
}

const SHARDS: usize = 16;

/// How many callers have an account of their own: about 55 MB if each has windows of all kinds.
const ACCOUNTS_MAX: usize = 65_536;

/// How many accounts a shard may have before anybody looks whether they are needed.
const TIDY_MIN: usize = 256;

/// How often a shard that is full is looked through.
const TIDY_EVERY: Duration = Duration::from_secs(1);

// === impl Accounts ===

impl Accounts {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Returns a digest of a key, by which it is told from others in this process alone.
    pub(super) fn digest(&self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Works on the account of `subject`, which is made if there is none.
    pub(super) fn of<T>(
        &self,
        subject: &Subject,
        now: Duration,
        work: impl FnOnce(&mut Account) -> T,
    ) -> (Place, T) {
        let shard = (self.hasher.hash_one(subject) % SHARDS as u64) as usize;
        let mut found = self.shards[shard].lock();
        let account = found.account(subject, now);
        let subject = account.is_some().then(|| subject.clone());
        let account = match account {
            Some(account) => account,
            None => &mut found.rest,
        };
        account.used = now;
        (Place { shard, subject }, work(account))
    }

    /// Works on an account that was there before, if it still is.
    pub(super) fn at(&self, place: &Place, work: impl FnOnce(&mut Account)) {
        let mut shard = self.shards[place.shard].lock();
        match &place.subject {
            None => work(&mut shard.rest),
            Some(subject) => {
                if let Some(account) = shard.accounts.get_mut(subject) {
                    work(account);
                }
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|it| it.lock().accounts.len()).sum()
    }
}

// === impl Shard ===

impl Shard {
    const MAX: usize = ACCOUNTS_MAX / SHARDS;

    /// The account of `subject`, or `None` if there is no room for one.
    fn account(&mut self, subject: &Subject, now: Duration) -> Option<&mut Account> {
        // While there is plenty of room nobody asks whether more is needed.
        let is_tight = self.accounts.len() >= self.tidy_at.max(TIDY_MIN);
        if is_tight && !self.accounts.contains_key(subject) {
            self.tidy(now);
            if self.accounts.len() >= Self::MAX {
                return None;
            }
        }
        Some(self.accounts.entry(subject.clone()).or_default())
    }

    /// Drops the accounts of callers that have taken nothing that still counts.
    fn tidy(&mut self, now: Duration) {
        if self.accounts.len() >= Self::MAX && now < self.tidied + TIDY_EVERY {
            return; // each look costs as much as there are accounts
        }
        self.accounts.retain(|_, account| !account.is_idle(now));
        self.tidy_at = (self.accounts.len() * 2).min(Self::MAX);
        self.tidied = now;
    }
}

// === impl Account ===

impl Account {
    /// The longest that anything counts, with some air.
    const LAST: Duration = Duration::from_secs(86_400 + 3_600);

    /// How long habits of a caller are remembered that took nothing that counts for longer.
    const HABITS: Duration = Duration::from_secs(600);

    fn is_idle(&self, now: Duration) -> bool {
        let unused = now.saturating_sub(self.used);
        let long = self.day.as_ref().is_some_and(|day| !day.is_empty());
        let limit = if long { Self::LAST } else { Self::HABITS };
        self.running == 0 && unused > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(number: usize) -> Subject {
        Subject::Caller(format!("caller-{number}").into())
    }

    #[test]
    fn accounts_are_bounded_and_the_rest_share_one() {
        let (accounts, now) = (Accounts::new(), Duration::from_secs(100));
        for number in 0..2 * ACCOUNTS_MAX {
            accounts.of(&caller(number), now, |account| account.running += 1);
        }
        assert!(accounts.len() <= ACCOUNTS_MAX);
        let rest: u32 = accounts
            .shards
            .iter()
            .map(|it| it.lock().rest.running)
            .sum();
        assert_eq!(rest as usize + accounts.len(), 2 * ACCOUNTS_MAX);
    }

    #[test]
    fn accounts_that_nobody_uses_are_dropped_and_others_stay() {
        let (accounts, mut now) = (Accounts::new(), Duration::from_secs(100));
        let (busy, _) = accounts.of(&caller(0), now, |account| account.running = 1);
        accounts.of(&caller(1), now, |_| ());
        now += 2 * Account::HABITS;
        for number in 2..SHARDS * TIDY_MIN * 4 {
            accounts.of(&caller(number), now, |_| ());
        }
        let all = SHARDS * TIDY_MIN * 4;
        assert!(accounts.len() < all, "{}", accounts.len());
        let mut found = false;
        accounts.at(&busy, |account| found = account.running == 1);
        assert!(found);
    }
}
