//! What sweeping costs those who claim meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onceward::{Engine, Pace, Policy};
use onceward_stores::embedded::EmbeddedStore;

use crate::load::Load;
use crate::payer::Payer;
use crate::report::{Report, millis, rounded, thousands};

type Failed = Box<dyn std::error::Error>;

/// Measures claims alone, then beside a sweeper that always has something to remove.
pub(crate) async fn run(report: &mut Report, span: Duration) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let store = EmbeddedStore::open(folder.path().join("store"))?;
    // Everything expires at once, so that the sweeper never rests.
    let policy = Policy::default().retention(Duration::from_millis(1));
    let payer = Payer::new(Engine::new(store, policy));
    let alone = measure(&payer, span).await;
    let removed = Arc::new(AtomicUsize::new(0));
    let sweeper = tokio::spawn(sweep_on(payer.engine.clone(), removed.clone()));
    let beside = measure(&payer, span).await;
    let removed = removed.load(Ordering::Relaxed);
    sweeper.abort();
    assert!(
        removed > 0,
        "the sweeper removed nothing while others claimed"
    );
    report.table(
        "sweeping, 64 in flight, with fsync",
        &["", "claim + complete", "p50", "p99"],
    );
    for (what, load) in [("alone", &alone), ("beside a sweeper", &beside)] {
        report.row([
            what.to_owned(),
            thousands(load.rate),
            millis(load.p50()),
            millis(load.p99()),
        ]);
    }
    let cost = beside.p99() as f64 / alone.p99() as f64;
    report.value("sweep_p99_ratio", rounded(cost));

    report.value("sweep_removed", removed);
    Ok(())
}

/// Sweeps at the pace of [`Engine::sweeper`], and counts what it removes.
async fn sweep_on(engine: Engine, removed: Arc<AtomicUsize>) {
    let pace = Pace::default();
    loop {
        let swept = engine.sweep(pace.step).await.expect("the store answers");
        removed.fetch_add(swept.removed, Ordering::Relaxed);
        tokio::time::sleep(if swept.more { pace.pause } else { pace.every }).await;
    }
}

async fn measure(payer: &Payer, span: Duration) -> Load {
    let payer = payer.clone();
    let pay = move |_, _| {
        let payer = payer.clone();
        async move { payer.pay().await }
    };
    Load::run(64, span, pay).await
}
