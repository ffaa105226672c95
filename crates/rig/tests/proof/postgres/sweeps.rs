//! Sweeps that race with whoever uses an expired slot again: a live claim is never removed.

use std::time::Duration;

use onceward::store::{Insert, Swap};
use onceward::testing::records;
use onceward::{Record, SlotId, State, Store, Timestamp};
use onceward_rig::postgres::scratch;
use onceward_rig::tally::Tally;

use super::site::{run, store};
use crate::budget::Budget;

const HOUR: Duration = Duration::from_secs(3600);

/// How many slots are raced for at once.
const SLOTS: u64 = 50;

/// Who came first in how many races.
#[derive(Debug, Default)]
struct Races {
    claimed_over: u64,
    swept: u64,
}

#[test]
fn a_sweep_never_removes_a_live_claim() {
    run(async {
        let (url, scratch) = scratch().await;
        let (a, b) = (store(&url), store(&url));
        let budget = Budget::seconds(8);
        let mut races = Races::default();
        let mut round = 0;
        while budget.lasts() {
            let slots = (0..SLOTS).map(|slot| records::slot(&format!("{round}-{slot}")));
            let expired = records::completed(Duration::from_micros(1));
            let mut old = Vec::new();
            for slot in slots {
                let record = records::rewritten(&expired);
                let insert = a.insert(slot, &record, Timestamp::NEVER);
                assert_eq!(insert.await.expect("it answers").value, Insert::Done);
                old.push((slot, record));
            }
            let claims = old.iter().map(|(slot, old)| claim(&*a, *slot, old));
            let claims = futures_util::future::join_all(claims);
            let sweeps = async {
                for store in [&b, &a, &b, &a, &b] {
                    let sweep = store.sweep(Timestamp::NEVER, 20).await;
                    sweep.expect("it answers");
                }
            };
            let (claimed, ()) = tokio::join!(claims, sweeps);
            // Also afterwards: nothing that is alive is due.
            b.sweep(Timestamp::NEVER, 1_000).await.expect("it answers");
            for (slot, claim, over) in claimed {
                let found = b.get(slot).await.expect("it answers").value;
                let found = found.expect("a live claim was removed");
                assert_eq!(found.fence, claim.fence, "somebody else's record is there");
                assert!(matches!(found.state, State::Claimed(_)));
                match over {
                    true => races.claimed_over += 1,
                    false => races.swept += 1,
                }
            }
            round += 1;
        }
        let trials = races.claimed_over + races.swept;
        let note = format!(
            "{} claims over an expired record, {} after it was swept; none removed",
            races.claimed_over, races.swept
        );
        println!("sweep races, postgres: {trials} trials; {note}");
        Tally::record("sweep races, postgres", trials, None, 0, &note);
        assert!(races.claimed_over > 0 && races.swept > 0, "no race: {note}");
        drop((a, b, scratch));
    });
}

/// Claims a slot with an expired record, or what the sweep has made of it. Returns the claim, and
/// whether it came before the sweep.
async fn claim(store: &dyn Store, slot: SlotId, old: &Record) -> (SlotId, Record, bool) {
    let claim = records::claimed(HOUR);
    let replace = store.replace(slot, old.fence, &claim, Timestamp::NEVER);
    let over = match replace.await.expect("it answers").value {
        Swap::Done => true,
        Swap::Moved(None) => {
            let insert = store.insert(slot, &claim, Timestamp::NEVER);
            assert_eq!(insert.await.expect("it answers").value, Insert::Done);
            false
        }
        other => panic!("{other:?}"),
    };
    (slot, claim, over)
}
