//! P7: which answers are final.

use onceward_rig::gateway::{Answer, Ask, Origin, Payload, Seen};

use crate::{ask, expect_problem, expect_replay, launch};

/// A service that answers with the status in the path.
async fn origin() -> Origin {
    Origin::scripted(|seen: &Seen| {
        let status = seen.target.trim_start_matches('/').parse().unwrap();
        match status {
            204 | 304 => Answer::with(status, Payload::None).into(),
            _ => Answer::new(status, format!("said {status}")).into(),
        }
    })
    .await
}

fn post(status: u16) -> Ask {
    Ask::post(&format!("/{status}")).key("k")
}

#[tokio::test]
async fn final_answers_are_kept() {
    let origin = origin().await;
    let gateway = launch(&origin).start().await;
    let statuses = [
        200, 201, 202, 204, 301, 302, 303, 307, 400, 404, 409, 410, 418, 422, 500, 501, 505,
    ];
    for status in statuses {
        let first = ask(&gateway, &post(status)).await;
        assert_eq!((first.status, first.is_replay()), (status, false));
        for _ in 0..2 {
            let retry = ask(&gateway, &post(status)).await;
            expect_replay(&retry, &first);
            if status >= 500 {
                // Nearly every client retries these, and gets the same again.
                assert_eq!(retry.fields.get("x-should-retry"), Some("false"));
                assert_eq!(retry.fields.get("stripe-should-retry"), Some("false"));
            }
        }
    }
    assert_eq!(origin.count(), statuses.len());
}

#[tokio::test]
async fn answers_that_say_not_done_are_passed_on_and_the_next_attempt_executes() {
    let origin = origin().await;
    let gateway = launch(&origin).start().await;
    let statuses = [401, 403, 408, 425, 429, 503];
    for status in statuses {
        for _ in 0..2 {
            let answer = ask(&gateway, &post(status)).await;
            assert_eq!((answer.status, answer.is_replay()), (status, false));
            assert_eq!(answer.text(), format!("said {status}"));
        }
    }
    assert_eq!(origin.count(), 2 * statuses.len());
}

#[tokio::test]
async fn answers_that_leave_it_open_are_passed_on_once_and_unknown_after() {
    let origin = origin().await;
    let gateway = launch(&origin).start().await;
    for status in [502, 504] {
        let first = ask(&gateway, &post(status)).await;
        assert_eq!(
            (first.status, first.text()),
            (status, format!("said {status}"))
        );
        for _ in 0..2 {
            expect_problem(&ask(&gateway, &post(status)).await, 409, "outcome-unknown");
        }
    }
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn a_route_says_otherwise() {
    let origin = origin().await;
    let config = "[[route]]\nmatch = \"POST /{status}\"\nrelease_statuses = [409, 418]\n\
                  unknown_statuses = [\"5xx\"]\nstore_statuses = [\"2xx\", 503]\n";
    let gateway = launch(&origin).config(config).start().await;
    for (status, executions) in [(409, 2), (418, 2), (200, 1), (503, 1), (500, 1)] {
        let before = origin.count();
        ask(&gateway, &post(status)).await;
        let retry = ask(&gateway, &post(status)).await;
        assert_eq!(origin.count() - before, executions, "{status}");
        match status {
            500 => expect_problem(&retry, 409, "outcome-unknown"),
            _ => assert_eq!(retry.status, status),
        }
    }
}

#[tokio::test]
async fn only_successes_are_kept_where_the_profile_says_so() {
    let origin = origin().await;
    let config = "[defaults]\nprofile = \"success-only\"\n";
    let gateway = launch(&origin).config(config).start().await;
    for (status, executions) in [(200, 1), (201, 1), (400, 2), (500, 2), (502, 1)] {
        let before = origin.count();
        ask(&gateway, &post(status)).await;
        ask(&gateway, &post(status)).await;
        assert_eq!(origin.count() - before, executions, "{status}");
    }
}

#[tokio::test]
async fn stripe_clients_are_refused_in_their_own_words() {
    let origin = origin().await;
    let config = "[defaults]\nprofile = \"stripe\"\n";
    let gateway = launch(&origin).config(config).start().await;
    ask(&gateway, &post(200)).await;
    let refused = ask(&gateway, &post(200).body("another")).await;
    assert_eq!(refused.status, 400);
    let body: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(body["error"]["type"], "idempotency_error");
}
