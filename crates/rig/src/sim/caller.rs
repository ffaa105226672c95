//! Callers: they ask, wait, go away, come back, and sometimes cheat.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use onceward::{
    Answer, Arrival, Attempt, Claim, Done, Duty, Elsewhere, EndError, Engine, Error, Outcome,
    PointError, Reason, RunError, SlotId, State, Twin, Verdict,
};

use super::coverage::Mark;
use super::order::Order;
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
    /// Nobody knows what became of the work in this slot.
    Unknown(SlotId),
    /// It is done under another key.
    Elsewhere,
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
        let call = Call::of(&world, &job);
        let node = world.pick(world.plan.nodes as u64) as usize;
        let told = once(call, node).await;
        if matches!(told, Told::Answer(_) | Told::Mismatch | Told::Elsewhere) {
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
    /// A try to get `job` done. Whoever has an order mostly makes up another key for it, and at
    /// times brings what was meant for another order.
    fn of(world: &Arc<World>, job: &Arc<Job>) -> Self {
        let order = job.payloads[0].order.map(|order| &world.plan.orders[order]);
        let (job, cheats) = match order {
            Some(order) if world.chance(0.8) => (world.one_of(&order.jobs), 0.15),
            Some(_) => (job, 0.15),
            None => (job, 0.05),
        };
        Self {
            world: world.clone(),
            job: job.clone(),
            payload: usize::from(world.chance(cheats)),
        }
    }

    fn order(&self) -> Option<&Order> {
        let order = self.job.payloads[self.payload].order?;
        Some(&self.world.plan.orders[order])
    }

    async fn arrival(&self, engine: &Engine) -> Result<Arrival, Error> {
        let fingerprint = &self.job.payloads[self.payload].fingerprint;
        let arrival = engine.prepare(&self.job.slot, fingerprint).await?;
        Ok(match self.order() {
            Some(order) => {
                let backwards = order.len() > 1 && self.world.chance(0.5);
                order.bind(arrival, engine.secret().await?, backwards)
            }
            None => arrival,
        })
    }

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
        let answer = match self.arrival(engine).await {
            Ok(arrival) => engine.run_for(&arrival, work).await,
            Err(error) => Err(error.into()),
        };
        self.world.recorder.told(self.asked(at), &answer);
        self.heard(at, answer)
    }

    fn heard(&self, at: u64, answer: Result<Answer, RunError>) -> Told {
        let (mark, told) = match answer {
            Ok(answer) => {
                if answer.replayed && self.world.recorder.now() - at > 100_000_000 {
                    self.world.hit(Mark::Waited);
                }
                self.count(&answer.outcome);
                (Mark::Answered, Told::Answer(answer.outcome))
            }
            Err(RunError::Busy(_)) => (Mark::Busy, Told::Busy),
            Err(RunError::Mismatch) => (Mark::Mismatch, Told::Mismatch),
            Err(RunError::Unknown(unsettled)) => {
                let own = unsettled.slot == self.job.id;
                let mark = if own {
                    Mark::Unknown
                } else {
                    Mark::TwinUnknown
                };
                (mark, Told::Unknown(unsettled.slot))
            }
            Err(RunError::Elsewhere(elsewhere)) => return self.elsewhere(&elsewhere),
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

    /// Notes whether an answer is that of a twin.
    fn count(&self, outcome: &Outcome) {
        let receipt = outcome.body().map_or(&[][..], |body| body);
        if !receipt.starts_with(self.job.id.to_string().as_bytes()) {
            self.world.hit(Mark::Returned);
        }
    }

    /// Notes to which answer a caller was referred.
    fn elsewhere(&self, elsewhere: &Elsewhere) -> Told {
        let (Some(order), Twin::Done(replay)) = (self.order(), &elsewhere.twin) else {
            self.world
                .blame(format!("a caller was told: {elsewhere:?}"));
            return Told::Nothing;
        };
        let body = replay.outcome.body().map_or(&[][..], |body| body);
        order.refer(String::from_utf8_lossy(body).into());
        self.world.hit(Mark::Elsewhere);
        Told::Elsewhere
    }

    /// Holds the claim itself.
    async fn by_hand(&self, engine: &Engine) -> Told {
        let world = &self.world;
        let at = world.recorder.now();
        let Ok(arrival) = self.arrival(engine).await else {
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
                self.count(&replay.outcome);
                Told::Answer(replay.outcome)
            }
            Verdict::Busy(_) => Told::Busy,
            Verdict::Mismatch => {
                world.hit(Mark::Mismatch);
                Told::Mismatch
            }
            Verdict::Unknown(unsettled) => Told::Unknown(unsettled.slot),
            Verdict::Elsewhere(elsewhere) => self.elsewhere(&elsewhere),
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
        let (slot, fence) = (self.job.id, attempt.fence());
        let held = reply.value.filter(|record| {
            record.mark == Some(fence)
                && matches!(record.state, State::Claimed(_))
                && !record.has_lapsed(reply.now)
        });
        let Some(record) = held else {
            let what = format!("{fence} executes in {slot:?} and does not hold it");
            return self.world.blame(what);
        };
        let reserved = self.world.recorder.reserved_for(slot, record.generation);
        let named = self.order().map_or(0, Order::len);
        if reserved < named {
            let what = format!("{slot:?} executes with {reserved} of {named} identities");
            self.world.blame(what);
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
