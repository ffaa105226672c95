//! Random walks: several engines on one store do what engines may do, in any order, and the
//! judge reads what came of it.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use onceward::testing::ManualClock;
use onceward::{Claim, Effect, Engine, Fingerprint, MemoryStore, OnBusy, Reason, Verdict};

use super::paused;
use crate::history::{self, Judgement};
use crate::lab::Lab;

/// One walk.
struct Walk {
    lab: Arc<Lab>,
    engines: Vec<Engine>,
    held: Vec<Held>,
    random: Rng,
}

/// A claim in a caller's own hands.
struct Held {
    claim: Claim,
    /// What the service said, once the work is done.
    receipt: Option<String>,
}

const KEYS: [&str; 2] = ["a", "b"];
const ENGINES: u32 = 3;
const STEPS: usize = 40;

/// How many walks come across everything that walks do; a hundred times that in the long form.
pub(super) fn round() -> u64 {
    let is_long = std::env::var("ONCEWARD_PROOF").is_ok_and(|form| form == "long");
    if is_long { 20_000 } else { 200 }
}

pub(super) fn trial(seed: u64) -> Option<String> {
    let mut walk = Walk::new(seed);
    let runtime = paused();
    runtime.block_on(async {
        for _ in 0..STEPS {
            walk.step().await;
        }
        walk.end().await
    })
}

// === impl Walk ===

impl Walk {
    fn new(seed: u64) -> Self {
        let random = Rng::with_seed(seed);
        let clock = Arc::new(ManualClock::new());
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        let effects = [Effect::Opaque, Effect::Keyed, Effect::Probed];
        let effect = effects[seed as usize % effects.len()];
        let mut lab = Lab::new(store, clock, (effect, effect), "walker");
        if let Some(lab) = Arc::get_mut(&mut lab) {
            lab.policy.on_busy = OnBusy::Refuse;
        }
        let engines = (1..=ENGINES).map(|number| lab.engine(lab.recorded(number)));
        Self {
            engines: engines.collect(),
            held: Vec::new(),
            random,
            lab,
        }
    }

    async fn step(&mut self) {
        let key = KEYS[self.random.usize(..KEYS.len())];
        let engine = self.engines[self.random.usize(..self.engines.len())].clone();
        match self.random.u8(..16) {
            0..=3 => self.begin(&engine, key).await,
            4 => drop(self.lab.pay(&engine, key).await),
            5..=7 => self.execute(),
            8..=9 => self.end_one(|held| held.receipt.is_some()).await,
            10 => self.end_one(|_| true).await,
            11 => drop(self.take(|_| true)),
            12 => drop(engine.sweep(1_000).await),
            13 => tokio::time::sleep(Duration::from_secs(2)).await,
            _ => self.pass_time(),
        }
    }

    async fn begin(&mut self, engine: &Engine, key: &str) {
        let payload = match self.random.u8(..8) {
            0 => Fingerprint::of(b"900"),
            _ => Lab::payload(),
        };
        if let Some(Verdict::Execute(claim)) = self.lab.begin(engine, key, payload).await {
            let receipt = None;
            self.held.push(Held { claim, receipt });
        }
    }

    /// Does the work of a claim that is still held, as far as its holder can tell.
    fn execute(&mut self) {
        let is_due = |held: &Held| held.receipt.is_none() && held.claim.is_held();
        let Some(mut held) = self.take(is_due) else {
            return;
        };
        held.receipt = self.lab.execute(&held.claim);
        // A service that refuses has seen a newer fence: there is nothing left to say.
        if held.receipt.is_some() {
            self.held.push(held);
        }
    }

    /// Ends a claim as its holder knows it: what was not begun did not happen.
    async fn end_one(&mut self, which: impl Fn(&Held) -> bool) {
        let Some(Held { claim, receipt }) = self.take(which) else {
            return;
        };
        match receipt {
            Some(receipt) if self.random.u8(..5) > 0 => drop(claim.complete(receipt).await),
            Some(_) => drop(claim.abandon(Reason::new("no answer")).await),
            None => drop(claim.release().await),
        }
    }

    fn take(&mut self, which: impl Fn(&Held) -> bool) -> Option<Held> {
        let found = self.held.iter().enumerate().filter(|(_, it)| which(it));
        let places: Vec<_> = found.map(|(at, _)| at).collect();
        let at = self.random.choice(places)?;
        Some(self.held.swap_remove(at))
    }

    fn pass_time(&mut self) {
        let spans = [
            Duration::from_secs(1),
            Lab::LEASE / 3,
            Lab::LEASE / 2,
            Lab::LEASE + Duration::from_millis(1),
            Lab::RETENTION + Lab::LEASE,
        ];
        // A fenced service of the lab remembers its first receipt for good, whatever we forget.
        let last = usize::from(self.lab.policy.effect == Effect::Probed);
        let span = spans[self.random.usize(..spans.len() - last)];
        self.lab.clock.advance(span);
    }

    /// Lets a new process retry every key, and asks the judge.
    async fn end(mut self) -> Option<String> {
        self.held.clear();
        self.lab.clock.advance(2 * Lab::LEASE);
        let engine = self.lab.engine(self.lab.recorded(ENGINES + 1));
        for key in KEYS {
            let _ = self.lab.pay(&engine, key).await;
        }
        let history = self.lab.history().await;
        let report = history::check(&history);
        match report.judgement {
            Judgement::Pass => None,
            Judgement::Fail(_) | Judgement::Unknown(_) => Some(report.to_string()),
        }
    }
}
