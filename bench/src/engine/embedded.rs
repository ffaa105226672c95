//! The embedded store beside raw fjall, alternating in one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onceward::Engine;
use onceward_stores::embedded::EmbeddedStore;

use super::ceiling::Ceiling;
use crate::load::Load;
use crate::payer::Payer;
use crate::report::{Report, millis, rounded, thousands};

type Failed = Box<dyn std::error::Error>;

const IN_FLIGHT: [usize; 4] = [1, 16, 64, 256];

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
    payer.replay_some().await;
    Ok(())
}

fn ratio((ours, raw): &(Load, Load)) -> f64 {
    ours.rate / raw.rate
}
