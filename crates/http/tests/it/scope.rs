//! Scope: whose key it is, and for which operation.

use http::Method;

use crate::world::{Change, Run, Shop, pay};

/// A shop that answers with its run's number.
fn numbered() -> Shop {
    Shop::new(async |run: Run| {
        let number = run.number.to_string();
        Ok(http::Response::new(crate::world::full(number)))
    })
}

#[tokio::test(start_paused = true)]
async fn another_path_or_method_is_another_operation() {
    let shop = numbered();
    let targets = [
        (Method::POST, "/payments"),
        (Method::PUT, "/payments"),
        (Method::POST, "/refunds"),
        (Method::POST, "/payments/"),
    ];
    for (done, (method, path)) in targets.iter().enumerate() {
        let request = pay("k").to(method.clone(), path);
        let number = (done + 1).to_string();
        shop.send(request).await.expect_first(200, &number);
    }
    for (done, (method, path)) in targets.iter().enumerate() {
        let request = pay("k").to(method.clone(), path);
        let number = (done + 1).to_string();
        shop.send(request).await.expect_replay(200, &number);
    }
    assert_eq!(shop.runs(), 4);
}

#[tokio::test(start_paused = true)]
async fn another_callers_key_is_another_key() {
    let shop = numbered();
    let bobs = || pay("k").without("x-caller").with("x-caller", "bob");
    shop.send(pay("k")).await.expect_first(200, "1");
    shop.send(bobs()).await.expect_first(200, "2");
    // Whatever bob sends, nothing of alice's shows.
    let another = bobs().with("content-type", "text/plain").saying("other");
    shop.send(another).await.expect_problem("key-reused");
    shop.send(pay("k")).await.expect_replay(200, "1");
    shop.send(bobs()).await.expect_replay(200, "2");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_key_looks_like_a_fresh_one() {
    let shop = Shop::open();
    shop.send(pay("used")).await.expect_first(201, "paid");
    let bobs = |key| pay(key).without("x-caller").with("x-caller", "bob");
    let foreign = shop.send(bobs("used")).await;
    let fresh = shop.send(bobs("fresh")).await;
    assert_eq!((foreign.status, &foreign.body), (fresh.status, &fresh.body));
    assert_eq!(foreign.headers, fresh.headers);
}

#[tokio::test(start_paused = true)]
async fn under_one_name_requests_to_two_paths_meet() {
    let shop = numbered().terms(|terms| terms.operation("settle"));
    shop.send(pay("k")).await.expect_first(200, "1");
    // The path is part of the fingerprint, so that another path is another request.
    let elsewhere = || pay("k").to(Method::PUT, "/refunds");
    shop.send(elsewhere()).await.expect_problem("key-reused");
    shop.send(pay("k")).await.expect_replay(200, "1");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_layers_with_one_name_share_their_slots() {
    let one = numbered().terms(|terms| terms.operation("settle"));
    let mut other = numbered().terms(|terms| terms.operation("settle"));
    other.world = one.world.clone();
    one.send(pay("k")).await.expect_first(200, "1");
    other.send(pay("k")).await.expect_replay(200, "1");
    assert_eq!((one.runs(), other.runs()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn names_that_run_together_are_kept_apart() {
    let shop = numbered();
    let by = |caller: &str, key: &str| pay(key).without("x-caller").with("x-caller", caller);
    shop.send(by("a", "bc")).await.expect_first(200, "1");
    shop.send(by("ab", "c")).await.expect_first(200, "2");
    shop.send(by("a", "b/c")).await.expect_first(200, "3");
    shop.send(by("a/b", "c")).await.expect_first(200, "4");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_too_long_to_file_is_refused() {
    let shop = Shop::open();
    let mut request = pay("k");
    let path = format!("/{}", "p".repeat(60_000));
    *request.uri_mut() = path.parse().unwrap();
    let seen = shop.send(request).await;
    seen.expect_problem("target-too-long");
    assert_eq!(seen.status, 414);
    assert_eq!(shop.runs(), 0);
}
