//! What becomes of the record: by the status, by what the handler says, and by how it ends.

use std::sync::Arc;
use std::time::Duration;

use onceward::{BoxError, State};
use onceward_http::{Fate, NotExecuted, Profile};

use crate::world::{Run, Sent, Shop, answer, pay, pipe};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
enum Becomes {
    Stored,
    Released,
    Unknown,
}

/// Sends the payment twice and sees what became of the record in between.
async fn expect(shop: &Shop, status: u16, becomes: Becomes) {
    let first = shop.send(pay("k")).await;
    match becomes {
        Becomes::Stored => {
            first.expect_first(status, "said");
            shop.send(pay("k")).await.expect_replay(status, "said");
            assert_eq!(shop.runs(), 1, "{status}");
        }
        Becomes::Released => {
            let first = first.expect_not_stored(status, "said");
            assert!(!first.headers.contains_key("idempotency-expires"));
            assert!(shop.record("k").await.is_none(), "{status}");
            shop.send(pay("k")).await.expect_not_stored(status, "said");
            assert_eq!(shop.runs(), 2, "{status}");
        }
        Becomes::Unknown => {
            first.expect_not_stored(status, "said");
            shop.expect_unknown("k").await;
            assert_eq!(shop.runs(), 1, "{status}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_decides_under_every_profile_that_stores_failures() {
    let stored = [
        200, 201, 202, 204, 301, 303, 400, 402, 404, 409, 418, 422, 500, 501, 505, 599,
    ];
    let released = [401, 403, 408, 425, 429, 503];
    let unknown = [502, 504];
    for profile in [Profile::Ietf, Profile::Stripe] {
        let shop = |status| {
            Shop::answering(move || answer(status, "said")).terms(|terms| terms.profile(profile))
        };
        for status in stored {
            expect(&shop(status), status, Becomes::Stored).await;
        }
        for status in released {
            expect(&shop(status), status, Becomes::Released).await;
        }
        for status in unknown {
            expect(&shop(status), status, Becomes::Unknown).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_only_success_counts_the_rest_is_released() {
    let shop = |status| {
        Shop::answering(move || answer(status, "said"))
            .terms(|terms| terms.profile(Profile::SuccessOnly))
    };
    for status in [200, 201, 299] {
        expect(&shop(status), status, Becomes::Stored).await;
    }
    for status in [301, 400, 404, 422, 429, 500, 503] {
        expect(&shop(status), status, Becomes::Released).await;
    }
    for status in [502, 504] {
        expect(&shop(status), status, Becomes::Unknown).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_handler_says_wins_over_the_status() {
    let shop = |fate: Fate| {
        Shop::answering(move || {
            let mut response = answer(201, "said");
            response.extensions_mut().insert(fate);
            response
        })
    };
    expect(&shop(Fate::Release), 201, Becomes::Released).await;
    expect(&shop(Fate::Unknown), 201, Becomes::Unknown).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_leaves_the_outcome_unknown() {
    let shop = Shop::new(async |_| Err::<_, BoxError>("connection reset".into()));
    let seen = shop.send(pay("k")).await;
    seen.expect_problem("outcome-unknown");
    assert_eq!(seen.status, 409);
    assert_eq!(seen.headers["x-should-retry"], "false");
    assert!(!seen.headers.contains_key("retry-after"));
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_that_proves_that_nothing_happened_frees_the_key() {
    let shop = Shop::new(async |run: Run| match run.number {
        1 => Err(NotExecuted("nobody home".into()).into()),
        _ => Ok(answer(201, "paid")),
    });
    let seen = shop.send(pay("k")).await;
    seen.expect_problem("upstream-unreachable");
    assert_eq!(seen.status, 502);
    assert!(seen.headers.contains_key("retry-after"));
    assert!(shop.record("k").await.is_none());
    shop.send(pay("k")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_only_error_is_not_executed_frees_the_key() {
    use onceward_http::IdempotentLayer;
    use tower::{Layer as _, ServiceExt as _, service_fn};

    let shop = Shop::open();
    let layer = IdempotentLayer::new(shop.world.engine.clone(), |_: &_| Some("alice".into()));
    let service = layer.layer(service_fn(async |_: http::Request<_>| {
        Err::<http::Response<Sent>, _>(NotExecuted("nobody home".into()))
    }));
    for _ in 0..2 {
        let answer = service.clone().oneshot(pay("k")).await.unwrap();
        assert_eq!(answer.status(), 502);
        assert!(shop.record("k").await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_the_outcome_unknown() {
    let shop = Shop::new(async |_| panic!("told to"));
    shop.send(pay("k")).await.expect_problem("outcome-unknown");
    shop.expect_unknown("k").await;
    let record = shop.record("k").await.unwrap();
    assert!(matches!(&record.state, State::Unknown(why) if *why == onceward::Reason::PANICKED));
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_leaves_the_outcome_unknown() {
    fn panics(_: Run) -> std::future::Ready<crate::world::Answered> {
        panic!("told to")
    }
    let shop = Shop::new(panics);
    shop.send(pay("k")).await.expect_problem("outcome-unknown");
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn work_that_takes_too_long_is_unknown() {
    let (shop, _gate) = Shop::gated();
    let shop = shop.terms(|terms| terms.within(SECOND));
    let first = shop.start_running("k").await;
    tokio::time::advance(SECOND).await;
    shop.ended(first).await.expect_problem("outcome-unknown");
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_unknown() {
    let (out, body) = pipe();
    let shop = Shop::once(move || http::Response::new(body));
    let shop = shop.terms(|terms| terms.within(SECOND));
    let first = shop.start_running("k").await;
    out.data("half");
    tokio::time::advance(SECOND).await;
    shop.ended(first).await.expect_problem("outcome-unknown");
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn half_an_answer_is_unknown_and_never_replayed() {
    let (out, body) = pipe();
    let shop = Shop::once(move || http::Response::new(body));
    out.data("half");
    out.fail();
    let seen = shop.send(pay("k")).await;
    seen.expect_problem("outcome-unknown");
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_was_paused_for_its_lease_knows_that_it_lost_its_claim() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (shop, gate) = {
        let (gate, seen) = (Arc::new(tokio::sync::Semaphore::new(0)), seen.clone());
        let inner = gate.clone();
        let shop = Shop::new(move |run: Run| {
            let (gate, seen) = (inner.clone(), seen.clone());
            async move {
                let attempt = run.attempt().clone();
                seen.lock().unwrap().push(attempt.is_held());
                gate.acquire().await.unwrap().forget();
                seen.lock().unwrap().push(attempt.is_held());
                Ok(answer(201, "paid"))
            }
        });
        (shop, gate)
    };
    let first = shop.start_running("k").await;
    shop.world.clock.advance(shop.world.policy.lease * 2);
    gate.add_permits(1);
    // Nobody was told otherwise meanwhile, so its answer still counts.
    first.await.unwrap().expect_first(201, "paid");
    assert_eq!(*seen.lock().unwrap(), [true, false]);
    shop.send(pay("k")).await.expect_replay(201, "paid");
}
