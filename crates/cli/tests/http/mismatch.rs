//! P3, P4: a key answers for one request only.

use onceward_rig::gateway::{Answer, Ask, Gate, Origin};

use crate::{ask, expect_problem, expect_replay, launch, pay};

#[tokio::test]
async fn another_request_under_the_same_key_is_refused_and_learns_nothing() {
    let origin = Origin::scripted(|_| Answer::new(201, "first-answer-secret").into()).await;
    let gateway = launch(&origin).start().await;
    let first = pay("k")
        .body("first-request-secret")
        .field("Content-Type", "text/plain");
    let answer = ask(&gateway, &first).await;
    let others = [
        first.clone().body("another"),
        first.clone().body(""),
        Ask::post("/payments").key("k").body("first-request-secret"),
        Ask::post("/payments?x=1")
            .key("k")
            .body("first-request-secret")
            .field("Content-Type", "text/plain"),
        first.clone().field("Content-Encoding", "gzip"),
    ];
    for other in &others {
        let refused = ask(&gateway, other).await;
        expect_problem(&refused, 422, "key-reused");
        assert!(!refused.text().contains("secret"));
        assert_eq!(refused.fields.get("x-should-retry"), Some("false"));
    }
    expect_replay(&ask(&gateway, &first).await, &answer);
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn the_same_key_on_another_path_is_another_operation() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let payment = ask(&gateway, &pay("k")).await;
    let refund = ask(&gateway, &Ask::post("/refunds").key("k")).await;
    assert_eq!((refund.status, refund.is_replay()), (201, false));
    assert_ne!(payment.body, refund.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mismatch_is_told_while_the_first_still_runs() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    let gateway = launch(&origin).start().await;
    let asked = pay("k");
    let first = ask(&gateway, &asked);
    let other = async {
        origin.wait_for(1).await;
        // It comes before the gate opens, so nobody has waited for the first.
        let refused = ask(&gateway, &pay("k").body("other")).await;
        gate.open();
        refused
    };
    let (first, refused) = tokio::join!(first, other);
    expect_problem(&refused, 422, "key-reused");
    assert_eq!((first.status, origin.count()), (201, 1));
}

#[tokio::test]
async fn what_changes_between_attempts_of_one_call_does_not_count() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("k").field("X-Stainless-Retry-Count", "0")).await;
    let retry = pay("k")
        .field("X-Stainless-Retry-Count", "1")
        .field("Traceparent", "00-abc")
        .field("Date", "Tue, 15 Nov 1994 08:12:31 GMT")
        .field("User-Agent", "another");
    expect_replay(&ask(&gateway, &retry).await, &first);
    expect_replay(&ask(&gateway, &pay("k").chunked()).await, &first);
}

#[tokio::test]
async fn json_counts_by_its_meaning_where_a_route_says_so() {
    let origin = Origin::start().await;
    let config = "[[route]]\nmatch = \"POST /payments\"\n\
                  fingerprint = { body = \"json\", ignore = [\"/note\"] }\n";
    let gateway = launch(&origin).config(config).start().await;
    let pay = |body: &str| {
        let asked = Ask::post("/payments")
            .key("k")
            .field("Content-Type", "application/json");
        asked.body(body)
    };
    let first = ask(&gateway, &pay(r#"{"a":100,"b":"\u00e9","note":1}"#)).await;
    for same in [
        "{ \"b\": \"\u{e9}\", \"a\": 1e2 }",
        r#"{"a":100.0,"b":"\u00e9","note":2}"#,
    ] {
        expect_replay(&ask(&gateway, &pay(same)).await, &first);
    }
    for other in [r#"{"a":101,"b":"\u00e9"}"#, r#"{"a":100}"#, "not json"] {
        expect_problem(&ask(&gateway, &pay(other)).await, 422, "key-reused");
    }
    assert_eq!(origin.count(), 1);
}
