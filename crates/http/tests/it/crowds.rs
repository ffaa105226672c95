//! Crowds: many duplicates at once, and still one execution.

use tower::ServiceExt as _;
use tower::limit::ConcurrencyLimitLayer;

use crate::world::{Change, Shop, answer, pay};

/// Sends the same payment `crowd` times at once, and sees that one was executed.
async fn crowd(shop: Shop, crowd: usize) {
    let callers: Vec<_> = (0..crowd).map(|_| shop.start(pay("k"))).collect();
    let mut originals = 0;
    for caller in callers {
        let seen = caller.await.unwrap();
        seen.expect(201, "paid");
        originals += usize::from(seen.handled.outcome == "original");
    }
    assert_eq!((originals, shop.runs()), (1, 1));
}

/// A shop in which every payment takes a few turns of the runtime.
fn slow() -> Shop {
    Shop::new(async |_| {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        Ok(answer(201, "paid"))
    })
}

#[tokio::test(start_paused = true)]
async fn ten_duplicates_execute_once() {
    crowd(slow(), 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_duplicates_execute_once() {
    crowd(slow(), 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_duplicates_on_many_threads_execute_once() {
    crowd(slow(), 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn duplicates_at_several_processes_execute_once() {
    let shop = slow();
    let nodes = (0..4).map(|_| {
        let mut node = shop.clone();
        node.world = shop.world.node();
        node
    });
    let callers: Vec<_> = nodes
        .flat_map(|node| (0..25).map(move |_| node.start(pay("k"))))
        .collect();
    for caller in callers {
        caller.await.unwrap().expect(201, "paid");
    }
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_crowd_of_two_payloads_one_wins_and_the_other_is_refused() {
    let shop = slow();
    let callers: Vec<_> = (0..100)
        .map(|n| match n % 2 {
            0 => (n, shop.start(pay("k"))),
            _ => (n, shop.start(pay("k").saying("200"))),
        })
        .collect();
    let mut paid = [0; 2];
    for (n, caller) in callers {
        let seen = caller.await.unwrap();
        match seen.status.as_u16() {
            201 => paid[n % 2] += 1,
            _ => drop(seen.expect_problem("key-reused")),
        }
    }
    assert!(paid == [50, 0] || paid == [0, 50], "{paid:?}");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn duplicates_that_wait_take_no_place_that_an_execution_needs() {
    let (shop, gate) = Shop::gated();
    let service = shop.service_within(ConcurrencyLimitLayer::new(2));
    let ask = |key: &str| tokio::spawn(service.clone().oneshot(pay(key)));
    let mut asked = vec![ask("k1"), ask("k1"), ask("k1"), ask("k1")];
    shop.world.settle().await;
    asked.push(ask("k2"));
    shop.world.settle().await;
    assert_eq!(
        shop.runs(),
        2,
        "another operation runs beside three that wait"
    );
    gate.add_permits(2);
    for answer in asked {
        assert_eq!(answer.await.unwrap().unwrap().status(), 201);
    }
}
