//! P15, P16: what nobody knows is not tried again, unless the service deduplicates.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use onceward_rig::gateway::{Act, Answer, Ask, Gate, Origin, Seen};

use crate::{ask, expect_problem, expect_replay, launch, pay};

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_request_stays_unknown_for_everybody() {
    let origin = Origin::scripted(|_| Act::Vanish).await;
    let gateway = launch(&origin).start().await;
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");
    let asked = pay("k");
    let answers = join_all((0..16).map(|_| ask(&gateway, &asked))).await;
    for answer in &answers {
        expect_problem(answer, 409, "outcome-unknown");
        assert!(!answer.fields.has("retry-after"));
    }
    expect_problem(
        &ask(&gateway, &pay("k").body("other")).await,
        422,
        "key-reused",
    );
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_are_told_when_the_work_is_lost() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Act::Cut {
        answer: Answer::receipt(0).after(&held),
        after: 20,
    })
    .await;
    let gateway = launch(&origin).start().await;
    let asked = pay("k");
    let all = join_all((0..16).map(|_| ask(&gateway, &asked)));
    let open = async {
        origin.wait_for(1).await;
        gate.open();
    };
    let (answers, ()) = tokio::join!(all, open);
    for answer in &answers {
        expect_problem(answer, 409, "outcome-unknown");
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_takes_too_long_leaves_the_outcome_unknown() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    let config = "[defaults]\nupstream_timeout = \"1s\"\n";
    let gateway = launch(&origin).config(config).start().await;
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");
    gate.open();
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");
    assert_eq!(origin.count(), 1);
}

/// A service that deduplicates: loses the first attempts, and answers the one after.
async fn keyed(lost: usize) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::scripted(
        move |_: &Seen| match count.fetch_add(1, Ordering::Relaxed) {
            at if at < lost => Act::Vanish,
            at => Answer::receipt(at).into(),
        },
    )
    .await
}

const KEYED: &str = "[[route]]\nmatch = \"POST /payments\"\neffect = \"keyed\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn on_a_keyed_route_the_retry_is_sent_again_with_the_next_attempt_number() {
    let origin = keyed(2).await;
    let gateway = launch(&origin).config(KEYED).start().await;
    let mut answer = ask(&gateway, &pay("k")).await;
    for _ in 0..2 {
        assert_ne!(answer.status, 201, "{}", answer.text());
        answer = ask(&gateway, &pay("k")).await;
    }
    assert_eq!((answer.status, answer.text()), (201, "receipt 2".into()));
    expect_replay(&ask(&gateway, &pay("k")).await, &answer);

    let seen = origin.seen();
    let attempts: Vec<_> = seen.iter().map(Seen::attempt).collect();
    assert_eq!(attempts, [Some(1), Some(2), Some(3)]);
    let fences: Vec<_> = seen.iter().map(|seen| seen.fence().unwrap()).collect();
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    assert!(seen.iter().all(|seen| seen.key().as_deref() == Some("k")));
    assert!(seen.iter().all(|seen| seen.body == b"pay 100"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyed_route_is_taken_over_by_one_caller_at_a_time() {
    let origin = keyed(1).await;
    let gateway = launch(&origin).config(KEYED).start().await;
    ask(&gateway, &pay("k")).await;
    let asked = pay("k");
    let answers = join_all((0..16).map(|_| ask(&gateway, &asked))).await;
    for answer in &answers {
        assert_eq!((answer.status, answer.text()), (201, "receipt 1".into()));
    }
    assert_eq!(origin.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_sent_is_not_unknown() {
    let origin = Origin::start().await;
    let addr = origin.addr();
    let gateway = launch(&origin).start().await;
    origin.stop().await;
    let unreachable = async || {
        let answer = ask(&gateway, &pay("k")).await;
        expect_problem(&answer, 502, "upstream-unreachable");
    };
    unreachable().await;
    unreachable().await;
    let origin = Origin::start_at(addr).await;
    let answer = ask(&gateway, &pay("k")).await;
    assert_eq!((answer.status, answer.is_replay()), (201, false));
    assert_eq!((origin.seen()[0].attempt(), origin.count()), (Some(1), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooled_connection_that_died_is_not_written_to() {
    let origin = Origin::scripted(|seen: &Seen| match seen.method.as_str() {
        // Says nothing about closing, and closes.
        "GET" => Act::Cut {
            answer: Answer::new(200, "ok"),
            after: usize::MAX,
        },
        _ => Answer::receipt(0).into(),
    })
    .await;
    let gateway = launch(&origin).start().await;
    for round in 0..20 {
        assert_eq!(ask(&gateway, &Ask::get("/")).await.status, 200);
        let answer = ask(&gateway, &pay(&format!("k{round}"))).await;
        // An orderly end that has arrived is seen before anything is sent. One that has not may
        // make the outcome unknown, but never a second execution.
        if answer.status != 201 {
            expect_problem(&answer, 409, "outcome-unknown");
        }
        assert!(origin.executions(&format!("k{round}")) <= 1);
    }
}
