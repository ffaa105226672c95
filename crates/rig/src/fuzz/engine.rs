//! Orders of what callers, operators and time do to two engines on one store, read by the judge.

use std::sync::Arc;
use std::time::Duration;

use onceward::testing::ManualClock;
use onceward::{
    By, Claim, Effect, Engine, Fingerprint, MemoryStore, Outcome, Reason, Resolution, Verdict,
};

use super::Choices;
use crate::history::{self, Judgement};
use crate::lab::Lab;

const KEYS: [&str; 2] = ["a", "b"];

/// What goes on in one run.
struct Play {
    lab: Arc<Lab>,
    engines: [Engine; 2],
    /// The claims that somebody holds, with the number of the key and the receipt of the work if
    /// it was done.
    held: Vec<(usize, Claim, Option<String>)>,
    /// Whether keys may be used again after their retention: the lab's other services know a key
    /// for ever.
    ages: bool,
    /// Whether a retention may have ended, so that the ledger no longer tells what a record needs.
    aged: bool,
}

/// Takes one byte of how, then one or two bytes for each thing that happens.
///
/// # Panics
///
/// Panics if the judge does not pass the history of it.
pub fn check(bytes: &[u8]) {
    let mut from = Choices(bytes);
    let effect = from.pick(&[Effect::Opaque, Effect::Keyed, Effect::Probed]);
    let clock = Arc::new(ManualClock::new());
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let lab = Lab::new(store, clock, (effect, effect), "tenant");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    let history = runtime.block_on(async {
        let engines = [1, 2].map(|number| lab.engine(lab.recorded(number)));
        let mut play = Play {
            lab: lab.clone(),
            engines,
            held: Vec::new(),
            ages: effect == Effect::Opaque,
            aged: false,
        };
        let mut steps = 0;
        while !from.is_over() && steps < 60 {
            steps += 1;
            play.step(&mut from).await;
        }
        lab.history().await
    });
    let report = history::check(&history);
    assert_eq!(report.judgement, Judgement::Pass, "{report}\n{history:#?}");
}

// === impl Play ===

impl Play {
    async fn step(&mut self, from: &mut Choices<'_>) {
        let choice = from.byte();
        let (deed, key) = (choice >> 3, usize::from(choice & 1));
        let engine = &self.engines[usize::from(choice >> 1 & 1)];
        match deed % 13 {
            0 | 1 => {
                // Nobody waits here: the holder would have to be waited for in the same play.
                if let Some(claim) = self.begin(engine, key, Lab::payload()).await {
                    self.held.push((key, claim, None));
                }
            }
            2 => {
                let other = Fingerprint::of(b"900");
                if let Some(claim) = self.begin(engine, key, other).await {
                    self.held.push((key, claim, None));
                }
            }
            3 => self.work(from),
            4 | 5 => self.complete(from).await,
            6 => self.release(from).await,
            7 => {
                if let Some((_, claim, _)) = self.take(from) {
                    let _ = claim.abandon(Reason::new("no answer")).await;
                }
            }
            8 => drop(self.take(from)),
            9 => self.lab.lapse(),
            10 => {
                let part = u32::from(from.byte()) + 1;
                let whole = if self.ages {
                    Lab::RETENTION
                } else {
                    Lab::LEASE
                };
                self.lab.clock.advance(whole * part / 64);
                self.aged |= self.ages;
                // Renewals and other background work have their turn.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            11 => while engine.sweep(100).await.is_ok_and(|swept| swept.more) {},
            _ => self.resolve(engine, key).await,
        }
    }

    async fn begin(&self, engine: &Engine, key: usize, with: Fingerprint) -> Option<Claim> {
        let engine = engine.with_policy(self.lab.policy.clone().on_busy(onceward::OnBusy::Refuse));
        match self.lab.begin(&engine, KEYS[key], with).await {
            Some(Verdict::Execute(claim)) => Some(claim),
            _ => None,
        }
    }

    fn take(&mut self, from: &mut Choices<'_>) -> Option<(usize, Claim, Option<String>)> {
        let count = self.held.len();
        (count > 0).then(|| self.held.swap_remove(from.below(count)))
    }

    /// Does the work of a claim: a holder whose time is over begins none.
    fn work(&mut self, from: &mut Choices<'_>) {
        let count = self.held.len();
        if count == 0 {
            return;
        }
        let (_, claim, receipt) = &mut self.held[from.below(count)];
        if receipt.is_none() && claim.is_held() {
            *receipt = self.lab.execute(claim);
        }
    }

    async fn complete(&mut self, from: &mut Choices<'_>) {
        let Some((_, claim, receipt)) = self.take(from) else {
            return;
        };
        let receipt = match receipt {
            None if claim.is_held() => self.lab.execute(&claim),
            receipt => receipt,
        };
        match receipt {
            Some(receipt) => drop(claim.complete(receipt).await),
            None => drop(claim.abandon(Reason::new("refused")).await),
        }
    }

    /// Releases a claim whose work was not begun.
    async fn release(&mut self, from: &mut Choices<'_>) {
        match self.take(from) {
            Some((_, claim, None)) => drop(claim.release().await),
            Some((_, claim, Some(receipt))) => drop(claim.complete(receipt).await),
            None => {}
        }
    }

    /// An operator looks into the ledger, once no holder is left who could still work.
    async fn resolve(&self, engine: &Engine, key: usize) {
        let slot = self.lab.slot(KEYS[key]);
        let Ok(id) = engine.id_of(&slot).await else {
            return;
        };
        if self.aged || self.held.iter().any(|(held, ..)| *held == key) {
            return;
        }
        let resolution = match self.lab.service.charges(id) {
            0 => Resolution::NotExecuted,
            1 => Resolution::Completed(Outcome::success(format!("{id}-0"))),
            _ => return,
        };
        let by = By {
            who: "ann".to_owned(),
            why: "read in the ledger".to_owned(),
        };
        let _ = engine.resolve(id, resolution, &by).await;
    }
}
