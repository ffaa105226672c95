//! Growth: what millions of records do to throughput, start-up and memory.

use std::path::Path;
use std::time::Duration;

use onceward::{Engine, Policy};
use onceward_stores::embedded::EmbeddedStore;

use crate::load::{Load, Watch};
use crate::payer::Payer;
use crate::report::{Report, rounded, thousands};

type Failed = Box<dyn std::error::Error>;

/// So many spans are measured as one: what was filed is merged every few seconds, and a shorter time
/// shows one moment of that.
const MERGES: u32 = 5;

/// Grows a store to `millions` of records and says what that costs.
pub(crate) async fn run(report: &mut Report, millions: u64, span: Duration) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    let payer = Payer::new(open(&path)?);
    report.table(
        "growth, 256 in flight, with fsync",
        &["records", "claim + complete", "resident", "start-up"],
    );
    let mut marks = Vec::new();
    let first = millions.min(1);
    for goal in [first, millions] {
        grow(&payer, goal * 1_000_000).await;
        let rate = measure(&payer, span * MERGES).await;
        marks.push((payer.paid(), rate, resident()));
        eprintln!("{} records", payer.paid());
    }
    let paid = payer.paid();
    let engine = payer.engine.clone();
    drop(payer);
    engine.shutdown(Duration::from_secs(30)).await;
    drop(engine);

    let watch = Watch::start();
    let payer = Payer::new(open_when_free(&path).await?);
    let startup = watch.elapsed().as_secs_f64();
    for number in (0..paid).step_by((paid as usize / 1_000).max(1)) {
        payer.replay(number).await;
    }
    let [(small, slow, low), (large, fast, high)] = marks[..] else {
        unreachable!("two marks were taken");
    };
    let slope = (high - low).max(0.0) / (large - small) as f64;
    for (at, (records, rate, memory)) in marks.iter().enumerate() {
        let startup = if at == 1 {
            format!("{startup:.2} s")
        } else {
            String::new()
        };
        report.row([
            format!("{:.1}M", *records as f64 / 1e6),
            thousands(*rate),
            format!("{:.0} MiB", memory / f64::from(1 << 20)),
            startup,
        ]);
    }
    report.value("startup_s", rounded(startup));
    report.value("bytes_per_record", rounded(slope));
    report.value("growth_records", large);
    report.value("growth_ratio", rounded(fast / slow));
    Ok(())
}

async fn grow(payer: &Payer, records: u64) {
    let mut seen = 0;
    while payer.paid() < records {
        measure(payer, Duration::from_secs(1)).await;
        if payer.paid() / 1_000_000 > seen {
            seen = payer.paid() / 1_000_000;
            eprintln!("{seen} of {} million records", records / 1_000_000);
        }
    }
}

async fn measure(payer: &Payer, span: Duration) -> f64 {
    let payer = payer.clone();
    let pay = move |_, _| {
        let payer = payer.clone();
        async move { payer.pay().await }
    };
    Load::run(256, span, pay).await.rate
}

fn open(path: &Path) -> Result<Engine, Failed> {
    Ok(Engine::new(EmbeddedStore::open(path)?, Policy::default()))
}

/// Opens the store as soon as the engine before has let go of it.
async fn open_when_free(path: &Path) -> Result<Engine, Failed> {
    for _ in 0..500 {
        if let Ok(engine) = open(path) {
            return Ok(engine);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    open(path)
}

/// Anonymous resident memory of this process, in bytes: the page cache is not ours.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}
