//! Orders of store operations: the memory store answers what a plain map would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use onceward::record::{Lease, StateName};
use onceward::store::{Filter, Insert, Swap};
use onceward::testing::{ManualClock, records};
use onceward::{Fence, MemoryStore, Outcome, Reason, Record, SlotId, State, Store, Timestamp};

use super::Choices;

/// A map that keeps the contract of a store in the plainest way.
#[derive(Default)]
struct Model {
    slots: BTreeMap<SlotId, Record>,
    /// For fences that no write used before.
    minted: u64,
}

/// Takes operations, three bytes and more each, and runs them on a store and on a map.
///
/// # Panics
///
/// Panics if the two answer differently.
pub fn check(bytes: &[u8]) {
    let mut from = Choices(bytes);
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_clock(clock.clone());
    let mut model = Model::default();
    let mut steps = 0;
    while !from.is_over() && steps < 400 {
        steps += 1;
        let now = store.clock().now();
        let slot = slot(&mut from);
        let not_after = match from.below(8) {
            0 => now.before(Duration::from_micros(1)),
            1 => now,
            _ => Timestamp::NEVER,
        };
        match from.below(8) {
            0 | 1 => insert(&store, &mut model, &mut from, (slot, not_after, now)),
            2 | 3 => swap(&store, &mut model, &mut from, (slot, not_after, now), false),
            4 => swap(&store, &mut model, &mut from, (slot, not_after, now), true),
            5 => sweep(&store, &mut model, &mut from, now),
            6 => clock.advance(Duration::from_millis(1) * from.byte().into()),
            _ => list(&store, &model, &mut from),
        }
        model.agrees(&store, slot);
    }
    let all: Vec<_> = model.slots.keys().copied().collect();
    all.into_iter().for_each(|slot| model.agrees(&store, slot));
}

/// What a future says that never waits.
fn now<T, E: std::fmt::Debug>(future: impl Future<Output = Result<T, E>>) -> T {
    let answer = future
        .now_or_never()
        .expect("a store in memory never waits");
    answer.expect("a store in memory never fails")
}

fn slot(from: &mut Choices<'_>) -> SlotId {
    // In four shards, with two slots that share all that is hashed.
    let mut id = [1; SlotId::LEN];
    id[8] = from.byte() % 4;
    id[31] = from.byte() % 2;
    SlotId::from_bytes(id)
}

fn insert(
    store: &MemoryStore,
    model: &mut Model,
    from: &mut Choices<'_>,
    (slot, not_after, at): (SlotId, Timestamp, Timestamp),
) {
    let record = model.record(from, slot);
    let reply = now(store.insert(slot, &record, not_after));
    assert_eq!(reply.now, at);
    let expected = match model.slots.get(&slot) {
        _ if at > not_after => Insert::Late,
        Some(found) => Insert::Taken(Arc::new(found.clone())),
        None => {
            model.slots.insert(slot, record.stamped(at));
            Insert::Done
        }
    };
    assert_eq!(reply.value, expected);
}

fn swap(
    store: &MemoryStore,
    model: &mut Model,
    from: &mut Choices<'_>,
    (slot, not_after, at): (SlotId, Timestamp, Timestamp),
    removes: bool,
) {
    let there = model.slots.get(&slot).map(|record| record.fence);
    let seen = there
        .filter(|_| from.below(4) > 0)
        .unwrap_or_else(|| Fence::from_bits(3));
    let record = model.record(from, slot);
    let reply = match removes {
        true => now(store.remove(slot, seen, not_after)),
        false => now(store.replace(slot, seen, &record, not_after)),
    };
    assert_eq!(reply.now, at);
    let expected = if at > not_after {
        Swap::Late
    } else if there == Some(seen) {
        match removes {
            true => model.slots.remove(&slot),
            false => model.slots.insert(slot, record.stamped(at)),
        };
        Swap::Done
    } else {
        Swap::Moved(model.slots.get(&slot).cloned().map(Arc::new))
    };
    assert_eq!(reply.value, expected);
}

fn sweep(store: &MemoryStore, model: &mut Model, from: &mut Choices<'_>, at: Timestamp) {
    let before = match from.flag() {
        true => Timestamp::NEVER,
        false => at.before(Duration::from_millis(from.byte().into())),
    };
    let limit = from.below(12);
    let swept = now(store.sweep(before, limit)).value;
    let horizon = before.min(at);
    let is_due = |record: &Record| record.due() < horizon;
    let due = model.slots.values().filter(|it| is_due(it)).count();
    assert!(
        swept.removed + swept.lapsed.len() <= limit,
        "more than {limit}"
    );
    for (slot, claim) in &swept.lapsed {
        assert_eq!(claim.state.name(), StateName::Claimed);
        assert!(is_due(claim) && model.slots.get(slot) == Some(claim));
    }
    let mut seen: Vec<_> = swept.lapsed.iter().map(|(slot, _)| *slot).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), swept.lapsed.len(), "a claim is told twice");
    // Which ones were removed is the store's choice; each of them was due and may expire.
    let before_it = model.slots.len();
    model.slots.retain(|slot, record| {
        let kept = now(store.get(*slot)).value;
        let may_go = is_due(record) && record.state.name() != StateName::Claimed;
        assert!(kept.is_some() || may_go, "{record:?} was swept");
        kept.is_some()
    });
    assert_eq!(before_it - model.slots.len(), swept.removed);
    let found = swept.removed + swept.lapsed.len();
    assert!(
        swept.more || found == due,
        "{found} of {due} were found, and no more"
    );
    assert!(
        found == due || found == limit,
        "{found} of {due} with room for {limit}"
    );
}

fn list(store: &MemoryStore, model: &Model, from: &mut Choices<'_>) {
    let filter = Filter {
        state: from.flag().then(|| from.pick(&StateName::ALL)),
        ..Filter::default()
    };
    let limit = from.below(5);
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = now(store.list(&filter, after, limit)).value;
        assert!(page.records.len() <= limit.max(1));
        found.extend(page.records);
        assert!(
            page.next.is_none() || page.next > after,
            "the next page goes back"
        );
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let passing = model
        .slots
        .iter()
        .filter(|(_, record)| filter.passes(record));
    assert!(
        found
            .iter()
            .map(|(slot, record)| (slot, &**record))
            .eq(passing)
    );
}

// === impl Model ===

impl Model {
    fn agrees(&self, store: &MemoryStore, slot: SlotId) {
        let expected = self.slots.get(&slot);
        assert_eq!(now(store.get(slot)).value.as_deref(), expected);
        let completed = expected.filter(|it| it.outcome().is_some());
        let recalled = store.recall(slot).map(|reply| reply.value);
        assert_eq!(recalled.as_deref(), completed);
    }

    /// A record with a fence of its own.
    fn record(&mut self, from: &mut Choices<'_>, slot: SlotId) -> Record {
        self.minted += 1;
        let span = match from.below(5) {
            0 => Duration::MAX,
            some => Duration::from_millis(1 << (2 * some)),
        };
        let state = match from.below(4) {
            0 => State::Claimed(Lease { length: span }),
            1 => State::Completed(Outcome::success(slot.as_bytes()[8..9].to_vec())),
            2 => State::Unknown(Reason::LAPSED),
            _ => State::Open,
        };
        Record {
            state,
            fence: Fence::from_bits(u128::from(self.minted) << 64),
            retention: span,
            unknown_retention: Some(span).filter(|span| *span != Duration::MAX),
            ..records::completed(span)
        }
    }
}
