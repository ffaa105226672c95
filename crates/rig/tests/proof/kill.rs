//! kill -9 of a real process at random moments: what was acknowledged is there.

use std::time::{Duration, Instant};

use onceward_rig::tally::Tally;

use crate::budget::Budget;
use crate::victim::{Said, Victim};

#[test]
fn no_acknowledged_outcome_is_lost_by_kill_9() {
    kill_again_and_again("kill -9, embedded", "", 40);
}

#[test]
fn no_acknowledged_outcome_is_lost_by_kill_9_without_syncing() {
    kill_again_and_again("kill -9, embedded without fsync", "?durability=os", 15);
}

fn kill_again_and_again(proof: &str, parameters: &str, seconds: u64) {
    let temporary = tempfile::tempdir().expect("a folder for the store");
    let folder = temporary.path().join("store");
    let url = format!("embedded:{}{parameters}", folder.display());
    let budget = Budget::seconds(seconds);
    let mut random = fastrand::Rng::new();
    let mut all = Said::default();
    let (mut kills, mut from) = (0, 0);
    while budget.lasts() {
        let mut victim = Victim::start(&url, (from, 1_000_000), []);
        // From "not even open" to "a few hundred keys in", and then anywhere within a batch.
        victim.hear(random.usize(0..400));
        spin(Duration::from_micros(random.u64(0..3_000)));
        let said = victim.kill();
        said.check(&folder);
        from = said.effects.last().map_or(from, |last| last + 1_000);
        all.effects.extend(said.effects);
        all.done.extend(said.done);
        kills += 1;
    }
    // Also what was acknowledged long before the last kill.
    all.check(&folder);
    assert!(all.done.len() > 100, "the victims hardly worked");
    let note = format!("{} acknowledged, lost 0", all.done.len());
    Tally::record(proof, kills, None, 0, &note);
}

/// Passes a few microseconds; sleeping would take far longer than that.
#[allow(clippy::disallowed_methods)] // a random moment, on purpose
fn spin(span: Duration) {
    let start = Instant::now();
    while start.elapsed() < span {
        std::hint::spin_loop();
    }
}
