//! Cases about lists: everything once, in order, and only what passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ask::{self, ANSWERS, assert_same};
use crate::record::StateName;
use crate::store::Filter;
use crate::testing::records::{self, LONG};
use crate::{Record, Scope, SlotId, Store};

/// An empty store has one page with nothing on it, whatever is asked for.
pub async fn an_empty_store_lists_nothing(store: &Arc<dyn Store>) {
    assert_eq!(ask::list(store, &Filter::default(), 10).await, []);
    let filter = Filter {
        tenant: Some("nobody".into()),
        state: Some(StateName::Claimed),
        ..Filter::default()
    };
    assert_eq!(ask::list(store, &filter, 10).await, []);
}

/// Records are listed whole, in the order of their slots, however small the pages are.
pub async fn pages_of_any_size_list_every_record_once(store: &Arc<dyn Store>) {
    let put = put_many(store, 50).await;
    for limit in [1, 2, 7, 49, 50, 51, 1000] {
        let listed = ask::list(store, &Filter::default(), limit).await;
        assert!(listed.iter().map(|(slot, _)| slot).eq(put.keys()));
        for (slot, record) in listed {
            assert_same(&record, &put[&slot]);
        }
    }
}

/// A list goes on after the slot it is given, whether or not that slot holds a record.
pub async fn a_page_begins_after_the_slot_given(store: &Arc<dyn Store>) {
    let put = put_many(store, 20).await;
    let nowhere = records::slot("listed after, though nothing is here");
    let asked = put.keys().copied().chain([nowhere]);
    for after in asked {
        let page = store.list(&Filter::default(), Some(after), 1).await;
        let page = page.expect(ANSWERS).value;
        let expected = put.keys().find(|slot| **slot > after);
        if let Some((slot, _)) = page.records.first() {
            assert_eq!(Some(slot), expected);
        } else {
            assert!(expected.is_none() || page.next.is_some());
        }
    }
}

/// Slots are ordered by their bytes, unsigned, from the first slot of all to the last.
pub async fn the_first_and_the_last_slot_are_listed(store: &Arc<dyn Store>) {
    let edges = [[0; 32], [0x7f; 32], [0x80; 32], [0xff; 32]].map(SlotId::from_bytes);
    for slot in edges {
        ask::put(store, slot, &records::claimed(LONG)).await;
    }
    for limit in [1, 10] {
        let listed = ask::list(store, &Filter::default(), limit).await;
        assert!(listed.iter().map(|(slot, _)| slot).eq(&edges));
    }
    let page = store.list(&Filter::default(), Some(edges[3]), 10).await;
    assert_eq!(page.expect(ANSWERS).value.records, []);
}

/// Each part of a filter lets pass what it says, alone and together with the others.
pub async fn every_part_of_a_filter_has_to_hold(store: &Arc<dyn Store>) {
    // One name begins like another, and some would match more in a pattern than as a text.
    let tenants = ["acme", "acme2", "%", "acm_"];
    let operations = ["pay", "pay%", "Pay"];
    let mut put = BTreeMap::new();
    for (tenant, operation) in pairs(&tenants, &operations) {
        for record in records::of_every_state() {
            let record = Record {
                scope: Scope::new(tenant, operation),
                ..record
            };
            let slot = records::slot(&record.fence.to_string());
            ask::put(store, slot, &record).await;
            put.insert(slot, (tenant, operation, record.state.name()));
        }
    }

    let tenants = [&[None, Some("nobody")], &tenants.map(Some)[..]].concat();
    let operations = [&[None, Some("nothing")], &operations.map(Some)[..]].concat();
    let states = [&[None], &StateName::ALL.map(Some)[..]].concat();
    for ((tenant, operation), state) in pairs(&pairs(&tenants, &operations), &states) {
        let filter = Filter {
            tenant: tenant.map(Into::into),
            operation: operation.map(Into::into),
            state,
            written_before: None,
        };
        let passing = put
            .iter()
            .filter(|(_, (its_tenant, its_operation, its_state))| {
                tenant.is_none_or(|it| it == *its_tenant)
                    && operation.is_none_or(|it| it == *its_operation)
                    && state.is_none_or(|it| it.as_str() == its_state.as_str())
            });
        let passing: Vec<_> = passing.map(|(slot, _)| *slot).collect();
        assert_eq!(slots(store, &filter).await, passing, "{filter:?}");
    }
}

/// A list of old records ends right before the moment given.
pub async fn records_can_be_listed_by_their_age(store: &Arc<dyn Store>) {
    let (old, new) = (records::slot("old"), records::slot("new"));
    let first = ask::put(store, old, &records::claimed(LONG)).await;
    ask::past(store, first).await;
    let second = ask::put(store, new, &records::completed(LONG)).await;

    let after_both = ask::past(store, second).await;
    for (before, expected) in [
        (first, vec![]),
        (second, vec![old]),
        (after_both, vec![old, new]),
    ] {
        let filter = Filter {
            written_before: Some(before),
            ..Filter::default()
        };
        assert_eq!(slots(store, &filter).await, sorted(expected));
        let completed = Filter {
            state: Some(StateName::Completed),
            ..filter
        };
        let expected = if before > second { vec![new] } else { vec![] };
        assert_eq!(slots(store, &completed).await, expected);
    }
}

/// A record is listed by what it is now, not by what it was before it was replaced.
pub async fn a_replaced_record_is_listed_by_what_it_is_now(store: &Arc<dyn Store>) {
    let slot = records::slot("k");
    let claim = Record {
        scope: Scope::new("before", "before"),
        ..records::claimed(LONG)
    };
    let first = ask::put(store, slot, &claim).await;
    ask::past(store, first).await;
    let outcome = Record {
        scope: Scope::new("after", "after"),
        ..records::completed(LONG)
    };
    let second = ask::swap(store, slot, claim.fence, &outcome).await;

    let was = [
        Filter {
            tenant: Some("before".into()),
            ..Filter::default()
        },
        Filter {
            operation: Some("before".into()),
            ..Filter::default()
        },
        Filter {
            state: Some(StateName::Claimed),
            ..Filter::default()
        },
        Filter {
            written_before: Some(second),
            ..Filter::default()
        },
    ];
    for filter in was {
        assert_eq!(slots(store, &filter).await, [], "{filter:?}");
    }
    let is = Filter {
        tenant: Some("after".into()),
        operation: Some("after".into()),
        state: Some(StateName::Completed),
        written_before: Some(ask::past(store, second).await),
    };
    assert_eq!(slots(store, &is).await, [slot]);
}

/// A removed record is listed no more.
pub async fn a_removed_record_is_not_listed(store: &Arc<dyn Store>) {
    let mut put = put_many(store, 5).await;
    let (slot, record) = put.pop_first().expect("five records were put");
    ask::clear(store, slot, record.fence).await;
    let listed = slots(store, &Filter::default()).await;
    assert!(listed.iter().eq(put.keys()));
}

async fn put_many(store: &Arc<dyn Store>, count: usize) -> BTreeMap<SlotId, Record> {
    let mut put = BTreeMap::new();
    for (at, record) in (0..count).zip(records::of_every_state().into_iter().cycle()) {
        let slot = records::slot(&format!("listed {at}"));
        let record = records::rewritten(&record);
        ask::put(store, slot, &record).await;
        put.insert(slot, record);
    }
    put
}

async fn slots(store: &Arc<dyn Store>, filter: &Filter) -> Vec<SlotId> {
    let listed = ask::list(store, filter, 5).await;
    listed.into_iter().map(|(slot, _)| slot).collect()
}

fn sorted(mut slots: Vec<SlotId>) -> Vec<SlotId> {
    slots.sort_unstable();
    slots
}

fn pairs<A: Copy, B: Copy>(ones: &[A], others: &[B]) -> Vec<(A, B)> {
    let all = ones
        .iter()
        .flat_map(|one| others.iter().map(|it| (*one, *it)));
    all.collect()
}
