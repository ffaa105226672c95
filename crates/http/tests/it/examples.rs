//! The examples do what they say.

use ::axum::Router;
use ::axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

#[path = "../../examples/axum_embedded.rs"]
#[allow(dead_code)]
mod axum_embedded;
#[path = "../../examples/axum_memory.rs"]
#[allow(dead_code)]
mod axum_memory;
#[path = "../../examples/hyper_only.rs"]
#[allow(dead_code)]
mod hyper_only;

/// What a caller sees: the status, whether it is a replay, and the body.
type Seen = (u16, bool, String);

async fn send(app: &Router, who: (&str, &str), key: Option<&str>, amount: u32) -> Seen {
    let request = Request::post("/payments")
        .header(who.0, who.1)
        .header("content-type", "application/json");
    let request = match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    };
    let body = Body::from(format!("{{\"amount\":{amount}}}"));
    let answer = app.clone().oneshot(request.body(body).unwrap()).await;
    let answer = answer.unwrap();
    let status = answer.status().as_u16();
    let replayed = answer.headers().contains_key("idempotent-replayed");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, replayed, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn the_axum_service_in_memory_charges_once() {
    let app = axum_memory::app();
    let alice = ("x-account", "acct_42");
    let first = r#"{"amount":100,"charge":1}"#.to_owned();
    let seen = send(&app, alice, Some("k"), 100).await;
    assert_eq!(seen, (201, false, first.clone()));
    let seen = send(&app, alice, Some("k"), 100).await;
    assert_eq!(seen, (201, true, first));
    assert_eq!(send(&app, alice, Some("k"), 200).await.0, 422);
    assert_eq!(send(&app, alice, None, 100).await.0, 400);
    assert_eq!(send(&app, ("x-other", "1"), Some("k"), 100).await.0, 401);
    let bob = send(&app, ("x-account", "acct_43"), Some("k"), 100).await;
    assert_eq!(bob, (201, false, r#"{"amount":100,"charge":2}"#.into()));
}

#[tokio::test]
async fn the_axum_service_in_a_folder_keeps_its_answers() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("embedded:{}", folder.path().display());
    let alice = ("authorization", "Bearer alices-token");
    let paid = r#"{"amount":100,"protected":true}"#.to_owned();
    {
        let engine = axum_embedded::engine(&url).unwrap();
        let app = axum_embedded::app(&engine);
        let seen = send(&app, alice, Some("k"), 100).await;
        assert_eq!(seen, (201, false, paid.clone()));
        let unprotected = send(&app, alice, None, 100).await;
        assert!(unprotected.2.contains("false"), "{unprotected:?}");
        // What was turned away did not use the key up, not even for another amount.
        assert_eq!(send(&app, alice, Some("j"), 0).await.0, 422);
        let seen = send(&app, alice, Some("j"), 100).await;
        assert_eq!(seen, (201, false, paid.clone()));
        let stranger = ("authorization", "Bearer somebody");
        assert_eq!(send(&app, stranger, Some("k"), 100).await.0, 401);
        assert_eq!(engine.shutdown(std::time::Duration::ZERO).await, []);
    }
    let engine = axum_embedded::engine(&url).unwrap();
    let app = axum_embedded::app(&engine);
    let renewed = ("authorization", "Bearer alices-new-token");
    let seen = send(&app, renewed, Some("k"), 100).await;
    assert_eq!(seen, (201, true, paid.clone()));
    let bob = ("authorization", "Bearer bobs-token");
    let seen = send(&app, bob, Some("k"), 100).await;
    assert_eq!(seen, (201, false, paid));
}

#[tokio::test]
async fn the_hyper_service_charges_once() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let shop = hyper_only::shop();
    let ask = async |key: &str| {
        let (mut ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(hyper_only::serve(theirs, shop.clone()));
        let request = format!(
            "POST /payments HTTP/1.1\r\nHost: shop\r\nX-Account: acct_42\r\n{key}\
             Connection: close\r\nContent-Length: 10\r\n\r\namount=100"
        );
        ours.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        ours.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let key = "Idempotency-Key: order-1001\r\n";
    for replayed in [false, true] {
        let answer = ask(key).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.ends_with("charge 1, protected: true\n"), "{answer}");
        assert_eq!(answer.contains("idempotent-replayed: true"), replayed);
    }
    let answer = ask("").await;
    assert!(answer.ends_with("charge 2, protected: false\n"), "{answer}");
}
