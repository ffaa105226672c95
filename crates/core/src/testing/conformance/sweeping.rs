//! Cases about sweeping: what has expired goes, what has lapsed is reported, the rest stays.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::ask::{self, ANSWERS, assert_same};
use crate::store::Swap;
use crate::testing::records::{self, LONG, SHORT};
use crate::{Record, Store, Timestamp};

/// Nothing is due in an empty store.
pub async fn an_empty_store_has_nothing_to_sweep(store: &Arc<dyn Store>) {
    let swept = ask::sweep(store, 10).await;
    assert_eq!((swept.removed, swept.lapsed.len()), (0, 0));
    assert!(!swept.more);
}

/// Completed, open and unknown records whose retention has ended are removed.
pub async fn expired_records_are_removed(store: &Arc<dyn Store>) {
    let expiring = [
        records::completed(SHORT),
        records::open(SHORT),
        records::unknown(Some(SHORT)),
    ];
    for record in &expiring {
        let slot = records::slot(record.state.name().as_str());
        ask::put(store, slot, record).await;
        ask::past_due(store, slot).await;
    }
    assert_eq!(ask::sweep_all(store, 100).await, expiring.len());
    for record in &expiring {
        let slot = records::slot(record.state.name().as_str());
        assert_eq!(ask::look(store, slot).await, None);
        ask::put(store, slot, record).await;
    }
}

/// Records whose time has not come stay, however far ahead the horizon is.
pub async fn a_horizon_in_the_future_counts_as_now(store: &Arc<dyn Store>) {
    let living = [
        records::claimed(LONG),
        records::completed(LONG),
        records::open(LONG),
        records::unknown(Some(LONG)),
        records::reserved(LONG),
    ];
    for record in &living {
        let slot = records::slot(record.state.name().as_str());
        ask::put(store, slot, record).await;
    }
    for horizon in [ask::now(store).await + 2 * LONG, Timestamp::NEVER] {
        let swept = store.sweep(horizon, 100).await.expect(ANSWERS).value;
        assert_eq!((swept.removed, swept.lapsed.len()), (0, 0));
    }
    for record in &living {
        let slot = records::slot(record.state.name().as_str());
        ask::holds(store, slot, record).await;
    }
}

/// An unknown record without a retention of its own, and one kept for ever, are never removed.
pub async fn what_has_no_end_is_never_removed(store: &Arc<dyn Store>) {
    let endless = [
        // Its retention counts once the work has ended, and nobody knows whether it has.
        Record {
            retention: SHORT,
            ..records::unknown(None)
        },
        records::completed(Duration::MAX),
        records::completed(Duration::from_micros(u64::MAX / 2 + 1)),
        records::open(Duration::MAX),
        records::claimed(Duration::MAX),
    ];
    let mut last = Timestamp::ZERO;
    for (at, record) in endless.iter().enumerate() {
        last = ask::put(store, records::slot(&format!("{at}")), record).await;
    }
    ask::past(store, last + SHORT).await;

    let swept = ask::sweep(store, 100).await;
    assert_eq!((swept.removed, swept.lapsed.len()), (0, 0));
    for (at, record) in endless.iter().enumerate() {
        ask::holds(store, records::slot(&format!("{at}")), record).await;
    }
}

/// A claim that lapsed is reported and not touched, in every sweep until somebody deals with it.
pub async fn a_lapsed_claim_is_reported_and_not_touched(store: &Arc<dyn Store>) {
    let slot = records::slot("k");
    // Neither retention is its own: a claim has a lease.
    let claim = Record {
        retention: SHORT,
        unknown_retention: Some(SHORT),
        ..records::claimed(SHORT)
    };
    ask::put(store, slot, &claim).await;
    let lapsed = ask::past_due(store, slot).await;

    for _ in 0..3 {
        let swept = ask::sweep(store, 100).await;
        assert_eq!(swept.removed, 0);
        assert_eq!(swept.lapsed, [(slot, lapsed.clone())]);
        assert_eq!(ask::found(store, slot).await, lapsed);
    }
    ask::swap(store, slot, claim.fence, &records::unknown(None)).await;
    assert_eq!(ask::sweep(store, 100).await.lapsed, []);
}

/// A reservation, and an answer whose body is not kept any longer, are reported when they are due
/// and not touched, in every sweep until somebody deals with them.
pub async fn what_the_protocol_deals_with_is_reported_and_not_touched(store: &Arc<dyn Store>) {
    for record in [records::reserved(SHORT), records::shedding(SHORT)] {
        let slot = records::slot(&record.fence.to_string());
        ask::put(store, slot, &record).await;
        let due = ask::past_due(store, slot).await;
        for _ in 0..3 {
            let swept = ask::sweep(store, 100).await;
            assert_eq!(swept.removed, 0);
            assert_eq!(swept.lapsed, [(slot, due.clone())]);
            assert_eq!(ask::found(store, slot).await, due);
        }
        let next = Record {
            retention: LONG,
            ..records::rewritten(&records::completed(LONG))
        };
        ask::swap(store, slot, record.fence, &next).await;
        assert_eq!(ask::sweep(store, 100).await.lapsed, []);
        ask::holds(store, slot, &next).await;
    }
}

/// What the protocol deals with is found however much of it was dealt with before, and expired
/// records go beside it.
pub async fn what_is_due_later_is_reported_later(store: &Arc<dyn Store>) {
    for round in 0..20 {
        let (slot, beside) = (
            records::slot(&format!("{round}")),
            records::slot(&format!("beside {round}")),
        );
        let record = records::reserved(SHORT);
        ask::put(store, beside, &records::completed(SHORT)).await;
        ask::put(store, slot, &record).await;
        ask::past_due(store, beside).await;
        let due = ask::past_due(store, slot).await;
        let swept = ask::sweep(store, 100).await;
        assert_eq!(swept.lapsed, [(slot, due)]);
        assert_eq!(swept.removed, 1);
        let removed = store.remove(slot, record.fence, Timestamp::NEVER).await;
        assert_eq!(removed.expect(ANSWERS).value, Swap::Done);
    }
    assert_eq!(ask::sweep(store, 100).await.lapsed, []);
}

/// A claim whose holder renews it is not reported, though its first lease has long passed.
pub async fn a_renewed_claim_is_not_reported(store: &Arc<dyn Store>) {
    let (slot, claim) = (records::slot("k"), records::claimed(SHORT));
    ask::put(store, slot, &claim).await;
    ask::swap(store, slot, claim.fence, &records::claimed(LONG)).await;
    let due = ask::now(store).await + SHORT;
    ask::past(store, due).await;
    assert_eq!(ask::sweep(store, 100).await.lapsed, []);
}

/// A claim that was renewed many times before it lapsed is one lapsed claim.
pub async fn a_lapsed_claim_is_reported_once_in_a_sweep(store: &Arc<dyn Store>) {
    let (slot, mut claim) = (records::slot("k"), records::claimed(SHORT));
    ask::put(store, slot, &claim).await;
    for _ in 0..20 {
        let renewed = records::rewritten(&claim);
        ask::swap(store, slot, claim.fence, &renewed).await;
        claim = renewed;
    }
    ask::past_due(store, slot).await;
    let lapsed = ask::sweep(store, 100).await.lapsed;
    assert_eq!(lapsed.len(), 1, "one claim lapsed");
    assert_same(&lapsed[0].1, &claim);
}

/// A record goes once the horizon is past the moment it came due, and not a tick sooner.
pub async fn a_horizon_in_the_past_spares_what_came_due_later(store: &Arc<dyn Store>) {
    let (expired, lapsed) = (records::slot("expired"), records::slot("lapsed"));
    ask::put(store, expired, &records::completed(SHORT)).await;
    ask::put(store, lapsed, &records::claimed(SHORT)).await;
    let (expired_at, lapsed_at) = (
        ask::past_due(store, expired).await.due(),
        ask::past_due(store, lapsed).await.due(),
    );

    for horizon in [Timestamp::ZERO, expired_at.min(lapsed_at)] {
        let swept = store.sweep(horizon, 100).await.expect(ANSWERS).value;
        assert_eq!((swept.removed, swept.lapsed.len()), (0, 0));
        assert!(!swept.more);
    }
    let horizon = expired_at.max(lapsed_at) + Duration::from_micros(1);
    ask::past(store, horizon).await;
    let swept = store.sweep(horizon, 100).await.expect(ANSWERS).value;
    assert_eq!((swept.removed, swept.lapsed.len()), (1, 1));
}

/// A record that was given more time is not removed when its first time is up.
pub async fn a_record_kept_for_longer_is_not_removed(store: &Arc<dyn Store>) {
    let successors = [
        records::completed(LONG),
        records::claimed(LONG),
        records::unknown(None),
    ];
    for (at, next) in successors.iter().enumerate() {
        let (slot, first) = (records::slot(&format!("{at}")), records::completed(SHORT));
        let stamp = ask::put(store, slot, &first).await;
        ask::swap(store, slot, first.fence, next).await;
        ask::past(store, stamp + SHORT).await;

        assert_eq!(ask::sweep_all(store, 100).await, 0);
        ask::holds(store, slot, next).await;
    }
}

/// A record in a slot whose former record was removed is not taken for that one.
pub async fn a_slot_used_again_is_not_swept_for_its_former_record(store: &Arc<dyn Store>) {
    let (slot, first) = (records::slot("k"), records::completed(SHORT));
    let stamp = ask::put(store, slot, &first).await;
    ask::clear(store, slot, first.fence).await;
    let next = records::completed(LONG);
    ask::put(store, slot, &next).await;
    ask::past(store, stamp + SHORT).await;

    assert_eq!(ask::sweep_all(store, 100).await, 0);
    ask::holds(store, slot, &next).await;
}

/// A record that was given less time goes when that is up.
pub async fn a_record_kept_for_less_is_removed_sooner(store: &Arc<dyn Store>) {
    let (slot, first) = (records::slot("k"), records::completed(LONG));
    ask::put(store, slot, &first).await;
    ask::swap(store, slot, first.fence, &records::completed(SHORT)).await;
    ask::past_due(store, slot).await;
    assert_eq!(ask::sweep_all(store, 100).await, 1);
    assert_eq!(ask::look(store, slot).await, None);
}

/// A sweep in small steps removes everything that is due, and says so until it has.
pub async fn small_steps_remove_everything_that_is_due(store: &Arc<dyn Store>) {
    let (mut last, kept) = (Timestamp::ZERO, records::slot("kept"));
    for at in 0..40 {
        let slot = records::slot(&format!("due {at}"));
        last = ask::put(store, slot, &records::completed(SHORT)).await;
    }
    ask::put(store, kept, &records::completed(LONG)).await;
    ask::past(store, last + SHORT).await;

    let step = ask::sweep(store, 7).await;
    assert!(step.more, "33 records at the least are still due");
    let rest = ask::sweep_all(store, 7).await;
    assert_eq!(step.removed + rest, 40);
    assert_eq!(ask::sweep(store, 7).await.removed, 0);
    ask::found(store, kept).await;
}

/// A sweeper that settles the claims it is told about gets to see every one of them.
pub async fn small_steps_report_every_lapsed_claim(store: &Arc<dyn Store>) {
    let (mut last, mut silent) = (Timestamp::ZERO, BTreeSet::new());
    for at in 0..20 {
        let slot = records::slot(&format!("silent {at}"));
        last = ask::put(store, slot, &records::claimed(SHORT)).await;
        silent.insert(slot);
    }
    ask::past(store, last + SHORT).await;

    let mut more = true;
    while more {
        let swept = ask::sweep(store, 3).await;
        more = swept.more;
        for (slot, claim) in swept.lapsed {
            assert!(silent.remove(&slot), "a settled claim is not reported");
            ask::swap(store, slot, claim.fence, &records::unknown(None)).await;
        }
    }
    assert!(silent.is_empty(), "{} were never reported", silent.len());
}
