//! Running work once, in transactions of its own: begin, do, complete, commit, or wait.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use onceward::protocol::decide;
use onceward::record::Point;
use onceward::store::{self, Reply, Store as _};
use onceward::{
    Answer, Arrival, BoxError, Busy, Fence, Fingerprint, Outcome, Replay, RunError, Slot, Verdict,
};
use tokio::sync::MutexGuard;

use super::fault::code;
use super::hub::{Hub, Line, Seat};
use super::patience::Patience;
use super::source::Source;
use super::tx::Tx;
use super::{Shared, Transactional};

mod attempt;

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
    /// The line broke when the commit was on its way, or between two phases. The slot knows.
    InDoubt(BoxError),
}

/// What a run has left in the slot, as far as it knows: the mark of the claim that it wrote with
/// a recovery point. A record that carries it is its own, to go on with; others wait for it.
#[derive(Default)]
struct Own(Option<Fence>);

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
    /// What the database is asked has the settings' timeout to be answered; the work's own
    /// statements take as long as they take.
    ///
    /// Work that returns [`Next::Reached`] is committed with a recovery point and called again in
    /// another transaction, with the point in [`Tx::point`]. After a crash, or an error of a
    /// later transaction, the next caller goes on after the last point. Such an error is
    /// [`RunError::Unknown`], for what came before the point did happen.
    ///
    /// The work may be called again where another transaction came in between or the line broke,
    /// once everything it did is rolled back. A line that broke at the commit is no answer: the
    /// slot is asked. Only if that cannot be had either, the answer is [`RunError::Pending`].
    /// Work that ends its transaction itself is [`RunError::Unknown`], and nothing is stored.
    /// Cancel safe: a future that is dropped has its transaction rolled back, or has committed it
    /// as a whole.
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
        let (mut doubt, mut own) = (None, Own::default());
        loop {
            let mut busy = None;
            match self.0.attempt(source, &arrival, &mut work, &mut own).await {
                Ok(Tried::Answer(answer)) => return Ok(answer),
                Ok(Tried::Busy(found)) => busy = found,
                Ok(Tried::Overtaken(error)) => {
                    let code = code(&error);
                    tracing::debug!(slot = ?arrival.id(), code, "overtaken");
                }
                Ok(Tried::InDoubt(error)) => doubt = Some(error),
                // A server that is gone after our commit was sent leaves us in doubt.
                Err(RunError::Engine(error)) if doubt.is_some() || own.0.is_some() => {
                    doubt.get_or_insert_with(|| error.into());
                }
                Err(error) => return Err(error),
            }
            let told = seat.told();
            if let Some(answer) = self.0.recall(&arrival).await? {
                return Ok(answer);
            }
            let _line = seat.line().ok_or(RunError::Busy(CROWDED))?;
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
    twin: None,
};

/// What to say where too many wait already.
const CROWDED: Busy = Busy {
    crowded: true,
    ..LATER
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
        let _line: Line<'_> = seat.line().ok_or(RunError::Busy(CROWDED))?;
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
            Ok(Verdict::Busy(_) | Verdict::Execute(_) | Verdict::Elsewhere(_)) | Err(_) => Ok(None),
        }
    }
}

fn replayed(replay: Replay) -> Answer {
    Answer {
        outcome: replay.outcome,
        replayed: true,
        expires: replay.expires,
    }
}

fn unavailable(source: BoxError) -> store::Error {
    store::Error::unavailable("postgres", source)
}
