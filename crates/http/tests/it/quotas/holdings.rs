//! What a caller has in the store: unknown outcomes, and room.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use onceward::store::Filter;
use onceward::{Effect, Resolution, Then};
use onceward_http::quota::{Holdings, weight};

use super::orders::one_per_order;
use super::{SECOND, expect_over, limited};
use crate::world::{Shop, answer, full, pay};

/// Counts the records of the shop, as a census does.
async fn count(shop: &Shop) {
    shop.taken().begin_count();
    let page = shop
        .world
        .engine
        .list(&Filter::default(), None, 1_000)
        .await;
    let mut tenants: HashMap<Arc<str>, Holdings> = HashMap::new();
    for (_, record) in page.unwrap().value.records {
        let outcome = record.outcome().map_or(0, onceward::Outcome::kept_len);
        let held = tenants.entry(record.scope.tenant().into()).or_default();
        held.add(Holdings {
            unknown: i64::from(matches!(record.state, onceward::State::Unknown(_))),
            stored: weight(&record.scope, outcome).try_into().unwrap(),
        });
    }
    shop.taken().end_count(tenants);
}

#[tokio::test(start_paused = true)]
async fn too_many_unknown_records_stop_new_claims_until_they_are_settled() {
    let shop = Shop::answering(|| answer(502, "lost"));
    let shop = shop.quotas(|limits| limits.unknown = Some(2), |quotas| quotas);
    shop.send(pay("k1")).await.expect_not_stored(502, "lost");
    shop.send(pay("k2")).await.expect_not_stored(502, "lost");
    expect_over(&shop.send(pay("k3")).await, "unknown");
    // Their own retries are told as always.
    shop.expect_unknown("k1").await;
    count(&shop).await;
    expect_over(&shop.send(pay("k3")).await, "unknown");
    let by = onceward::By {
        who: "op".into(),
        why: "looked it up".into(),
    };
    let unknown = Filter::default();
    let engine = &shop.world.engine;
    let settled = engine.resolve_all(&unknown, &Resolution::NotExecuted, &by, false);
    assert_eq!(settled.await.unwrap().slots.len(), 2);
    expect_over(&shop.send(pay("k3")).await, "unknown");
    count(&shop).await;
    shop.send(pay("k3")).await.expect_not_stored(502, "lost");
}

#[tokio::test(start_paused = true)]
async fn work_that_a_retry_settles_is_not_held_up_by_its_own_record() {
    let status = Arc::new(AtomicU16::new(502));
    let now = status.clone();
    let shop = Shop::answering(move || answer(now.load(Ordering::SeqCst), "said"));
    let shop = shop.effect(Effect::Keyed);
    let shop = shop.quotas(|limits| limits.unknown = Some(1), |quotas| quotas);
    shop.send(pay("k1")).await.expect_not_stored(502, "said");
    expect_over(&shop.send(pay("k2")).await, "unknown");
    status.store(201, Ordering::SeqCst);
    shop.send(pay("k1")).await.expect_first(201, "said");
    // That settled it, and there is room again without a count.
    shop.send(pay("k2")).await.expect_first(201, "said");
}

#[tokio::test(start_paused = true)]
async fn stored_answers_take_up_room_until_they_are_gone() {
    let shop = limited(|limits| limits.stored = Some(300));
    let mut number = 0;
    let refused = loop {
        let seen = shop.send(pay(&format!("k{number}"))).await;
        if seen.status == 429 {
            break seen;
        }
        number += 1;
    };
    expect_over(&refused, "stored");
    assert!((1..=3).contains(&number), "{number}");
    shop.send(pay("k0")).await.expect_replay(201, "paid");
    count(&shop).await;
    expect_over(&shop.send(pay("other")).await, "stored");
    shop.world.pass(SECOND).await;
    shop.world.clock.advance(shop.world.policy.retention);
    shop.world.engine.sweep(100).await.unwrap();
    count(&shop).await;
    shop.send(pay("other")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn what_is_written_for_an_order_takes_up_room_as_well() {
    const LIMIT: u64 = 2_000;
    let shop = limited(|limits| limits.stored = Some(LIMIT));
    let shop = shop.terms(one_per_order(Then::Return));
    let mut number = 0;
    loop {
        let body = format!(r#"{{"order":{number}}}"#);
        let order = pay(&format!("k{number}")).map(|_| full(body));
        if shop.send(order).await.status == 429 {
            break;
        }
        number += 1;
    }
    let filter = Filter::default();
    let page = shop.world.engine.list(&filter, None, 1_000).await;
    let records = page.unwrap().value.records;
    assert_eq!(records.len(), 2 * number);
    let weights = records.iter().map(|(_, record)| {
        let outcome = record.outcome().map_or(0, onceward::Outcome::kept_len);
        weight(&record.scope, outcome)
    });
    let stored: u64 = weights.sum();
    let one = stored / number as u64;
    assert!(
        (LIMIT..LIMIT + one).contains(&stored),
        "{stored} bytes, {one} for each order"
    );
}
