//! Running work once, in transactions of its own: begin, do, complete, commit, or wait.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use onceward::protocol::decide;
use onceward::record::Point;
use onceward::store::{self, Reply, Store as _};
use onceward::{
    Answer, Arrival, BoxError, Busy, Fingerprint, Outcome, Reason, Replay, RunError, Slot, Verdict,
};
use tokio::sync::MutexGuard;

use super::hub::{Hub, Seat};
use super::patience::Patience;
use super::phase::Paused;
use super::session::{Fault, Value};
use super::source::{Open, Source, Unfinished};
use super::tx::Tx;
use super::{Begun, Error, Shared, Transactional, Work, call};

/// What comes after what was done in a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Nothing: this is the outcome.
    Done(Outcome),
    /// A recovery point is reached, and another transaction goes on after it.
    Reached(Point),
}

/// What one try came to.
enum Tried {
    Answer(Answer),
    /// Somebody else is at it.
    Busy(Option<Busy>),
    /// Another transaction came in between, and nothing of this one is kept.
    Overtaken(BoxError),
    /// The line broke when the commit was on its way. The slot knows.
    InDoubt(BoxError),
}

// === impl Next ===

impl Next {
    /// A recovery point is reached; its data is what the next transactions need to know.
    pub fn reached(name: &str, data: impl Into<Bytes>) -> Self {
        Self::Reached(Point {
            name: name.into(),
            data: data.into(),
        })
    }
}

impl From<Outcome> for Next {
    fn from(outcome: Outcome) -> Self {
        Self::Done(outcome)
    }
}

// === impl Transactional ===

impl Transactional {
    /// Runs `work` in a transaction of `source`, unless it was run before under this key, and
    /// returns its outcome either way.
    ///
    /// The outcome commits with whatever the work wrote. An error of the work rolls everything
    /// back ([`RunError::NotExecuted`]) and leaves the key free. Whoever finds somebody else at
    /// it waits as long as the policy says, without a connection, and gets the same answer.
    ///
    /// Work that returns [`Next::Reached`] is committed with a recovery point and called again in
    /// another transaction, with the point in [`Tx::point`]. After a crash, or an error of a
    /// later transaction, the next caller goes on after the last point.
    ///
    /// The work may be called again where another transaction came in between or the line broke,
    /// once everything it did is rolled back. A line that broke at the commit is no answer: the
    /// slot is asked. Only if that cannot be had either, the answer is [`RunError::Pending`]. Cancel safe: a future that
    /// is dropped has its transaction rolled back, or has committed it as a whole.
    pub async fn run<P, W, F, N, E>(
        &self,
        source: &P,
        slot: &Slot,
        fingerprint: Fingerprint,
        mut work: W,
    ) -> Result<Answer, RunError>
    where
        P: Source,
        W: FnMut(Tx<P::Open>) -> F,
        F: Future<Output = Result<N, E>>,
        N: Into<Next>,
        E: Into<BoxError>,
    {
        let arrival = self.0.engine.prepare(slot, &fingerprint).await?;
        let seat = self.0.hub.seat(arrival.id());
        let mut patience = Patience::new(arrival.policy().on_busy);
        // One of this process at a time asks the database about a slot.
        let _turn = match self.0.turn(&seat, &arrival, &mut patience).await? {
            Either::Left(turn) => turn,
            Either::Right(answer) => return Ok(answer),
        };
        let mut pause = Hub::FIRST_PAUSE;
        let mut doubt = None;
        loop {
            let mut busy = None;
            match self.0.attempt(source, &arrival, &mut work).await {
                Ok(Tried::Answer(answer)) => return Ok(answer),
                Ok(Tried::Busy(found)) => busy = found,
                Ok(Tried::Overtaken(error)) => {
                    tracing::debug!(slot = ?arrival.id(), %error, "overtaken");
                }
                Ok(Tried::InDoubt(error)) => doubt = Some(error),
                // A server that is gone after our commit was sent leaves us in doubt.
                Err(RunError::Engine(_)) if doubt.is_some() => {}
                Err(error) => return Err(error),
            }
            let told = seat.told();
            if let Some(answer) = self.0.recall(&arrival).await? {
                return Ok(answer);
            }
            if !patience.wait(pause, told).await {
                return Err(match doubt {
                    Some(error) => RunError::Pending(Some(unavailable(error))),
                    None => RunError::Busy(busy.unwrap_or(LATER)),
                });
            }
            pause = (pause * 2).min(Hub::LONGEST_PAUSE);
        }
    }
}

/// What to say of a transaction, which has no lease: it may end at any time.
const LATER: Busy = Busy {
    retry_after: Duration::from_secs(1),
    crowded: false,
};

// === impl Shared ===

impl Shared {
    /// Waits for the turn to ask the database, or for an answer that makes that needless.
    async fn turn<'s>(
        &self,
        seat: &'s Seat,
        arrival: &Arrival,
        patience: &mut Patience,
    ) -> Result<Either<MutexGuard<'s, ()>, Answer>, RunError> {
        let queue = seat.queue();
        if let Ok(turn) = queue.turn.try_lock() {
            return Ok(Either::Left(turn));
        }
        let mut turn = Box::pin(queue.turn.lock());
        loop {
            let told = Box::pin(seat.told());
            let waited = patience.for_either(&mut turn, told).await;
            if let Some(answer) = self.recall(arrival).await? {
                return Ok(Either::Right(answer));
            }
            match waited {
                Some(Either::Left(turn)) => return Ok(Either::Left(turn)),
                Some(Either::Right(())) => {}
                None => return Err(RunError::Busy(LATER)),
            }
        }
    }

    /// What the slot tells, without a connection of the caller.
    async fn recall(&self, arrival: &Arrival) -> Result<Option<Answer>, RunError> {
        // A store that is away says nothing; the database itself is asked next.
        let Ok(Reply { value, now }) = self.store.get(arrival.id()).await else {
            return Ok(None);
        };
        let step = decide(value.as_deref(), arrival, now);
        match Verdict::of(step, arrival.id(), now) {
            Ok(Verdict::Replay(replay)) => Ok(Some(replayed(replay))),
            Ok(Verdict::Mismatch) => Err(RunError::Mismatch),
            Ok(Verdict::Unknown(unsettled)) => Err(RunError::Unknown(unsettled)),
            Ok(Verdict::Busy(_) | Verdict::Execute(_)) | Err(_) => Ok(None),
        }
    }

    /// Begins, does the work, completes and commits, as far as it gets.
    async fn attempt<P, W, F, N, E>(
        self: &Arc<Self>,
        source: &P,
        arrival: &Arrival,
        job: &mut W,
    ) -> Result<Tried, RunError>
    where
        P: Source,
        W: FnMut(Tx<P::Open>) -> F,
        F: Future<Output = Result<N, E>>,
        N: Into<Next>,
        E: Into<BoxError>,
    {
        let slot = arrival.id();
        let (take, look) = ([self.lock(slot)], [Value::Bytes(slot.as_bytes())]);
        let opened = source.open(&self.looking(&take, &look)).await;
        let (mut open, rows) = opened.map_err(|fault| failed(fault.into()))?;
        let looked = self.looked(slot, rows).map_err(failed)?;
        let begun = self.settle(&mut open, arrival, looked).await;
        let work = match begun.map_err(failed)? {
            Begun::Execute(work) => work,
            Begun::Replay(replay) => return Ok(Tried::Answer(replayed(replay))),
            Begun::Busy(waiter) => return Ok(Tried::Busy(waiter.into_busy())),
            Begun::Mismatch => return Err(RunError::Mismatch),
            Begun::Unknown(unsettled) => return Err(RunError::Unknown(unsettled)),
        };
        let mut next_up = (open, work);
        loop {
            let (tx, home) = Tx::lend(next_up.0, next_up.1);
            let done = job(tx).await;
            let Some((open, work)) = home.take() else {
                let kept = "the work kept its transaction beyond its end";
                return Err(RunError::NotExecuted(kept.into()));
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
                Next::Reached(point) => match self.reach(open, work, point).await? {
                    Ok(paused) => paused,
                    Err(tried) => return Ok(tried),
                },
            };
            next_up = match self.resume(source, paused).await {
                Ok(resumed) => resumed,
                Err(Error::Overtaken(error)) => return Ok(Tried::Overtaken(error)),
                Err(Error::Lost) => return Ok(Tried::Busy(None)),
                Err(error) => return Err(failed(error)),
            };
        }
    }

    async fn complete<O: Open>(
        &self,
        open: O,
        work: Work,
        outcome: Outcome,
    ) -> Result<Tried, RunError> {
        let write = work.completing(outcome.clone());
        let (statement, values) = self.write(&write);
        let rows = match open.finish(call(statement, &values)).await {
            Ok(rows) => rows,
            Err(unfinished) => return tried(unfinished),
        };
        let completed = work.completed(&write, rows).map_err(failed)?;
        let expires = completed.kept().expires;
        completed.announce();
        Ok(Tried::Answer(Answer {
            // The first caller gets its answer whole, even where it is too large to keep.
            outcome,
            replayed: false,
            expires,
        }))
    }

    /// Commits what was done with the point that it has reached.
    async fn reach<O: Open>(
        &self,
        open: O,
        work: Work,
        point: Point,
    ) -> Result<Result<Paused, Tried>, RunError> {
        let record = work.reaching(&point.name, point.data).map_err(failed)?;
        let write = work.write_of(&record);
        let (statement, values) = self.write(&write);
        match open.finish(call(statement, &values)).await {
            Ok(rows) => {
                let written = work.written(rows).map_err(failed)?;
                Ok(Ok(work.paused(record.stamped(written))))
            }
            Err(unfinished) => tried(unfinished).map(Err),
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
            let values = paused.values(&fence);
            source.open(&[call(&self.sql.hold, &values)]).await?
        };
        let work = paused.resumed(&mut open, &rows).await?;
        Ok((open, work))
    }

    /// The work failed and is rolled back. What stands in the slot since a recovery point is
    /// left to whoever comes next.
    async fn gave_up(&self, work: Work, error: BoxError) -> RunError {
        let slot = work.id();
        match work.into_paused() {
            Some(paused) => {
                let reason = Reason::new(format!("a phase failed: {error}"));
                if let Err(error) = paused.abandon(reason).await {
                    // Its lease lapses instead.
                    tracing::warn!(?slot, %error, "a phase that failed is still claimed");
                }
            }
            None => self.announce(slot, false),
        }
        RunError::NotExecuted(error)
    }
}

/// What to do about a transaction that was not, or may not have been, committed.
fn tried(unfinished: Unfinished) -> Result<Tried, RunError> {
    match unfinished {
        Unfinished::InDoubt(error) => Ok(Tried::InDoubt(error)),
        Unfinished::No(Fault::Conflict(error) | Fault::Missed(error)) => {
            Ok(Tried::Overtaken(error))
        }
        // Nothing of it is kept: a constraint that is checked at the end, or a statement of the
        // work that failed without the work telling.
        Unfinished::No(Fault::Refused(error)) => Err(RunError::NotExecuted(error)),
        Unfinished::No(fault @ Fault::Gone(_)) => Err(failed(fault.into())),
    }
}

fn replayed(replay: Replay) -> Answer {
    Answer {
        outcome: replay.outcome,
        replayed: true,
        expires: replay.expires,
    }
}

/// Nothing was executed.
fn failed(error: Error) -> RunError {
    match error {
        Error::Engine(error) => RunError::Engine(error),
        Error::Database(source) | Error::Overtaken(source) => {
            RunError::Engine(unavailable(source).into())
        }
        Error::Lost | Error::TooLarge(_) => RunError::NotExecuted(error.into()),
    }
}

fn unavailable(source: BoxError) -> store::Error {
    store::Error::unavailable("postgres", source)
}
