//! A store that is away: nothing is executed without a claim, and nothing is answered that is not
//! stored.

use std::time::Duration;

use onceward::testing::{Call, Fault};

use crate::world::{Shop, answer, pay};

const LONG: Duration = Duration::from_secs(12);

fn expect_unavailable(seen: &crate::world::Seen) {
    seen.expect_problem("store-unavailable");
    assert_eq!(seen.status, 503);
    assert!(seen.headers.contains_key("retry-after"));
    assert_eq!(seen.headers["x-should-retry"], "true");
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_down_nothing_is_executed() {
    let shop = Shop::open();
    shop.send(pay("warm")).await.expect_first(201, "paid");
    shop.world.store.set_down(true);
    for key in ["k", "warm"] {
        expect_unavailable(&shop.send_within(LONG, pay(key)).await);
    }
    assert_eq!(shop.runs(), 1);
    shop.world.store.mend();
    shop.send(pay("k")).await.expect_first(201, "paid");
    shop.send(pay("warm")).await.expect_replay(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_never_up_executes_nothing() {
    let shop = Shop::open();
    shop.world.store.set_down(true);
    expect_unavailable(&shop.send_within(LONG, pay("k")).await);
    assert_eq!(shop.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_way_in_which_a_claim_fails_executes_nothing_or_once() {
    for fault in Fault::ALL {
        let shop = Shop::open();
        shop.send(pay("warm")).await.expect_first(201, "paid");
        shop.world
            .store
            .fail_next_of(Call::Insert, usize::MAX, fault);
        let seen = shop.send_within(LONG, pay("k")).await;
        shop.world.store.release();
        shop.world.store.mend();
        let runs = shop.runs() - 1;
        match seen.status.as_u16() {
            201 => assert_eq!(runs, 1, "{fault:?}"),
            503 => assert_eq!(runs, 0, "{fault:?}"),
            status => panic!("{fault:?} gave {status}"),
        }
        shop.world.pass(LONG).await;
        let again = shop.send_within(LONG, pay("k")).await;
        again.expect(201, "paid");
        assert_eq!(shop.runs(), 2, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_stored_is_withheld_and_found_by_the_retry() {
    let (shop, gate) = Shop::gated();
    let first = shop.start_running("k").await;
    shop.world.store.set_down(true);
    gate.add_permits(1);
    shop.world.pass(LONG).await;
    expect_unavailable(&first.await.unwrap());
    // It goes on in the background.
    shop.world.store.mend();
    shop.world.pass(LONG).await;
    shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_storing_lost_its_reply_is_given() {
    let shop = Shop::open();
    shop.world
        .store
        .fail_next_of(Call::Replace, 1, Fault::LostReply);
    let first = shop.send_within(LONG, pay("k")).await;
    first.expect_first(201, "paid");
    shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_or_an_unknown_is_passed_on_while_the_store_is_down() {
    for (status, again) in [(429, "not-stored"), (504, "outcome-unknown")] {
        let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let inner = gate.clone();
        let shop = Shop::new(move |_| {
            let gate = inner.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(answer(status, "said"))
            }
        });
        let first = shop.start_running("k").await;
        shop.world.store.set_down(true);
        gate.add_permits(2);
        shop.world.pass(LONG).await;
        first.await.unwrap().expect_not_stored(status, "said");
        shop.world.store.mend();
        shop.world.pass(LONG).await;
        let retry = shop.send(pay("k")).await;
        assert_eq!(retry.handled.outcome, again);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_new_keys_and_replays_old_ones() {
    let shop = Shop::open();
    shop.send(pay("old")).await.expect_first(201, "paid");
    shop.world
        .store
        .fail_next_of(Call::Insert, usize::MAX, Fault::Full);
    expect_unavailable(&shop.send_within(LONG, pay("new")).await);
    shop.send(pay("old")).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}
