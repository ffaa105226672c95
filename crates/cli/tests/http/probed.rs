//! Routes whose service can say whether the work happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onceward_rig::gateway::{Act, Answer, Gateway, Origin, Seen};

use crate::{ask, expect_problem, expect_replay, launch, pay};

const PROBED: &str = "[[route]]\nmatch = \"POST /payments\"\neffect = \"probed\"\n\
                      probe = { url = \"/operations/{key}\" }\n";

/// A service that loses its first answer, and answers questions about it with `says`.
async fn world(says: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> (Origin, Gateway) {
    let lost = Arc::new(AtomicBool::new(false));
    let origin = Origin::scripted(move |seen| match seen.method.as_str() {
        "GET" => says(seen),
        _ if !lost.swap(true, Ordering::Relaxed) => Act::Vanish,
        _ => Answer::receipt(2).into(),
    })
    .await;
    let gateway = launch(&origin).config(PROBED).start().await;
    ask(&gateway, &pay("the/key")).await;
    assert_eq!(posts(&origin).len(), 1);
    (origin, gateway)
}

fn posts(origin: &Origin) -> Vec<Seen> {
    let posts = origin
        .seen()
        .into_iter()
        .filter(|seen| seen.method == "POST");
    posts.collect()
}

fn questions(origin: &Origin) -> Vec<Seen> {
    let questions = origin
        .seen()
        .into_iter()
        .filter(|seen| seen.method == "GET");
    questions.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn done_is_the_answer_from_then_on() {
    let (origin, gateway) = world(|_| {
        let done = Answer::new(201, "it happened").field("Idempotency-Outcome", "done");
        done.field("Location", "/payments/1").into()
    })
    .await;
    let retry = ask(&gateway, &pay("the/key")).await;
    assert_eq!((retry.status, retry.text()), (201, "it happened".into()));
    assert_eq!(retry.fields.get("location"), Some("/payments/1"));
    let asked = questions(&origin).len();
    let again = ask(&gateway, &pay("the/key")).await;
    assert!(again.is_replay());
    assert_eq!((again.status, again.text()), (201, "it happened".into()));
    assert_eq!(
        questions(&origin).len(),
        asked,
        "what is known is not asked again"
    );
    assert_eq!(posts(&origin).len(), 1);

    let question = &questions(&origin)[0];
    assert_eq!(question.target, "/operations/the%2Fkey");
    assert_eq!(question.key().as_deref(), Some("the/key"));
    assert!(question.attempt().is_some_and(|attempt| attempt >= 2));
    assert!(question.fence().unwrap() > posts(&origin)[0].fence().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn not_done_and_a_promise_about_older_fences_is_executed_again() {
    let (origin, gateway) = world(|seen| {
        let fence = seen.fence().unwrap();
        let not_done = Answer::new(200, "").field("Idempotency-Outcome", "not-done");
        not_done.field("Idempotency-Fence", fence).into()
    })
    .await;
    let retry = ask(&gateway, &pay("the/key")).await;
    assert_eq!((retry.status, retry.text()), (201, "receipt 2".into()));
    expect_replay(&ask(&gateway, &pay("the/key")).await, &retry);
    let posts = posts(&origin);
    assert_eq!(posts.len(), 2);
    assert!(posts[1].attempt() > posts[0].attempt());
    assert!(posts[1].fence() > posts[0].fence());
}

#[tokio::test(flavor = "multi_thread")]
async fn not_done_without_the_promise_is_not_enough() {
    let forms: [fn(&Seen) -> Act; 3] = [
        |_| {
            Answer::new(200, "")
                .field("Idempotency-Outcome", "not-done")
                .into()
        },
        |_| {
            let answer = Answer::new(200, "").field("Idempotency-Outcome", "not-done");
            answer.field("Idempotency-Fence", &"0".repeat(32)).into()
        },
        |seen| {
            let fence = seen.fence().unwrap().to_owned();
            let answer = Answer::new(500, "").field("Idempotency-Fence", &fence);
            answer.into()
        },
    ];
    for says in forms {
        let (origin, gateway) = world(says).await;
        for _ in 0..2 {
            expect_problem(
                &ask(&gateway, &pay("the/key")).await,
                409,
                "outcome-unknown",
            );
        }
        assert_eq!(posts(&origin).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_cannot_say_leaves_it_unknown_until_it_can() {
    let can_say = Arc::new(AtomicBool::new(false));
    let knows = can_say.clone();
    let (origin, gateway) = world(move |_| match knows.load(Ordering::Relaxed) {
        false => Act::Vanish,
        true => Answer::new(200, "found")
            .field("Idempotency-Outcome", "done")
            .into(),
    })
    .await;
    expect_problem(
        &ask(&gateway, &pay("the/key")).await,
        409,
        "outcome-unknown",
    );
    can_say.store(true, Ordering::Relaxed);
    let retry = ask(&gateway, &pay("the/key")).await;
    assert_eq!((retry.status, retry.text()), (200, "found".into()));
    assert_eq!(posts(&origin).len(), 1);
}
