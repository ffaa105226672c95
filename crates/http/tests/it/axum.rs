//! Under axum: what handlers get to know, and where the layer stands.

use ::axum::Router;
use ::axum::body::Body;
use ::axum::routing::post;
use http::Request;
use http_body_util::BodyExt as _;
use onceward::testing::World;
use onceward_http::axum::{Attempt, IdempotencyFence, IdempotencyKey};
use onceward_http::{IdempotentLayer, KeyNeed, Terms};
use tower::ServiceExt as _;

type Layer = IdempotentLayer<fn(&http::request::Parts) -> Option<String>>;

fn layer(world: &World) -> Layer {
    IdempotentLayer::new(world.engine.clone(), |_| Some("alice".into()))
}

async fn send(app: &Router, path: &str, key: Option<&str>) -> (u16, String) {
    let request = Request::post(path);
    let request = match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    };
    let request = request.body(Body::from("100")).unwrap();
    let answer = app.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_handler_knows_its_key_attempt_and_fence() {
    let handler = async |attempt: Attempt, key: IdempotencyKey, fence: IdempotencyFence| {
        assert_eq!(fence.0, attempt.fence());
        format!("{} {}", key.0.as_str(), attempt.number())
    };
    let app = Router::new().route("/payments", post(handler));
    let app = app.layer(layer(&World::new()));
    let seen = send(&app, "/payments", Some("k")).await;
    assert_eq!(seen, (200, "k 1".into()));
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_go_without_a_key() {
    let handler = async |attempt: Option<Attempt>| attempt.is_some().to_string();
    let app = Router::new().route("/payments", post(handler));
    let app = app.layer(layer(&World::new()));
    assert_eq!(send(&app, "/payments", Some("k")).await.1, "true");
    assert_eq!(send(&app, "/payments", None).await.1, "false");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_needs_a_key_says_so_where_none_is_required() {
    let handler = async |_: Attempt, _: IdempotencyKey, _: IdempotencyFence| "paid";
    let app = Router::new().route("/payments", post(handler));
    let world = World::new();
    let loose = app.clone().layer(layer(&world));
    assert_eq!(send(&loose, "/payments", None).await.0, 500);
    let terms = Terms::default().key(KeyNeed::Required);
    let strict = app.layer(layer(&world).terms(terms));
    assert_eq!(send(&strict, "/payments", None).await.0, 400);
    assert_eq!(send(&strict, "/payments", Some("k")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_layer_around_nested_routers_tells_them_apart() {
    let items = |name: &'static str| Router::new().route("/items", post(async move || name));
    let world = World::new();
    let app = Router::new().nest("/a", items("a")).nest("/b", items("b"));
    let app = app.layer(layer(&world));
    for _ in 0..2 {
        assert_eq!(send(&app, "/a/items", Some("k")).await.1, "a");
        assert_eq!(send(&app, "/b/items", Some("k")).await.1, "b");
    }
}

#[tokio::test(start_paused = true)]
async fn layers_within_nested_routers_are_told_apart_by_their_operations() {
    let world = World::new();
    let items = |name: &'static str| {
        let router = Router::new().route("/items", post(async move || name));
        // Within, the path lacks what the outer router took away.
        router.layer(layer(&world).terms(Terms::default().operation(name)))
    };
    let app = Router::new().nest("/a", items("a")).nest("/b", items("b"));
    for _ in 0..2 {
        assert_eq!(send(&app, "/a/items", Some("k")).await.1, "a");
        assert_eq!(send(&app, "/b/items", Some("k")).await.1, "b");
    }
}
