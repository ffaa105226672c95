//! Settings: what others than the usual ones make of claim + complete.

use super::server::{Persistence, Server};
use crate::Failed;
use crate::figures::Side;
use crate::payer::Payer;
use crate::plan::Plan;
use crate::process::DISK;
use crate::report::{Report, millis, thousands};

const CALLERS: [usize; 2] = [1, 64];

/// Measures one setting after the other; the median counts.
pub(crate) async fn run(report: &mut Report, settings: &str, plan: Plan) -> Result<(), Failed> {
    report.table(
        "claim + complete with other settings, and on the embedded store",
        &["setting", "1 caller", "p50", "64 callers", "p50"],
    );
    let more = if settings.is_empty() { "" } else { "&" };
    let server = Server::start(Persistence::EverySecond).await?;
    let _replica = server.replica(Persistence::EverySecond).await?;
    let url = server.store("settings", &format!("wait=1{more}{settings}"));
    row(report, "redis_wait", "wait=1, one replica", &url, plan).await?;

    let folder = tempfile::tempdir_in(DISK)?;
    let path = folder.path().display();
    let url = format!("embedded:{path}/fsync");
    row(report, "embedded", "embedded, with fsync", &url, plan).await?;
    let url = format!("embedded:{path}/os?durability=os");
    row(report, "embedded_os", "embedded, durability=os", &url, plan).await
}

async fn row(
    report: &mut Report,
    name: &str,
    title: &str,
    url: &str,
    plan: Plan,
) -> Result<(), Failed> {
    let payer = Payer::open(url).await?;
    let mut cells = vec![title.to_owned()];
    for callers in CALLERS {
        eprintln!("{title}, {callers} callers");
        let mut sides: Vec<Side> = Vec::new();
        for _ in 0..plan.rounds {
            sides.push(payer.keep_paying(callers, plan).await.into());
        }
        sides.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let side = sides[(sides.len() - 1) / 2];
        side.report(report, &format!("{name}_pair_{callers}"));
        cells.extend([thousands(side.rate), millis(side.p50)]);
    }
    report.row(cells);
    payer.replay_some().await;
    Ok(())
}
