//! What sweeping costs those who claim meanwhile.

use std::time::Duration;

use onceward::{Engine, Pace, Policy};
use onceward_stores::embedded::EmbeddedStore;

use super::embedded::Payer;
use crate::load::Load;
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
    let sweeper = payer.engine.sweeper(Pace::default());
    let beside = measure(&payer, span).await;
    drop(sweeper);
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

    let mut removed = 0;
    loop {
        let swept = payer.engine.sweep(10_000).await?;
        removed += swept.removed;
        if !swept.more {
            break;
        }
    }
    assert!(removed > 0, "there was something left to sweep");
    Ok(())
}

async fn measure(payer: &Payer, span: Duration) -> Load {
    let payer = payer.clone();
    let pay = move |_, _| {
        let payer = payer.clone();
        async move { payer.pay().await }
    };
    Load::run(64, span, pay).await
}
