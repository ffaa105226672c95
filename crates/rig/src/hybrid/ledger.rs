//! The ledger: what was done, which answers stand, and what callers were told.

use onceward::Timestamp;

use super::{Counts, Outcome, RETENTION};

/// What was done and said, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    works: Vec<Done>,
    pub(super) counts: Counts,
    wrong: Vec<String>,
}

/// A piece of work, by its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work(usize);

/// What became of a piece of work.
#[derive(Clone, Debug)]
struct Done {
    key: u64,
    payload: u64,
    began: Timestamp,
    state: Standing,
    /// The database does not have it any more.
    is_lost: bool,
    /// When an operator had taken it away.
    taken_away: Option<Timestamp>,
    /// The cache has forgotten that since.
    may_return: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// It was begun, and nobody has said how it ended, or the store has not.
    Begun,
    /// It provably did not happen.
    Released,
    /// Its answer is stored until then.
    Stored(Timestamp),
}

// === impl Work ===

impl Work {
    /// What it answers: nobody else's work answers the same.
    pub(super) fn answer(self) -> String {
        format!("answer {}", self.0)
    }
}

// === impl Ledger ===

impl Ledger {
    /// Somebody begins work at `now`. `was_shown` says that the cache had shown an
    /// answer.
    pub(super) fn execute(
        &mut self,
        key: u64,
        payload: u64,
        now: Timestamp,
        was_shown: bool,
    ) -> Work {
        let mut told = Vec::new();
        for done in self.works.iter().filter(|it| it.key == key) {
            let stands = match done.state {
                // The store may have taken it without saying so: then it expires in its time.
                Standing::Begun => now < done.began + RETENTION,
                Standing::Released => false,
                Standing::Stored(until) => now < until,
            };
            if !stands || done.taken_away.is_some() {
                continue;
            }
            match done.is_lost {
                false => told.push(format!(
                    "key {key} was executed twice: at {now:?}, after {done:?}"
                )),
                true if was_shown => {
                    told.push(format!(
                        "key {key} was executed against evidence: at {now:?}, after {done:?}"
                    ));
                }
                true => {}
            }
        }
        self.wrong.extend(told);
        self.counts.executions += 1;
        self.works.push(Done {
            key,
            payload,
            began: now,
            state: Standing::Begun,
            is_lost: false,
            taken_away: None,
            may_return: false,
        });
        Work(self.works.len() - 1)
    }

    /// Work was released, or the store has not said so.
    pub(super) fn released(&mut self, work: Work, is_known: bool) {
        if is_known {
            self.works[work.0].state = Standing::Released;
        } else {
            // It may be released at any later time, or be marked unknown.
            self.works[work.0].is_lost = true;
        }
    }

    /// Work is done, and its answer stored until then, if the store has said so.
    pub(super) fn completed(&mut self, work: Work, expires: Option<Timestamp>) {
        if let Some(expires) = expires {
            self.works[work.0].state = Standing::Stored(expires);
        }
    }

    /// An operator took the answer of `key` away, and that was over at `now`.
    pub(super) fn taken_away(&mut self, key: u64, now: Timestamp) {
        for done in self.works.iter_mut().filter(|it| it.key == key) {
            done.taken_away.get_or_insert(now);
        }
        self.counts.taken_away += 1;
    }

    /// The cache lost its tombstones: a memo that was on its way may come back after all.
    pub(super) fn forgot_tombstones(&mut self) {
        for done in &mut self.works {
            done.may_return |= done.taken_away.is_some();
        }
        self.counts.restored += 1;
    }

    /// The database lost the answer of `key`.
    pub(super) fn lost(&mut self, key: u64) {
        for done in self.works.iter_mut().filter(|it| it.key == key) {
            done.is_lost = true;
        }
        self.counts.lost += 1;
    }

    /// Whether the record of `key` has to be in the database at `now`.
    pub(super) fn stands(&self, key: u64, now: Timestamp) -> bool {
        let last = self.works.iter().rev().find(|it| it.key == key);
        last.is_some_and(|done| {
            let is_stored = matches!(done.state, Standing::Stored(until) if now < until);
            is_stored && !done.is_lost && done.taken_away.is_none()
        })
    }

    /// A caller who asked at `asked` was given an answer.
    pub(super) fn replayed(
        &mut self,
        key: u64,
        payload: u64,
        body: &[u8],
        asked: Timestamp,
        only_cache: bool,
    ) {
        self.counts.replays += 1;
        self.counts.cached += u64::from(only_cache);
        let text = String::from_utf8_lossy(body);
        let number = text.strip_prefix("answer ").and_then(|it| it.parse().ok());
        let Some(done) = number.and_then(|number: usize| self.works.get(number)) else {
            return self.wrong(&format!("nobody ever answered {text:?}"));
        };
        if (done.key, done.payload) != (key, payload) {
            return self.wrong("a foreign answer was given");
        }
        // What was taken away while the caller asked may be given or not.
        let was_taken = !done.may_return && done.taken_away.is_some_and(|at| at <= asked);
        match done.state {
            Standing::Stored(until) if until <= asked => {
                self.wrong("a stale answer was given: it had expired");
            }
            Standing::Released => self.wrong("work that did not happen was answered"),
            _ if was_taken => self.wrong("a stale answer was given: it had been taken away"),
            _ => {}
        }
    }

    pub(super) fn wrong(&mut self, what: &str) {
        self.wrong.push(what.to_owned());
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            wrong: self.wrong.clone(),
            counts: self.counts,
        }
    }
}
