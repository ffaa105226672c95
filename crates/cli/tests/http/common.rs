//! What the cases ask, and what they expect, on whichever store the records are.

use onceward_rig::gateway::{Ask, Gateway, Received};

/// Asks on a connection of its own.
pub(crate) async fn ask(gateway: &Gateway, ask: &Ask) -> Received {
    let answer = onceward_rig::gateway::ask(gateway.addr(), ask).await;
    answer.unwrap_or_else(|error| panic!("no answer: {error}\n{}", gateway.log()))
}

/// Asks the admin listener.
pub(crate) async fn admin(gateway: &Gateway, path: &str) -> Received {
    let answer = onceward_rig::gateway::ask(gateway.admin(), &Ask::get(path)).await;
    answer.expect("the admin listener answers")
}

/// A payment with this key.
pub(crate) fn pay(key: &str) -> Ask {
    Ask::post("/payments").key(key)
}

/// Checks that an answer is a problem of ours, in the form that every client survives.
#[track_caller]
pub(crate) fn expect_problem(answer: &Received, status: u16, name: &str) {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(answer.problem().as_deref(), Some(name), "{text}");
    assert!(answer.complete && !answer.body.is_empty(), "{text}");
    let media_type = answer.fields.get("content-type").unwrap_or_default();
    assert!(
        matches!(media_type, "application/problem+json" | "application/json"),
        "{media_type}"
    );
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["status"], status);
    assert!(
        body["error"]["message"].is_string() && body["error"]["code"] == name,
        "{text}"
    );
    assert!(body.get("detail").is_none(), "{text}");
    assert!(
        answer
            .fields
            .get("link")
            .is_some_and(|link| link.contains(name)),
        "{text}"
    );
    let retryable = body["retryable"].as_bool().unwrap();
    assert_eq!(answer.fields.has("retry-after"), retryable, "{text}");
    let should_retry = answer.fields.get("x-should-retry");
    assert_eq!(
        should_retry,
        Some(if retryable { "true" } else { "false" }),
        "{text}"
    );
    assert!(!answer.is_replay(), "{text}");
}

/// Checks that a retry got what the first call got.
#[track_caller]
pub(crate) fn expect_replay(retry: &Received, first: &Received) {
    assert!(retry.is_replay(), "{retry:?}");
    assert_eq!((retry.status, retry.text()), (first.status, first.text()));
    assert!(retry.complete);
    assert_eq!(retry.trailers, first.trailers);
    assert_eq!(retry.lasting(), first.lasting());
}

/// Checks that one of many answers is the original, and the others repeat it.
#[track_caller]
pub(crate) fn expect_one_original(answers: &[Received]) {
    let first: Vec<_> = answers
        .iter()
        .filter(|answer| !answer.is_replay())
        .collect();
    assert_eq!(first.len(), 1, "one of them is the original");
    for replay in answers.iter().filter(|answer| answer.is_replay()) {
        expect_replay(replay, first[0]);
    }
}
