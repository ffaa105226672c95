use super::*;
use crate::gateway::{Ask, Wire, ask};

#[tokio::test]
async fn what_was_asked_is_seen_and_counted_by_caller_and_key() {
    let origin = Origin::start().await;
    let pay = Ask::post("/pay?x=1")
        .key("\"k\"")
        .bearer("a")
        .field("Idempotency-Attempt", "2");
    let first = ask(origin.addr(), &pay).await.unwrap();
    let second = ask(origin.addr(), &pay.clone().bearer("b")).await.unwrap();
    assert_eq!((first.status, first.text()), (201, "receipt 0".into()));
    assert_eq!(second.text(), "receipt 1");

    let seen = &origin.seen()[0];
    assert_eq!((&*seen.method, &*seen.target), ("POST", "/pay?x=1"));
    assert_eq!((&seen.body[..], seen.attempt()), (&b"pay 100"[..], Some(2)));
    assert_eq!(origin.executions("k"), 2);
    let slot = ("Bearer a".to_owned(), "k".to_owned());
    assert_eq!(origin.effects()[&slot], 2);
}

#[tokio::test]
async fn a_request_that_is_cut_is_not_seen() {
    let origin = Origin::start().await;
    let bytes = Ask::post("/").key("k").bytes();
    let mut wire = Wire::connect(origin.addr()).await.unwrap();
    wire.send(&bytes[..bytes.len() - 1]).await.unwrap();
    wire.finish().await.unwrap();
    wire.read().await.unwrap_err();
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn every_way_not_to_answer_leaves_the_caller_without_one() {
    let origin = Origin::scripted(|seen| match &*seen.target {
        "/vanish" => Act::Vanish,
        _ => Act::Reset,
    })
    .await;
    for path in ["/vanish", "/reset"] {
        ask(origin.addr(), &Ask::post(path)).await.unwrap_err();
    }
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn a_reset_halfway_sees_no_request() {
    let halfway = |_: &Fields| Early::ResetHalfway;
    let origin = Origin::with(Manners::Strict, halfway, |_| Act::Vanish).await;
    ask(origin.addr(), &Ask::post("/")).await.unwrap_err();
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn an_answer_is_cut_at_the_byte_that_the_script_says() {
    let answer = Answer::receipt(7);
    let len = answer.wire_len();
    let origin = Origin::scripted(move |_| Act::Cut {
        answer: answer.clone(),
        after: len - 1,
    })
    .await;
    let cut = ask(origin.addr(), &Ask::post("/")).await.unwrap();
    assert_eq!((cut.complete, cut.text()), (false, "receipt ".into()));
}

#[tokio::test]
async fn pieces_come_when_the_gate_lets_them() {
    let gate = Gate::new();
    let pieces = vec![b"one".to_vec(), b"two".to_vec()];
    let answer = Answer::with(200, Payload::Paced(pieces, gate.clone()));
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let mut wire = Wire::connect(origin.addr()).await.unwrap();
    wire.send(&Ask::get("/").bytes()).await.unwrap();
    let head = wire.head().await.unwrap();
    assert_eq!(head.status, 200);
    gate.open_once();
    assert_eq!(wire.some("3\r\none\r\n".len()).await, b"3\r\none\r\n");
    gate.open();
    let rest = b"3\r\ntwo\r\n0\r\n\r\n";
    assert_eq!(wire.some(rest.len()).await, rest);
}

#[tokio::test]
async fn a_strict_service_refuses_what_a_lenient_one_reads() {
    let odd = b"POST / HTTP/1.1\r\nHost : a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\
                \r\n0\r\n\r\n";
    for (manners, status) in [(Manners::Strict, 400), (Manners::Lenient, 201)] {
        let script = |_: &Seen| Answer::receipt(0).into();
        let origin = Origin::with(manners, |_| Early::Read, script).await;
        let mut wire = Wire::connect(origin.addr()).await.unwrap();
        wire.send(odd).await.unwrap();
        assert_eq!(wire.read().await.unwrap().status, status);
        assert_eq!(origin.malformed().len(), usize::from(status == 400));
    }
}
