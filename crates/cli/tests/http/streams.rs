//! Streaming answers of requests with a key: passed on as they come, kept when they are whole.

use onceward_rig::gateway::{Act, Answer, Gate, Origin, Payload, Wire};

use crate::{ask, expect_problem, expect_replay, launch, pay};

fn events(pieces: usize) -> Vec<Vec<u8>> {
    (0..pieces)
        .map(|at| format!("data: {at}\n\n").into_bytes())
        .collect()
}

fn event_stream(pieces: usize, gate: &Gate) -> Answer {
    let answer = Answer::with(200, Payload::Paced(events(pieces), gate.clone()));
    answer.field("Content-Type", "text/event-stream")
}

/// Reads what is sent up to and including `text`.
async fn read_past(wire: &mut Wire, text: &str) -> String {
    let mut read = String::new();
    while !read.ends_with(text) {
        let byte = wire.some(1).await;
        assert!(!byte.is_empty(), "the answer ends after {read:?}");
        read.push(byte[0].into());
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_one_by_one_and_are_repeated_together() {
    let gate = Gate::new();
    let answer = event_stream(3, &gate);
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let gateway = launch(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    assert_eq!(wire.head().await.unwrap().status, 200);
    for at in 0..3 {
        // The next one is not sent before this one has arrived.
        gate.open_once();
        read_past(&mut wire, &format!("data: {at}\n\n")).await;
    }
    gate.open();
    read_past(&mut wire, "0\r\n\r\n").await;

    let retry = ask(&gateway, &pay("k")).await;
    assert!(retry.is_replay() && retry.complete);
    assert_eq!(retry.text(), "data: 0\n\ndata: 1\n\ndata: 2\n\n");
    assert_eq!(retry.fields.get("content-type"), Some("text/event-stream"));
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_vanishes_does_not_stop_the_recording() {
    let gate = Gate::new();
    let answer = event_stream(3, &gate);
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let gateway = launch(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    gate.open_once();
    read_past(&mut wire, "data: 0\n\n").await;
    wire.reset().unwrap();
    gate.open();

    let retry = ask(&gateway, &pay("k")).await;
    assert!(retry.is_replay() && retry.complete, "{retry:?}");
    assert_eq!(retry.text(), "data: 0\n\ndata: 1\n\ndata: 2\n\n");
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_is_cut_for_its_caller_and_unknown_after() {
    let pieces = Payload::Chunked(events(3), String::new());
    let answer = Answer::with(200, pieces).field("Content-Type", "text/event-stream");
    let after = answer.wire_len() - 5;
    let origin = Origin::scripted(move |_| Act::Cut {
        answer: answer.clone(),
        after,
    })
    .await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("k")).await;
    assert!(!first.complete || first.status == 409, "{first:?}");
    for _ in 0..2 {
        expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_waits_for_the_whole_stream() {
    let gate = Gate::new();
    let answer = event_stream(2, &gate);
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let gateway = launch(&origin).start().await;
    let asked = pay("k");
    let first = ask(&gateway, &asked);
    let second = async {
        origin.wait_for(1).await;
        gate.open_once();
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        wire.send(&asked.bytes()).await.unwrap();
        gate.open();
        wire.read().await.unwrap()
    };
    let (first, second) = tokio::join!(first, second);
    expect_replay(&second, &first);
    assert_eq!(
        (second.text(), origin.count()),
        ("data: 0\n\ndata: 1\n\n".into(), 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_can_stream_every_answer() {
    let gate = Gate::new();
    let answer = Answer::with(200, Payload::Paced(events(2), gate.clone()));
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let gateway = launch(&origin)
        .config("[defaults]\nstream = true\n")
        .start()
        .await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    gate.open_once();
    read_past(&mut wire, "data: 0\n\n").await;
    gate.open();
    read_past(&mut wire, "0\r\n\r\n").await;
    assert_eq!(
        ask(&gateway, &pay("k")).await.text(),
        "data: 0\n\ndata: 1\n\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_does_not_stop_the_recording() {
    let pieces: Vec<_> = (0..64).map(|_| vec![b'x'; 64 << 10]).collect();
    let answer = Answer::with(200, Payload::Chunked(pieces, String::new()));
    let answer = answer.field("Content-Type", "text/event-stream");
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let config = "[defaults]\nmax_answer = \"8MiB\"\nwait = \"30s\"\n";
    let gateway = launch(&origin).config(config).start().await;
    let mut lazy = Wire::connect(gateway.addr()).await.unwrap();
    lazy.send(&pay("k").bytes()).await.unwrap();
    assert_eq!(lazy.head().await.unwrap().status, 200);

    let retry = ask(&gateway, &pay("k")).await;
    assert!(retry.is_replay() && retry.complete, "{}", retry.status);
    assert_eq!((retry.body.len(), origin.count()), (4 << 20, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_too_large_to_keep_is_delivered_once() {
    let pieces = Payload::Chunked(events(1000), String::new());
    let answer = Answer::with(200, pieces).field("Content-Type", "text/event-stream");
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let gateway = launch(&origin)
        .config("[defaults]\nmax_answer = \"1KiB\"\n")
        .start()
        .await;
    let first = ask(&gateway, &pay("k")).await;
    assert!(first.complete && first.text().ends_with("data: 999\n\n"));
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "answer-not-kept");
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_a_stream_its_outcome_is_unknown() {
    let gate = Gate::new();
    let answer = event_stream(3, &gate);
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let mut gateway = crate::durable(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    gate.open_once();
    read_past(&mut wire, "data: 0\n\n").await;
    gateway.kill9().await;
    gate.open();
    let rest = wire.some(100).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the end was not stored");
    let gateway = gateway.restart().await;
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");
    assert_eq!(origin.count(), 1);
}
