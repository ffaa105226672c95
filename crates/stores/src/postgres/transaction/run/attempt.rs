//! One try: a transaction, or one after the other while recovery points are reached.

use std::sync::Arc;

use onceward::record::Point;
use onceward::{Answer, Arrival, BoxError, Outcome, Reason, Record, RunError, Unsettled};
use tokio::time::timeout;

use super::super::fault::{Fault, Unfinished};
use super::super::phase::Paused;
use super::super::session::Calls as _;
use super::super::source::{Finished, LATE, Open, Source};
use super::super::tx::Tx;
use super::super::work::Write;
use super::super::{Begun, Error, Looked, Shared, Work, call};
use super::{Next, Own, Tried, replayed, unavailable};

/// What asking for the slot came to.
enum Asked<O> {
    Work(O, Work),
    Tried(Tried),
}

// === impl Shared ===

impl Shared {
    /// Begins, does the work, completes and commits, as far as it gets.
    pub(super) async fn attempt<P, W, F, N, E>(
        self: &Arc<Self>,
        source: &P,
        arrival: &Arrival,
        job: &mut W,
        own: &mut Own,
    ) -> Result<Tried, RunError>
    where
        P: Source,
        W: FnMut(Tx<P::Open>) -> F,
        F: Future<Output = Result<N, E>>,
        N: Into<Next>,
        E: Into<BoxError>,
    {
        let mut next_up = match self.ask(source, arrival, own).await? {
            Asked::Work(open, work) => (open, work),
            Asked::Tried(tried) => return Ok(tried),
        };
        loop {
            let (open, work) = next_up;
            let is_whole = work.is_whole();
            let (tx, home) = Tx::lend(open, work);
            let done = job(tx).await;
            let Some((open, work)) = home.take() else {
                let kept = "the work kept its transaction beyond its end";
                return Err(rolled_back(arrival, is_whole, kept.into()));
            };
            let next = match done {
                Ok(next) => next.into(),
                Err(error) => {
                    drop(open);
                    return Err(self.gave_up(work, error.into()).await);
                }
            };
            let paused = match next {
                Next::Done(outcome) => return self.complete(open, work, outcome).await,
                Next::Reached(point) => match self.reach(open, work, point, own).await? {
                    Ok(paused) => paused,
                    Err(tried) => return Ok(tried),
                },
            };
            next_up = match self.resume(source, paused).await {
                Ok(resumed) => resumed,
                Err(Error::Overtaken(error)) => return Ok(Tried::Overtaken(error)),
                Err(Error::Lost) => return Ok(Tried::Busy(None)),
                // What was done up to the point is committed: the slot knows.
                Err(error) => return Ok(Tried::InDoubt(error.into())),
            };
        }
    }

    /// Begins a transaction and asks for the slot in it.
    async fn ask<P: Source>(
        self: &Arc<Self>,
        source: &P,
        arrival: &Arrival,
        own: &Own,
    ) -> Result<Asked<P::Open>, RunError> {
        let opened = self.open(source, arrival.id()).await;
        let (mut open, looked) = opened.map_err(failed)?;
        let begun = match own.reclaims(&looked) {
            Some(found) => {
                let paused = Paused::new(self.clone(), arrival.clone(), found, false);
                let work =
                    self.in_time(&mut open, async |open| paused.reclaimed(open, looked).await);
                work.await.map(Begun::Execute)
            }
            None => {
                let settled = async |open: &mut P::Open| self.settle(open, arrival, looked).await;
                self.in_time(&mut open, settled).await
            }
        };
        match begun {
            Ok(Begun::Execute(work)) => Ok(Asked::Work(open, work)),
            Ok(Begun::Replay(replay)) => Ok(Asked::Tried(Tried::Answer(replayed(replay)))),
            Ok(Begun::Busy(waiter)) => Ok(Asked::Tried(Tried::Busy(waiter.into_busy()))),
            Ok(Begun::Mismatch) => Err(RunError::Mismatch),
            Ok(Begun::Unknown(unsettled)) => Err(RunError::Unknown(unsettled)),
            // Nothing was done yet, so there is nothing to lose by asking again.
            Err(Error::Overtaken(error)) => Ok(Asked::Tried(Tried::Overtaken(error))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Asks something in a transaction. A connection that does not answer in time is not used
    /// again.
    async fn in_time<O: Open, T>(
        &self,
        open: &mut O,
        ask: impl AsyncFnOnce(&mut O) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let answered = timeout(self.within(), ask(open)).await;
        answered.unwrap_or_else(|_| {
            open.spend();
            Err(Error::Database(LATE.into()))
        })
    }

    async fn complete<O: Open>(
        &self,
        open: O,
        work: Work,
        outcome: Outcome,
    ) -> Result<Tried, RunError> {
        let write = work.completing(outcome.clone());
        let finished = self.finish(open, &write).await;
        if let Err(unfinished) = finished {
            return self.tried(work, unfinished).await;
        }
        let completed = work.completed(&write);
        let expires = completed.kept().expires;
        completed.announce();
        Ok(Tried::Answer(Answer {
            // The first caller gets its answer whole, even where it is too large to keep.
            outcome,
            replayed: false,
            expires,
        }))
    }

    /// Writes and commits. A caller who leaves meanwhile leaves a doubt.
    async fn finish<O: Open>(&self, open: O, write: &Write) -> Finished {
        let under_way = self.store.doubts().under_way();
        let (statement, values) = self.write(write);
        let finished = open.finish(call(statement, &values), self.within()).await;
        if !matches!(finished, Err(Unfinished::InDoubt(_))) {
            under_way.end();
        }
        finished
    }

    /// Commits what was done with the point that it has reached.
    async fn reach<O: Open>(
        &self,
        open: O,
        work: Work,
        point: Point,
        own: &mut Own,
    ) -> Result<Result<Paused, Tried>, RunError> {
        let record = match work.reaching(&point.name, point.data) {
            Ok(record) => record,
            Err(error) => {
                drop(open);
                return Err(self.gave_up(work, error.into()).await);
            }
        };
        let write = work.write_of(&record);
        // From here on it may be in the slot, whatever is heard of it.
        own.0 = record.mark;
        match self.finish(open, &write).await {
            Ok(()) => Ok(Ok(work.paused(record.stamped(write.written())))),
            Err(unfinished) => self.tried(work, unfinished).await.map(Err),
        }
    }

    /// Goes on in another transaction.
    async fn resume<P: Source>(
        &self,
        source: &P,
        paused: Paused,
    ) -> Result<(P::Open, Work), Error> {
        let fence = paused.fence().to_string();
        let (mut open, rows) = {
            let (values, within) = (paused.values(&fence), self.within());
            source
                .open(&[call(&self.sql.hold, &values)], within)
                .await?
        };
        open.tell(self.store.doubts());
        let resumed = async |open: &mut P::Open| paused.resumed(open, &rows).await;
        let work = self.in_time(&mut open, resumed).await?;
        Ok((open, work))
    }

    /// What to do about a transaction that was not, or may not have been, committed.
    async fn tried(&self, work: Work, unfinished: Unfinished) -> Result<Tried, RunError> {
        match unfinished {
            Unfinished::InDoubt(error) => Ok(Tried::InDoubt(error)),
            Unfinished::No(Fault::Conflict(error) | Fault::Missed(error)) => {
                Ok(Tried::Overtaken(error))
            }
            // The work ended the transaction that it was lent, and nobody knows how.
            Unfinished::No(Fault::Apart) => {
                let slot = work.id();
                let reason = Reason::new(Error::Apart.to_string());
                self.leave(work, reason.clone()).await;
                Err(RunError::Unknown(Unsettled { slot, reason }))
            }
            // Nothing of it is kept: a constraint that is checked at the end, or a statement of
            // the work that failed without the work telling.
            Unfinished::No(Fault::Refused(error) | Fault::Forgotten(error)) => {
                Err(self.gave_up(work, error).await)
            }
            Unfinished::No(Fault::Gone(error)) if !work.is_whole() => Ok(Tried::InDoubt(error)),
            Unfinished::No(fault @ Fault::Gone(_)) => Err(failed(fault.into())),
        }
    }

    /// The work failed and is rolled back.
    async fn gave_up(&self, work: Work, error: BoxError) -> RunError {
        let (arrival, is_whole) = (work.arrival().clone(), work.is_whole());
        self.leave(work, phase_failed(&error)).await;
        rolled_back(&arrival, is_whole, error)
    }

    /// Leaves what stands in the slot since a recovery point to whoever comes next.
    async fn leave(&self, work: Work, reason: Reason) {
        let slot = work.id();
        let Some(paused) = work.into_paused() else {
            return self.announce(slot, false);
        };
        if let Err(error) = paused.abandon(reason).await {
            // Its lease lapses instead.
            tracing::warn!(?slot, %error, "a phase that failed is still claimed");
        }
    }
}

/// What to say of work whose last transaction is rolled back. With a recovery point or an earlier
/// attempt behind it, this speaks for that transaction alone, and the key is not free.
fn rolled_back(arrival: &Arrival, is_whole: bool, error: BoxError) -> RunError {
    let slot = arrival.id();
    match is_whole {
        true => RunError::NotExecuted(error),
        false => {
            let reason = phase_failed(&error);
            RunError::Unknown(Unsettled { slot, reason })
        }
    }
}

fn phase_failed(error: &BoxError) -> Reason {
    Reason::new(format!("a phase failed: {error}"))
}

/// Nothing was executed.
fn failed(error: Error) -> RunError {
    match error {
        Error::Engine(error) => RunError::Engine(error),
        Error::Database(source) | Error::Overtaken(source) => {
            RunError::Engine(unavailable(source).into())
        }
        Error::Apart | Error::Lost | Error::TooLarge(_) => RunError::NotExecuted(error.into()),
    }
}

// === impl Own ===

impl Own {
    /// The record that was found, if it is the run's own and not at its end.
    fn reclaims(&self, looked: &Looked) -> Option<Record> {
        let found = looked.found.as_ref()?;
        let is_own = self.0.is_some() && found.mark == self.0 && found.outcome().is_none();
        is_own.then(|| found.clone())
    }
}
