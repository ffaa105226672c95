//! Callers: they ask, wait, go away, come back, and sometimes cheat.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use onceward::{
    Answer, Attempt, Claim, Done, Duty, EndError, Engine, Outcome, PointError, Reason, RunError,
    State, Verdict,
};

use super::coverage::Mark;
use super::plan::{Job, Route};
use super::service::{Ask, Heard, Services};
use super::world::World;
use crate::lab::Asked;

/// What a caller was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Answer(Outcome),
    Busy,
    Mismatch,
    Unknown,
    /// Nothing that it could not ask for again.
    Nothing,
}

/// How a piece of work ended.
enum Worked {
    Outcome(Outcome),
    NotExecuted,
    Unknown,
}

/// One call: what is asked for, and which of its payloads is brought.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) world: Arc<World>,
    pub(super) job: Arc<Job>,
    pub(super) payload: usize,
}

/// Several callers want the same at about the same time, and come back if they get no answer.
pub(super) async fn session(world: Arc<World>) {
    let job = world.one_of(&world.plan.jobs).clone();
    let lease = world.plan.lease.as_millis() as u64;
    let callers = match world.chance(0.02) {
        true => 8 + world.pick(12),
        false => 1 + world.pick(5),
    };
    let mut all = Vec::new();
    for _ in 0..callers {
        all.push(tokio::spawn(retrying(world.clone(), job.clone())));
        let pause = match world.pick(3) {
            0 => 0,
            1 => 50,
            _ => 2 * lease,
        };
        world.rest(world.span(0, pause)).await;
    }
    for caller in all {
        if caller.await.is_err() {
            world.blame("a caller panicked".to_owned());
        }
    }
}

/// Asks until there is an answer, or patience ends.
async fn retrying(world: Arc<World>, job: Arc<Job>) {
    for _ in 0..=world.pick(3) {
        if world.is_calm() {
            return;
        }
        let call = Call {
            world: world.clone(),
            job: job.clone(),
            payload: usize::from(world.chance(0.05)),
        };
        let node = world.pick(world.plan.nodes as u64) as usize;
        if matches!(once(call, node).await, Told::Answer(_) | Told::Mismatch) {
            return;
        }
        world.rest(world.span(50, 5_000)).await;
    }
}

/// Asks a node once, and goes away when it takes too long.
async fn once(call: Call, node: usize) -> Told {
    let world = call.world.clone();
    let Some(process) = world.process(node) else {
        return Told::Nothing;
    };
    world.operations.fetch_add(1, Ordering::Relaxed);
    let engine = process.engine(call.job.route).clone();
    let by_hand = world.chance(0.3);
    let mut task = process.spawn(async move {
        match by_hand {
            true => call.by_hand(&engine).await,
            false => call.run(&engine).await,
        }
    });
    drop(process);
    let patience = match world.chance(0.08) {
        true => world.span(0, 2_000),
        false => world.span(5_000, 40_000),
    };
    tokio::select! {
        biased;
        told = &mut task => told.unwrap_or(Told::Nothing),
        () = world.rest(patience) => {
            world.strike(Mark::CallerDropped, node);
            task.abort();
            Told::Nothing
        }
    }
}

// === impl Call ===

impl Call {
    fn asked(&self, at: u64) -> Asked<'_> {
        Asked {
            at,
            tenant: self.job.tenant(),
            slot: self.job.id,
            payload: &self.job.payloads[self.payload].name,
        }
    }

    /// Leaves everything to the engine.
    pub(super) async fn run(&self, engine: &Engine) -> Told {
        let at = self.world.recorder.now();
        let call = self.clone();
        let fingerprint = self.job.payloads[self.payload].fingerprint;
        let work = |attempt: Attempt| async move {
            if call.world.chance(0.01) && !call.world.is_calm() {
                call.world.hit(Mark::Panic);
                // Without a message: a panic hook would print it for every run.
                std::panic::resume_unwind(Box::new("the work panics"));
            }
            match call.work(&attempt).await {
                Worked::Outcome(outcome) => Done::outcome(outcome),
                Worked::NotExecuted => Done::not_executed("nothing was sent"),
                Worked::Unknown => Done::unknown("no answer"),
            }
        };
        let answer = engine.run(&self.job.slot, fingerprint, work).await;
        self.world.recorder.told(self.asked(at), &answer);
        self.heard(at, answer)
    }

    fn heard(&self, at: u64, answer: Result<Answer, RunError>) -> Told {
        let (mark, told) = match answer {
            Ok(answer) => {
                if answer.replayed && self.world.recorder.now() - at > 100_000_000 {
                    self.world.hit(Mark::Waited);
                }
                (Mark::Answered, Told::Answer(answer.outcome))
            }
            Err(RunError::Busy(_)) => (Mark::Busy, Told::Busy),
            Err(RunError::Mismatch) => (Mark::Mismatch, Told::Mismatch),
            Err(RunError::Unknown(_)) => (Mark::Unknown, Told::Unknown),
            Err(RunError::Pending(_)) => (Mark::Pending, Told::Nothing),
            Err(RunError::Engine(_)) => (Mark::Unavailable, Told::Nothing),
            Err(RunError::NotExecuted(_)) => return Told::Nothing,
            Err(other) => {
                self.world.blame(format!("a caller was told: {other}"));
                return Told::Nothing;
            }
        };
        self.world.hit(mark);
        told
    }

    /// Holds the claim itself.
    async fn by_hand(&self, engine: &Engine) -> Told {
        let world = &self.world;
        let at = world.recorder.now();
        let fingerprint = &self.job.payloads[self.payload].fingerprint;
        let Ok(arrival) = engine.prepare(&self.job.slot, fingerprint).await else {
            return Told::Nothing;
        };
        let Ok(verdict) = engine.admit(&arrival).await else {
            world.hit(Mark::Unavailable);
            return Told::Nothing;
        };
        world.recorder.judged(self.asked(at), &verdict);
        match verdict {
            Verdict::Execute(claim) => self.hold(claim).await,
            Verdict::Replay(replay) => {
                world.hit(Mark::Answered);
                Told::Answer(replay.outcome)
            }
            Verdict::Busy(_) => Told::Busy,
            Verdict::Mismatch => {
                world.hit(Mark::Mismatch);
                Told::Mismatch
            }
            Verdict::Unknown(_) => Told::Unknown,
            Verdict::Elsewhere(_) => Told::Nothing,
        }
    }

    async fn hold(&self, claim: Claim) -> Told {
        let world = &self.world;
        if world.chance(0.2) {
            // Thinks before it acts, for longer than a lease at times.
            let lease = world.plan.lease.as_millis() as u64;
            world.rest(world.span(0, 2 * lease)).await;
            if world.chance(0.2) {
                world.rest(world.span(0, 30_000)).await;
            }
        }
        let worked = self.work(&claim.as_attempt()).await;
        if world.chance(0.06) {
            world.strike(Mark::ClaimDropped, 0);
            return Told::Nothing;
        }
        let ended = match worked {
            Worked::Outcome(outcome) if world.chance(0.95) => {
                let done = claim.complete(outcome.clone()).await;
                if done.is_ok() {
                    world.hit(Mark::Answered);
                    return Told::Answer(outcome);
                }
                done.map(drop)
            }
            Worked::NotExecuted => claim.release().await,
            Worked::Outcome(_) | Worked::Unknown => {
                claim.abandon(Reason::new("nobody can tell")).await
            }
        };
        match ended {
            Err(EndError::Lost { .. }) => world.hit(Mark::Lost),
            Err(EndError::Pending { .. }) => world.hit(Mark::Pending),
            Err(EndError::Store(error)) => world.blame(format!("a claim ended with: {error}")),
            Ok(()) | Err(_) => {}
        }
        Told::Nothing
    }

    /// Does the work of an attempt.
    async fn work(&self, attempt: &Attempt) -> Worked {
        let world = &self.world;
        if attempt.duty() == Duty::Probe {
            match self.ask(Ask::Probe, attempt).await {
                Heard::Answer(outcome) => return Worked::Outcome(outcome),
                Heard::NotDone => {}
                Heard::NeverSent => return Worked::NotExecuted,
                Heard::Fenced | Heard::Nothing => return Worked::Unknown,
            }
        }
        if self.job.route == Route::Staged {
            match self.reserve(attempt).await {
                Ok(()) => {}
                Err(PointError::Lost) => return Worked::NotExecuted,
                Err(_) => return Worked::Unknown,
            }
        }
        // Right before the first byte leaves.
        if !attempt.is_held() {
            world.hit(Mark::NotHeld);
            return Worked::NotExecuted;
        }
        self.expect_held(attempt).await;
        match self.ask(Ask::Charge, attempt).await {
            Heard::Answer(outcome) => Worked::Outcome(outcome),
            Heard::NeverSent => Worked::NotExecuted,
            Heard::NotDone | Heard::Fenced | Heard::Nothing => Worked::Unknown,
        }
    }

    /// Holds an attempt that thinks its claim is held against what the store knows: nobody
    /// executes without a claim.
    async fn expect_held(&self, attempt: &Attempt) {
        let found = self.world.store.get(self.job.id).await;
        let reply = found.expect("the memory store answers");
        let held = reply.value.is_some_and(|record| {
            record.mark == Some(attempt.fence())
                && matches!(record.state, State::Claimed(_))
                && !record.has_lapsed(reply.now)
        });
        if !held {
            let (slot, fence) = (self.job.id, attempt.fence());
            self.world
                .blame(format!("{fence} executes in {slot:?} and does not hold it"));
        }
    }

    async fn ask(&self, ask: Ask, attempt: &Attempt) -> Heard {
        let payload = &self.job.payloads[self.payload].name;
        Services::ask(&self.world, &self.job, ask, attempt.fence(), payload).await
    }

    /// Reaches the recovery point, unless an earlier attempt has.
    async fn reserve(&self, attempt: &Attempt) -> Result<(), PointError> {
        if attempt.resumed().is_some() {
            self.world.hit(Mark::Resumed);
            return Ok(());
        }
        let reached = attempt.reached("reserved", "room 12").await;
        if reached.is_ok() {
            self.world.hit(Mark::Point);
        }
        reached
    }
}
