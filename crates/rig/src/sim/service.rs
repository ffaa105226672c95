//! The services behind: slow, losing answers, executing late, and each of its class.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use onceward::{Fence, Outcome, SlotId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::coverage::Mark;
use super::plan::{Job, Route};
use super::world::World;
use crate::lab::Recorder;

/// What the services know, by slot.
#[derive(Debug)]
pub(super) struct Services {
    recorder: Arc<Recorder>,
    accounts: Mutex<HashMap<SlotId, Account>>,
}

#[derive(Debug, Default)]
struct Account {
    answers: Vec<Given>,
    /// The highest fence seen: a probed service refuses older ones.
    fence: Option<Fence>,
    /// Requests that are on their way.
    under_way: u32,
}

/// An answer that a service gave.
#[derive(Clone, Debug)]
struct Given {
    mark: Fence,
    generation: Fence,
    outcome: Outcome,
}

/// What whoever asks a service gets to hear.
#[derive(Clone, Debug)]
pub(super) enum Heard {
    /// It is done, or finally refused.
    Answer(Outcome),
    /// It was not done, says a probe.
    NotDone,
    /// The fence is older than another one.
    Fenced,
    /// The service could not be reached: nothing was sent.
    NeverSent,
    /// Nothing, or nothing that helps.
    Nothing,
}

/// What is asked of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    Charge,
    Probe,
}

/// A request, under whose claim it is made, and with which payload.
#[derive(Clone, Debug)]
struct Request {
    job: Arc<Job>,
    ask: Ask,
    fence: Fence,
    payload: Arc<str>,
    /// Whether the service will refuse for good, should it come to execute.
    declined: bool,
}

// === impl Services ===

impl Services {
    pub(super) fn new(recorder: Arc<Recorder>) -> Self {
        let accounts = Mutex::default();
        Self { recorder, accounts }
    }

    /// What an operator finds out about a generation: its answer if there is one, or that
    /// nothing was done. `None` while a request is on its way.
    pub(super) fn truth(&self, slot: SlotId, generation: Fence) -> Option<Option<Outcome>> {
        let accounts = self.accounts.lock();
        let Some(account) = accounts.get(&slot) else {
            return Some(None);
        };
        let answer = account.of(generation).map(|given| given.outcome.clone());
        (account.under_way == 0).then_some(answer)
    }

    /// Sends a request, and waits for what comes back.
    pub(super) async fn ask(
        world: &Arc<World>,
        job: &Arc<Job>,
        ask: Ask,
        fence: Fence,
        payload: &Arc<str>,
    ) -> Heard {
        let calm = world.is_calm();
        if !calm && world.chance(0.06) {
            world.hit(Mark::NeverSent);
            return Heard::NeverSent;
        }
        let request = Request {
            job: job.clone(),
            ask,
            fence,
            payload: payload.clone(),
            declined: world.chance(0.05),
        };
        if calm || world.chance(0.3) {
            return world.services.land(&request, world);
        }
        world.services.depart(job.id);
        let lease = world.plan.lease.as_millis() as u64;
        let (mut there, mut back) = match world.chance(0.5) {
            true => (world.span(1, 200), Duration::ZERO),
            false => (Duration::ZERO, world.span(1, 200)),
        };
        let patience = world.span(2_000, 3 * lease);
        let lost = match world.pick(20) {
            0 => Some(false),
            1 => Some(true),
            2 => {
                there = patience + world.span(1, 2 * lease);
                world.hit(Mark::ServiceLate);
                None
            }
            3 | 4 => {
                back = world.span(0, 2 * lease);
                None
            }
            _ => None,
        };
        if lost.is_some() {
            world.hit(Mark::ServiceSilent);
        }
        let again = ask == Ask::Charge && job.route.deduplicates() && world.chance(0.05);
        let (answer, answered) = oneshot::channel();
        let far = world.clone();
        // What was sent arrives, whoever has died or given up meanwhile.
        tokio::spawn(async move {
            far.rest(there).await;
            let heard = (lost != Some(false)).then(|| far.services.land(&request, &far));
            if again {
                far.rest(back).await;
                far.services.land(&request, &far);
            }
            far.services.arrived(request.job.id);
            far.rest(back).await;
            if let Some(heard) = heard.filter(|_| lost.is_none()) {
                // Nobody may be waiting any more.
                let _ = answer.send(heard);
            }
        });
        tokio::select! {
            biased;
            heard = async { match answered.await {
                Ok(heard) => heard,
                Err(_) => std::future::pending().await,
            } } => heard,
            () = world.rest(patience) => Heard::Nothing,
        }
    }

    fn depart(&self, slot: SlotId) {
        self.accounts.lock().entry(slot).or_default().under_way += 1;
    }

    fn arrived(&self, slot: SlotId) {
        self.accounts.lock().entry(slot).or_default().under_way -= 1;
    }

    /// Does what is asked, as a service of the class does.
    fn land(&self, request: &Request, world: &World) -> Heard {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(request.job.id).or_default();
        let route = request.job.route;
        if route == Route::Probed {
            if account.fence > Some(request.fence) {
                world.hit(Mark::Fenced);
                return Heard::Fenced;
            }
            account.fence = Some(request.fence);
        }
        let Some((_, generation)) = self.recorder.writer(request.fence) else {
            world.blame(format!("{:?} was never granted", request.fence));
            return Heard::Nothing;
        };
        match request.ask {
            Ask::Probe if !world.is_calm() && world.chance(0.15) => {
                world.hit(Mark::ProbeCannotSay);
                Heard::Nothing
            }
            Ask::Probe => match account.of(generation) {
                Some(given) => {
                    world.hit(Mark::ProbeDone);
                    Heard::Answer(given.outcome.clone())
                }
                None => {
                    world.hit(Mark::ProbeNotDone);
                    Heard::NotDone
                }
            },
            Ask::Charge => {
                // The keys of orders are used again for other ones, which a service that never
                // forgets a key would answer with what it once did.
                let for_order = request.job.payloads[0].order.is_some();
                let forgets = route == Route::Staged || for_order && route == Route::Keyed;
                let known = match route {
                    Route::Keyed if !for_order => account.answers.first(),
                    Route::Keyed | Route::Staged => account.of(generation),
                    Route::Probed => account.answers.iter().find(|it| it.mark == request.fence),
                    Route::Opaque | Route::Repeatable => None,
                };
                if let Some(given) = known {
                    return Heard::Answer(given.outcome.clone());
                }
                // One that deduplicates for a generation only would refuse what it once did.
                let declined = request.declined && (!forgets || account.answers.is_empty());
                let outcome = self.execute(request, declined, account.answers.len(), world);
                account.answers.push(Given {
                    mark: request.fence,
                    generation,
                    outcome: outcome.clone(),
                });
                Heard::Answer(outcome)
            }
        }
    }

    fn execute(&self, request: &Request, declined: bool, number: usize, world: &World) -> Outcome {
        let slot = request.job.id;
        let receipt = format!("{slot}-{number}");
        if declined {
            world.hit(Mark::ServiceRefused);
            return Outcome::failure(receipt);
        }
        let payload = Some(request.payload.clone());
        self.recorder
            .accepted(slot, request.fence, payload, &receipt);
        Outcome::success(receipt)
    }
}

// === impl Account ===

impl Account {
    fn of(&self, generation: Fence) -> Option<&Given> {
        self.answers.iter().find(|it| it.generation == generation)
    }
}

/// How long somebody who looks into a service's books waits after the last word of a holder:
/// whatever it had begun by then has been sent.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(10);
