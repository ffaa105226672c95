//! Cases about writes: each names the fence it saw, and one that saw another changes nothing.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::ask::{self, ANSWERS, assert_same};
use crate::store::{Insert, Swap};
use crate::testing::records::{self, LONG};
use crate::{Fence, SlotId, Store, Timestamp};

/// A store names its kind in a word, for logs and metrics.
pub async fn a_store_says_what_it_is(store: &Arc<dyn Store>) {
    let kind = store.kind();
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    assert!(!kind.is_empty() && kind.bytes().all(is_word), "{kind:?}");
    assert_eq!(store.durability(), store.durability());
}

/// A slot that nobody wrote to holds nothing.
pub async fn an_unused_slot_is_empty(store: &Arc<dyn Store>) {
    assert_eq!(ask::look(store, records::slot("unused")).await, None);
}

/// An insert puts its record into an empty slot.
pub async fn an_empty_slot_takes_a_record(store: &Arc<dyn Store>) {
    let (slot, record) = (records::slot("k"), records::claimed(LONG));
    ask::put(store, slot, &record).await;
    ask::holds(store, slot, &record).await;
}

/// An insert into a slot in use shows the record there and leaves it alone.
pub async fn a_taken_slot_shows_its_record_and_keeps_it(store: &Arc<dyn Store>) {
    let slot = records::slot("k");
    for first in records::of_every_state() {
        let stamp = ask::put(store, slot, &first).await;

        let second = records::claimed(LONG);
        let insert = store.insert(slot, &second, Timestamp::NEVER);
        let Insert::Taken(shown) = insert.await.expect(ANSWERS).value else {
            panic!("a slot in use takes no insert");
        };
        assert_same(&shown, &first);
        assert_eq!(shown.written, stamp);
        assert_eq!(ask::found(store, slot).await, shown);
        ask::clear(store, slot, first.fence).await;
    }
}

/// An insert whose record is already there is no exception: its writer recognises its own mark.
pub async fn a_repeated_insert_is_shown_its_own_record(store: &Arc<dyn Store>) {
    let (slot, record) = (records::slot("k"), records::claimed(LONG));
    ask::put(store, slot, &record).await;

    let again = store.insert(slot, &record, Timestamp::NEVER);
    let Insert::Taken(shown) = again.await.expect(ANSWERS).value else {
        panic!("a slot in use takes no insert");
    };
    assert_eq!(shown.mark, record.mark);
}

/// A writer that saw the last fence replaces the record.
pub async fn the_fence_in_the_slot_lets_its_record_be_replaced(store: &Arc<dyn Store>) {
    let (slot, mut last) = (records::slot("k"), records::claimed(LONG));
    ask::put(store, slot, &last).await;
    for next in records::of_every_state() {
        ask::swap(store, slot, last.fence, &next).await;
        ask::holds(store, slot, &next).await;
        last = next;
    }
}

/// A writer that lost its slot cannot overwrite the winner's record, and is shown it.
pub async fn a_stale_fence_replaces_nothing(store: &Arc<dyn Store>) {
    let (slot, late) = (records::slot("k"), records::claimed(LONG));
    let winner = records::completed(LONG);
    ask::put(store, slot, &late).await;
    let stamp = ask::swap(store, slot, late.fence, &winner).await;

    let write = records::rewritten(&late);
    let replace = store.replace(slot, late.fence, &write, Timestamp::NEVER);
    let Swap::Moved(Some(shown)) = replace.await.expect(ANSWERS).value else {
        panic!("a stale fence is shown the record that moved");
    };
    assert_same(&shown, &winner);
    assert_eq!(shown.written, stamp);
    assert_eq!(ask::found(store, slot).await, shown);
}

/// A replacement does not fill an empty slot.
pub async fn nothing_is_replaced_in_an_empty_slot(store: &Arc<dyn Store>) {
    let (slot, record) = (records::slot("k"), records::claimed(LONG));
    let replace = store.replace(slot, record.fence, &record, Timestamp::NEVER);
    assert_eq!(replace.await.expect(ANSWERS).value, Swap::Moved(None));
    assert_eq!(ask::look(store, slot).await, None);
}

/// A writer that saw the last fence removes the record, and the slot can be used again.
pub async fn the_fence_in_the_slot_lets_its_record_be_removed(store: &Arc<dyn Store>) {
    let slot = records::slot("k");
    for record in records::of_every_state() {
        ask::put(store, slot, &record).await;
        ask::clear(store, slot, record.fence).await;
        assert_eq!(ask::look(store, slot).await, None);
    }
}

/// A writer that lost its slot cannot remove the winner's record, and is shown it.
pub async fn a_stale_fence_removes_nothing(store: &Arc<dyn Store>) {
    let (slot, late) = (records::slot("k"), records::claimed(LONG));
    let winner = records::completed(LONG);
    ask::put(store, slot, &late).await;
    ask::swap(store, slot, late.fence, &winner).await;

    let remove = store.remove(slot, late.fence, Timestamp::NEVER);
    let Swap::Moved(Some(shown)) = remove.await.expect(ANSWERS).value else {
        panic!("a stale fence is shown the record that moved");
    };
    assert_same(&shown, &winner);
    assert_eq!(ask::found(store, slot).await, shown);
}

/// A removal from an empty slot says that nothing is there.
pub async fn nothing_is_removed_from_an_empty_slot(store: &Arc<dyn Store>) {
    let remove = store.remove(records::slot("k"), records::fence(), Timestamp::NEVER);
    assert_eq!(remove.await.expect(ANSWERS).value, Swap::Moved(None));
}

/// A holder whose record was removed cannot write it back.
pub async fn a_removed_record_does_not_come_back(store: &Arc<dyn Store>) {
    let (slot, record) = (records::slot("k"), records::claimed(LONG));
    ask::put(store, slot, &record).await;
    ask::clear(store, slot, record.fence).await;

    let write = records::rewritten(&record);
    let replace = store.replace(slot, record.fence, &write, Timestamp::NEVER);
    assert_eq!(replace.await.expect(ANSWERS).value, Swap::Moved(None));
    let remove = store.remove(slot, record.fence, Timestamp::NEVER);
    assert_eq!(remove.await.expect(ANSWERS).value, Swap::Moved(None));
    assert_eq!(ask::look(store, slot).await, None);
}

/// All 128 bits of a fence count.
pub async fn one_bit_tells_two_fences_apart(store: &Arc<dyn Store>) {
    let (slot, record) = (records::slot("k"), records::claimed(LONG));
    ask::put(store, slot, &record).await;
    for bit in 0..u128::BITS {
        let other = Fence::from_bits(record.fence.bits() ^ (1 << bit));
        let write = records::rewritten(&record);
        let replace = store.replace(slot, other, &write, Timestamp::NEVER);
        let swap = replace.await.expect(ANSWERS).value;
        assert!(matches!(swap, Swap::Moved(Some(_))), "bit {bit}");
        let remove = store.remove(slot, other, Timestamp::NEVER);
        let swap = remove.await.expect(ANSWERS).value;
        assert!(matches!(swap, Swap::Moved(Some(_))), "bit {bit}");
    }
    ask::holds(store, slot, &record).await;
}

/// The smallest and the largest fence are fences like any other.
pub async fn a_fence_may_have_any_bits(store: &Arc<dyn Store>) {
    for bits in [0, 1 << 63, u128::from(u64::MAX), 1 << 127, u128::MAX] {
        let slot = records::slot(&format!("{bits:x}"));
        let mut record = records::claimed(LONG);
        record.fence = Fence::from_bits(bits);
        ask::put(store, slot, &record).await;
        ask::holds(store, slot, &record).await;
        ask::clear(store, slot, record.fence).await;
    }
}

/// All 256 bits of a slot count, and the reserved slot is a slot like any other.
pub async fn slots_one_bit_apart_hold_their_own_records(store: &Arc<dyn Store>) {
    let reserved = *SlotId::RESERVED.as_bytes();
    let mut slots = vec![SlotId::RESERVED];
    for bit in 0..256 {
        let mut bytes = reserved;
        bytes[bit / 8] ^= 1 << (bit % 8);
        slots.push(SlotId::from_bytes(bytes));
    }
    let mut put = Vec::new();
    for slot in slots {
        let record = records::claimed(LONG);
        ask::put(store, slot, &record).await;
        put.push((slot, record));
    }
    for (slot, record) in put {
        ask::holds(store, slot, &record).await;
    }
}

/// A write whose future is dropped happens as a whole or not at all, and blocks nobody.
pub async fn a_dropped_write_happens_as_a_whole_or_not_at_all(store: &Arc<dyn Store>) {
    for round in 0..32 {
        let slot = records::slot(&format!("dropped {round}"));
        let (dropped, next) = (records::completed(LONG), records::claimed(LONG));
        let mut insert = store.insert(slot, &dropped, Timestamp::NEVER);
        // Each round lets the write get a little further.
        for _ in 0..round {
            if (&mut insert).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(insert);

        if let Some(found) = ask::look(store, slot).await {
            assert_same(&found, &dropped);
        }
        let insert = store.insert(slot, &next, Timestamp::NEVER);
        let winner = match insert.await.expect(ANSWERS).value {
            Insert::Done => next,
            Insert::Taken(_) => dropped,
            Insert::Late => panic!("no write is later than never"),
        };
        ask::holds(store, slot, &winner).await;
    }
}
