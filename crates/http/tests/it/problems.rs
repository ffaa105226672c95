//! Refusals: one body that clients survive, and a page for each.

use std::path::Path;

use http::Response;
use onceward_http::KeyNeed;
use onceward_http::problem::{Media, Naming, Problem};

use crate::world::{Change, Seen, Shop, pay};

/// Refusals of several kinds, as they are met on the way.
async fn met() -> Vec<Seen> {
    let shop = Shop::open().terms(|terms| terms.key(KeyNeed::Required).request_max(100));
    shop.send(pay("k")).await.expect_first(201, "paid");
    let shop = &shop;
    let refused = [
        pay("k").without("idempotency-key"),
        pay("a b"),
        pay("k").saying("200"),
        pay("k").without("x-caller"),
        pay("k").with("upgrade", "websocket"),
    ];
    let mut met = Vec::new();
    for request in refused {
        met.push(shop.send(request).await);
    }
    assert_eq!(shop.runs(), 1);
    met
}

fn page_of(headers: &http::HeaderMap) -> String {
    let link = headers["link"].to_str().unwrap();
    let link = link.strip_suffix(">; rel=\"describedby\"").unwrap();
    let page = link.rsplit('/').next().unwrap();
    format!("{}.md", page.trim_end_matches(".md"))
}

#[tokio::test(start_paused = true)]
async fn every_refusal_is_a_problem_with_an_error_in_it() {
    for seen in met().await {
        let name = seen.handled.outcome;
        let body = seen.expect_problem(name);
        assert_eq!(seen.headers["content-type"], "application/problem+json");
        assert_eq!(seen.headers["cache-control"], "no-store");
        assert_eq!(body["error"]["code"], name);
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
        assert!(!body["title"].as_str().unwrap().is_empty());
        assert!(body.get("detail").is_none());
        let retryable = body["retryable"].as_bool().unwrap();
        assert_eq!(seen.headers.contains_key("retry-after"), retryable);
        assert_eq!(seen.headers["x-should-retry"], retryable.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn every_refusal_has_a_page() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/problems");
    for seen in met().await {
        let page = pages.join(page_of(&seen.headers));
        assert!(page.exists(), "{page:?}");
    }
    let told: Response<_> = Problem::OutcomeUnknown { settles: false }.answer(
        &Naming::default(),
        onceward_http::Profile::Ietf,
        Media::of(&http::HeaderMap::new()),
    );
    assert!(pages.join(page_of(told.headers())).exists());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_reads_json_gets_json() {
    let shop = Shop::open();
    for (accept, media) in [
        ("application/json", "application/json"),
        ("text/html, Application/JSON;q=0.5", "application/json"),
        (
            "application/json, application/problem+json",
            "application/problem+json",
        ),
        ("*/*", "application/problem+json"),
    ] {
        let seen = shop.send(pay("").with("accept", accept)).await;
        seen.expect_problem("invalid-key");
        assert_eq!(seen.headers["content-type"], media, "{accept}");
    }
    // Also where the claim's holder speaks.
    let shop = Shop::new(async |_| panic!("told to"));
    let seen = shop.send(pay("k").with("accept", "application/json")).await;
    seen.expect_problem("outcome-unknown");
    assert_eq!(seen.headers["content-type"], "application/json");
}

#[tokio::test(start_paused = true)]
async fn problems_are_named_as_the_deployment_says() {
    use onceward_http::IdempotentLayer;
    use tower::{Layer as _, ServiceExt as _, service_fn};

    let shop = Shop::open();
    let naming = Naming {
        types: "https://example.com/problems/".into(),
        pages: "https://example.com/help/".into(),
    };
    let layer = IdempotentLayer::new(shop.world.engine.clone(), |_: &_| None).naming(naming);
    let service = layer.layer(service_fn(async |_: http::Request<_>| {
        Ok::<_, onceward::BoxError>(crate::world::answer(201, "paid"))
    }));
    let answer = service.oneshot(pay("k")).await.unwrap();
    let link = answer.headers()["link"].to_str().unwrap();
    assert!(link.starts_with("<https://example.com/help/unidentified-caller"));
    let seen = crate::world::read(answer).await;
    let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(
        body["type"],
        "https://example.com/problems/unidentified-caller"
    );
}
