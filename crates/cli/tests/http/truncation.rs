//! P9: half a request never executes, half an answer never counts as a whole one.

use futures_util::future::join_all;
use onceward_rig::gateway::{Act, Answer, Early, Fields, Manners, Origin, Payload, Seen, Wire};

use crate::{ask, expect_problem, launch, pay};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_early_is_not_executed() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    for asked in [pay("k"), pay("k").chunked()] {
        let bytes = asked.bytes();
        let body = asked.head().len();
        for end in body..bytes.len() {
            let mut wire = Wire::connect(gateway.addr()).await.unwrap();
            wire.send(&bytes[..end]).await.unwrap();
            wire.finish().await.unwrap();
            if let Ok(answer) = wire.read().await {
                assert!(
                    (400..500).contains(&answer.status),
                    "{end}: {}",
                    answer.status
                );
            }
            assert!(wire.is_closed().await);
        }
    }
    assert_eq!(origin.count(), 0);
    assert!(!ask(&gateway, &pay("k")).await.is_replay());
}

/// Asks once per byte position, with the answer of that key cut there.
async fn cut_everywhere(answer: Answer) {
    let len = answer.wire_len();
    let origin = Origin::scripted(move |seen: &Seen| Act::Cut {
        answer: answer.clone(),
        after: seen.key().unwrap().parse().unwrap(),
    })
    .await;
    let gateway = launch(&origin).start().await;
    let cut = async |at: usize| {
        let asked = pay(&at.to_string());
        expect_problem(&ask(&gateway, &asked).await, 409, "outcome-unknown");
        expect_problem(&ask(&gateway, &asked).await, 409, "outcome-unknown");
        assert_eq!(origin.executions(&at.to_string()), 1, "cut at {at}");
    };
    for positions in (0..len).collect::<Vec<_>>().chunks(16) {
        join_all(positions.iter().map(|at| cut(*at))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_length_that_is_cut_anywhere_is_unknown() {
    cut_everywhere(Answer::receipt(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_chunks_that_is_cut_anywhere_is_unknown() {
    let pieces = vec![b"one".to_vec(), b"two".to_vec()];
    cut_everywhere(Answer::with(200, Payload::Chunked(pieces, String::new()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_resets_leaves_the_outcome_unknown() {
    let early = |fields: &Fields| match fields.get("x-early") {
        Some("reset") => Early::Reset,
        Some("halfway") => Early::ResetHalfway,
        _ => Early::Read,
    };
    let origin = Origin::with(Manners::Strict, early, |_| Act::Reset).await;
    let gateway = launch(&origin).start().await;
    for early in ["reset", "halfway", "after"] {
        let asked = pay(early).field("X-Early", early).body(vec![b'x'; 100_000]);
        for _ in 0..2 {
            expect_problem(&ask(&gateway, &asked).await, 409, "outcome-unknown");
        }
    }
    assert_eq!(origin.count(), 1);
}
