//! Cases about time: the store stamps, refuses what comes late, and forgets nothing by itself.

use std::sync::Arc;
use std::time::Duration;

use super::ask::{self, ANSWERS};
use crate::store::{Filter, Insert, Swap};
use crate::testing::records::{self, LONG, SHORT};
use crate::{Record, Store, Timestamp};

/// The smallest step of a store's clock.
const TICK: Duration = Duration::from_micros(1);

/// A record carries the time of the reply to its write, which is the store's.
pub async fn a_record_is_stamped_with_the_time_of_the_reply(store: &Arc<dyn Store>) {
    let (slot, first) = (records::slot("k"), records::claimed(LONG));
    let before = ask::now(store).await;
    let stamp = ask::put(store, slot, &first).await;
    assert_eq!(ask::found(store, slot).await.written, stamp);
    assert!(before <= stamp && stamp <= ask::now(store).await);

    let later = ask::past(store, stamp).await;
    let again = ask::swap(store, slot, first.fence, &records::rewritten(&first)).await;
    assert_eq!(ask::found(store, slot).await.written, again);
    assert!(later <= again && again <= ask::now(store).await);
}

/// Whatever stamp a writer brings along, the store's own one counts.
pub async fn a_stamp_of_the_writer_is_ignored(store: &Arc<dyn Store>) {
    for written in [Timestamp::ZERO, Timestamp::NEVER] {
        let slot = records::slot(&format!("{written:?}"));
        let first = Record {
            written,
            ..records::completed(LONG)
        };
        let stamp = ask::put(store, slot, &first).await;
        assert_eq!(ask::found(store, slot).await.written, stamp);

        let second = Record {
            written,
            ..records::completed(LONG)
        };
        let stamp = ask::swap(store, slot, first.fence, &second).await;
        assert_eq!(ask::found(store, slot).await.written, stamp);
    }
}

/// The time that replies carry never goes back, whatever is asked.
pub async fn the_time_of_replies_never_goes_back(store: &Arc<dyn Store>) {
    let slot = records::slot("k");
    let mut last = Timestamp::ZERO;
    let mut tick = |now: Timestamp| {
        assert!(last <= now, "{now:?} came after {last:?}");
        last = now;
    };
    for _ in 0..50 {
        let (one, two) = (records::claimed(LONG), records::completed(LONG));
        tick(ask::put(store, slot, &one).await);
        tick(ask::swap(store, slot, one.fence, &two).await);
        let taken = store.insert(slot, &one, Timestamp::NEVER);
        tick(taken.await.expect(ANSWERS).now);
        let moved = store.replace(slot, one.fence, &one, Timestamp::NEVER);
        tick(moved.await.expect(ANSWERS).now);
        let late = store.remove(slot, two.fence, Timestamp::ZERO);
        tick(late.await.expect(ANSWERS).now);
        tick(store.get(slot).await.expect(ANSWERS).now);
        if let Some(recalled) = store.recall(slot) {
            tick(recalled.now);
        }
        let page = store.list(&Filter::default(), None, 10).await;
        tick(page.expect(ANSWERS).now);
        let swept = store.sweep(Timestamp::NEVER, 10).await;
        tick(swept.expect(ANSWERS).now);
        let remove = store.remove(slot, two.fence, Timestamp::NEVER);
        tick(remove.await.expect(ANSWERS).now);
    }
}

/// An insert after its `not_after` changes nothing, in an empty slot or a taken one.
pub async fn a_late_insert_changes_nothing(store: &Arc<dyn Store>) {
    let (slot, record) = (records::slot("k"), records::claimed(LONG));
    let gone = ask::now(store).await.before(TICK);
    let reply = store.insert(slot, &record, gone).await;
    let reply = reply.expect(ANSWERS);
    assert_eq!(reply.value, Insert::Late);
    assert!(gone < reply.now);
    assert_eq!(ask::look(store, slot).await, None);

    ask::put(store, slot, &record).await;
    let reply = store.insert(slot, &records::claimed(LONG), gone).await;
    assert_eq!(reply.expect(ANSWERS).value, Insert::Late);
    ask::holds(store, slot, &record).await;
}

/// A replacement after its `not_after` changes nothing, though it saw the last fence.
pub async fn a_late_replacement_changes_nothing(store: &Arc<dyn Store>) {
    let (slot, record) = (records::slot("k"), records::claimed(LONG));
    ask::put(store, slot, &record).await;
    let gone = ask::now(store).await.before(TICK);

    let write = records::completed(LONG);
    let replace = store.replace(slot, record.fence, &write, gone);
    let reply = replace.await.expect(ANSWERS);
    assert_eq!(reply.value, Swap::Late);
    assert!(gone < reply.now);
    ask::holds(store, slot, &record).await;
}

/// A removal after its `not_after` changes nothing, though it saw the last fence.
pub async fn a_late_removal_changes_nothing(store: &Arc<dyn Store>) {
    let (slot, record) = (records::slot("k"), records::claimed(LONG));
    ask::put(store, slot, &record).await;
    let gone = ask::now(store).await.before(TICK);

    let reply = store.remove(slot, record.fence, gone).await;
    let reply = reply.expect(ANSWERS);
    assert_eq!(reply.value, Swap::Late);
    assert!(gone < reply.now);
    ask::holds(store, slot, &record).await;
}

/// A write that is late and saw another fence is late: what is there may have changed since.
pub async fn a_late_write_is_late_whatever_it_saw(store: &Arc<dyn Store>) {
    let slot = records::slot("k");
    let write = records::claimed(LONG);
    let replace = store.replace(slot, write.fence, &write, Timestamp::ZERO);
    assert_eq!(replace.await.expect(ANSWERS).value, Swap::Late);
    let remove = store.remove(slot, write.fence, Timestamp::ZERO);
    assert_eq!(remove.await.expect(ANSWERS).value, Swap::Late);

    ask::put(store, slot, &records::completed(LONG)).await;
    let replace = store.replace(slot, write.fence, &write, Timestamp::ZERO);
    assert_eq!(replace.await.expect(ANSWERS).value, Swap::Late);
    let remove = store.remove(slot, write.fence, Timestamp::ZERO);
    assert_eq!(remove.await.expect(ANSWERS).value, Swap::Late);
}

/// A write before its `not_after` happens.
pub async fn a_write_on_time_happens(store: &Arc<dyn Store>) {
    let (slot, first) = (records::slot("k"), records::claimed(LONG));
    let not_after = ask::now(store).await + LONG;
    let insert = store.insert(slot, &first, not_after).await;
    assert_eq!(insert.expect(ANSWERS).value, Insert::Done);

    let second = records::rewritten(&first);
    let replace = store.replace(slot, first.fence, &second, not_after);
    assert_eq!(replace.await.expect(ANSWERS).value, Swap::Done);

    let remove = store.remove(slot, second.fence, not_after).await;
    assert_eq!(remove.expect(ANSWERS).value, Swap::Done);
}

/// Expiry is for the protocol to see: until it is swept, an expired record is in its slot.
pub async fn an_expired_record_stays_until_it_is_swept(store: &Arc<dyn Store>) {
    let expiring = [
        records::completed(SHORT),
        records::open(SHORT),
        records::unknown(Some(SHORT)),
    ];
    for record in expiring {
        let slot = records::slot(record.state.name().as_str());
        ask::put(store, slot, &record).await;
        ask::past_due(store, slot).await;
        ask::holds(store, slot, &record).await;

        let claim = records::claimed(LONG);
        let insert = store.insert(slot, &claim, Timestamp::NEVER);
        let insert = insert.await.expect(ANSWERS).value;
        assert!(matches!(insert, Insert::Taken(_)), "{insert:?}");
        ask::swap(store, slot, record.fence, &claim).await;
        ask::holds(store, slot, &claim).await;
    }
}

/// A lapse is for the protocol to see: a late holder whose fence is still there may complete.
pub async fn a_lapsed_claim_stays_and_can_be_completed(store: &Arc<dyn Store>) {
    let (slot, claim) = (records::slot("k"), records::claimed(SHORT));
    ask::put(store, slot, &claim).await;
    ask::past_due(store, slot).await;
    ask::holds(store, slot, &claim).await;

    let outcome = records::completed(LONG);
    ask::swap(store, slot, claim.fence, &outcome).await;
    ask::holds(store, slot, &outcome).await;
}
