//! P10: what a key is, and what is not one.

use onceward_rig::gateway::{Ask, Origin};

use crate::{ask, expect_problem, expect_replay, launch, pay};

fn post() -> Ask {
    Ask::post("/payments")
}

#[tokio::test]
async fn quoted_and_bare_are_the_same_key() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("8e03978e-40d5-43e8-bc93-6894a57f9324")).await;
    let quoted = pay("\"8e03978e-40d5-43e8-bc93-6894a57f9324\"");
    let with_parameter = pay("  \"8e03978e-40d5-43e8-bc93-6894a57f9324\";a=1 ");
    for again in [quoted, with_parameter] {
        expect_replay(&ask(&gateway, &again).await, &first);
    }
    let upper = pay("8E03978E-40d5-43e8-bc93-6894a57f9324");
    assert!(!ask(&gateway, &upper).await.is_replay(), "case counts");
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn the_other_header_name_counts_too() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("k")).await;
    let other = post().field("X-Idempotency-Key", "k");
    expect_replay(&ask(&gateway, &other).await, &first);
    let both = other.field("Idempotency-Key", "\"k\"");
    expect_replay(&ask(&gateway, &both).await, &first);
    let different = post().key("k").field("X-Idempotency-Key", "k2");
    expect_problem(&ask(&gateway, &different).await, 400, "invalid-key");
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn two_lines_are_refused_even_if_they_are_equal() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    for second in ["k", "other", "\"k\"", ""] {
        let twice = pay("k").field("Idempotency-Key", second);
        expect_problem(&ask(&gateway, &twice).await, 400, "invalid-key");
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn a_key_has_255_bytes_at_the_most() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let longest = "x".repeat(255);
    let first = ask(&gateway, &pay(&longest)).await;
    assert_eq!(first.status, 201);
    expect_replay(
        &ask(&gateway, &pay(&format!("\"{longest}\""))).await,
        &first,
    );
    for key in [format!("{longest}x"), format!("\"{longest}x\"")] {
        expect_problem(&ask(&gateway, &pay(&key)).await, 400, "invalid-key");
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_nothing_is_executed() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let bad = [
        "",
        "  ",
        "\"\"",
        "\"",
        "\"open",
        "\"a\" \"b\"",
        "a,b",
        "a b",
        "a\"b",
        "\"a\\x\"",
        "\u{e9}",
        "\"\u{e9}\"",
        "a\tb",
        "\"a\"x",
    ];
    for key in bad {
        let answer = ask(&gateway, &pay(key)).await;
        assert_eq!(answer.status, 400, "{key:?}");
        expect_problem(&answer, 400, "invalid-key");
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn every_shape_of_key_that_clients_make_is_taken() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let good = [
        "stainless-python-retry-8e03978e-40d5-43e8-bc93-6894a57f9324",
        "aGVsbG8/d29ybGQ+Zm9v+/==",
        "123456789012345678901234567890123456789",
        "orders/42/pay",
        "'single'",
        "{\\}",
    ];
    for key in good {
        let first = ask(&gateway, &pay(key)).await;
        assert_eq!((first.status, first.is_replay()), (201, false), "{key}");
        expect_replay(&ask(&gateway, &pay(key)).await, &first);
    }
    assert_eq!(origin.count(), good.len());
}

#[tokio::test]
async fn a_route_that_needs_a_key_refuses_requests_without() {
    let origin = Origin::start().await;
    let config = "[[route]]\nmatch = \"POST /payments\"\nkey = \"required\"\n\
                  [[route]]\nmatch = \"POST /strict\"\nprofile = \"ietf-strict\"\n\
                  [[route]]\nmatch = \"POST /json\"\nkey_from = { json = \"/id\" }\n";
    let gateway = launch(&origin).config(config).start().await;
    expect_problem(&ask(&gateway, &post()).await, 400, "missing-key");
    assert_eq!(ask(&gateway, &Ask::post("/other")).await.status, 201);
    expect_problem(
        &ask(&gateway, &Ask::post("/strict").key("k")).await,
        400,
        "invalid-key",
    );
    assert_eq!(
        ask(&gateway, &Ask::post("/strict").key("\"k\""))
            .await
            .status,
        201
    );
    assert_eq!(origin.count(), 2);

    let json = Ask::post("/json").field("Content-Type", "application/json");
    let json = json.body(r#"{"id":"42","amount":1}"#);
    let first = ask(&gateway, &json).await;
    expect_replay(&ask(&gateway, &json).await, &first);
}

#[tokio::test]
async fn any_unsafe_method_with_a_key_is_protected_and_safe_ones_are_not() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    for method in ["POST", "PUT", "PATCH", "DELETE", "PURGE"] {
        let asked = Ask::new(method, "/thing").key("k").body("x");
        let first = ask(&gateway, &asked).await;
        expect_replay(&ask(&gateway, &asked).await, &first);
    }
    assert_eq!(
        origin.count(),
        5,
        "the same key on another method is another operation"
    );
    for method in ["GET", "HEAD", "OPTIONS"] {
        let asked = Ask::new(method, "/thing").key("k");
        assert!(!ask(&gateway, &asked).await.is_replay());
        assert!(!ask(&gateway, &asked).await.is_replay());
    }
    assert_eq!(origin.count(), 11);
    let refused = ask(&gateway, &Ask::new("CONNECT", "shop.example:443")).await;
    assert!((400..500).contains(&refused.status), "{}", refused.status);
    assert_eq!(origin.count(), 11);
}
