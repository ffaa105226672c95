//! The embedded store beside raw fjall, alternating in one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onceward::{Engine, Fingerprint, Key, Outcome, Scope, Slot, Verdict};
use onceward_stores::embedded::EmbeddedStore;

use super::ceiling::Ceiling;
use crate::load::Load;
use crate::report::{Report, millis, rounded, thousands};

type Failed = Box<dyn std::error::Error>;

const IN_FLIGHT: [usize; 4] = [1, 16, 64, 256];

/// Claims and completes slots that were never used before.
#[derive(Clone, Debug)]
pub(crate) struct Payer {
    pub(crate) engine: Engine,
    next: Arc<AtomicU64>,
    outcome: Outcome,
}

// === impl Payer ===

impl Payer {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            next: Arc::new(AtomicU64::new(0)),
            outcome: Outcome::success(vec![7; 300]),
        }
    }

    /// Claims and completes the next slot.
    pub(crate) async fn pay(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        match self.begin(number).await {
            Verdict::Execute(claim) => {
                let kept = claim.complete(self.outcome.clone()).await;
                assert!(kept.expect("completed").body, "the answer is kept");
            }
            other => panic!("a new key executes, not {other:?}"),
        }
    }

    /// Replays a slot that was paid for.
    pub(crate) async fn replay(&self, number: u64) {
        match self.begin(number).await {
            Verdict::Replay(replay) => assert_eq!(replay.outcome, self.outcome),
            other => panic!("a finished key replays, not {other:?}"),
        }
    }

    /// How many slots were paid for.
    pub(crate) fn paid(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    async fn begin(&self, number: u64) -> Verdict {
        let key = Key::parse(&format!("8e03978e-40d5-43e8-bc93-{number:012}"));
        let slot = Slot::new(
            Scope::new("acct_42", "POST /payments"),
            key.expect("printable"),
        );
        let fingerprint = Fingerprint::of(b"{\"amount\":100}");
        let verdict = self.engine.begin(&slot, fingerprint).await;
        verdict.expect("the store answers")
    }
}

/// Measures both sides in turn, `rounds` times, each for `span`; the median ratio counts.
pub(crate) async fn run(report: &mut Report, rounds: usize, span: Duration) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let payer = Payer::new(Engine::new(
        EmbeddedStore::open(folder.path().join("store"))?,
        onceward::Policy::default(),
    ));
    let ceiling = Ceiling::open(&folder.path().join("ceiling"))?;
    let raw_next = Arc::new(AtomicU64::new(0));
    report.table(
        "embedded store, claim + complete with fsync, beside raw fjall with the same batching",
        &[
            "in flight",
            "onceward",
            "p50",
            "p99",
            "raw fjall",
            "p50",
            "p99",
            "ratio",
        ],
    );
    for in_flight in IN_FLIGHT {
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            let ours = payer.clone();
            let pay = move |_, _| {
                let ours = ours.clone();
                async move { ours.pay().await }
            };
            let ours = Load::run(in_flight, span, pay).await;
            let (raw, next) = (ceiling.clone(), raw_next.clone());
            let claim = move |_, _| {
                let (raw, number) = (raw.clone(), next.fetch_add(1, Ordering::Relaxed));
                async move { raw.claim_and_complete(number).await }
            };
            let raw = Load::run(in_flight, span, claim).await;
            pairs.push((ours, raw));
        }
        pairs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let middle = &pairs[pairs.len() / 2];
        let (ours, raw) = middle;
        report.row([
            in_flight.to_string(),
            thousands(ours.rate),
            millis(ours.p50()),
            millis(ours.p99()),
            thousands(raw.rate),
            millis(raw.p50()),
            millis(raw.p99()),
            format!("{:.2}x", ratio(middle)),
        ]);
        report.value(
            &format!("embedded_{in_flight}_ratio"),
            rounded(ratio(middle)),
        );
        report.value(&format!("embedded_{in_flight}_per_s"), rounded(ours.rate));
        report.value(&format!("embedded_{in_flight}_p99_us"), ours.p99());
    }
    check(&payer).await;
    Ok(())
}

/// The semantic result: what was paid for replays, and is paid for no second time.
async fn check(payer: &Payer) {
    let paid = payer.paid();
    assert!(paid > 0, "something was measured");
    for number in (0..paid).step_by((paid as usize / 1_000).max(1)) {
        payer.replay(number).await;
    }
}

fn ratio((ours, raw): &(Load, Load)) -> f64 {
    ours.rate / raw.rate
}
