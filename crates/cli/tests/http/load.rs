//! P18: many duplicates, large bodies and slow callers, in bounded memory.

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use onceward_rig::gateway::{Answer, Ask, Gate, Origin, Wire, raise_file_limit, until};

use crate::{ask, launch, pay};

/// What the gateway may take at the most.
const MEMORY_MAX: u64 = 512 << 20;

/// The duplicates of one key.
const DUPLICATES: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_duplicates_of_one_key_are_one_execution() {
    // This process has both ends of none, so all but a few files can be connections.
    let files = usize::try_from(raise_file_limit()).unwrap();
    let connections = DUPLICATES.min(files.saturating_sub(500));
    assert!(
        connections >= 1000,
        "only {files} files can be open: raise the limit"
    );
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    let config = "[limits]\nconnections = 16000\nidle_timeout = \"300s\"\n\
                  [defaults]\nwait = \"30s\"\nupstream_timeout = \"300s\"\n";
    let gateway = launch(&origin).config(config).start().await;
    let bytes = pay("k").bytes();
    // The first is on its way before the others come, and is answered after they are there.
    let opened = stream::iter(0..connections).map(|_| async {
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        wire.send(&bytes).await.unwrap();
        wire
    });
    let mut wires: Vec<_> = opened.buffer_unordered(64).collect().await;
    origin.wait_for(1).await;
    let (during, _) = gateway.memory();
    gate.open();

    let answered = join_all(
        wires
            .iter_mut()
            .map(|wire| async { wire.read().await.unwrap() }),
    );
    let mut answers = answered.await;
    for wires in wires[..DUPLICATES - connections].chunks_mut(64) {
        answers.extend(
            join_all(wires.iter_mut().map(|wire| async {
                wire.send(&bytes).await.unwrap();
                wire.read().await.unwrap()
            }))
            .await,
        );
    }
    assert_eq!(answers.len(), DUPLICATES);
    let replays = answers.iter().filter(|answer| answer.is_replay()).count();
    assert_eq!(replays, DUPLICATES - 1);
    assert!(answers.iter().all(|answer| answer.text() == "receipt 0"));
    assert_eq!(origin.count(), 1);
    let (_, most) = gateway.memory();
    assert!(
        most < MEMORY_MAX,
        "{during} bytes while they waited, {most} at the most"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_bodies_are_held_in_bounded_memory() {
    let origin = Origin::scripted(|_| Answer::new(200, vec![b'a'; 900 << 10]).into()).await;
    let gateway = launch(&origin).start().await;
    let send = stream::iter(0..48).map(|number| {
        let asked = pay(&format!("large-{number}")).body(vec![b'x'; 4 << 20]);
        let gateway = &gateway;
        async move {
            let answer = ask(gateway, &asked).await;
            assert!(answer.status == 200 && answer.body.len() == 900 << 10);
        }
    });
    send.buffer_unordered(24).collect::<Vec<()>>().await;
    let (_, most) = gateway.memory();
    // The store holds 48 answers of 900 KiB each in memory.
    assert!(most < MEMORY_MAX, "{most} bytes");
    assert_eq!(origin.count(), 48);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_that_never_end_are_held_in_bounded_memory() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let bytes = pay("k").body(vec![b'x'; 4 << 20]).bytes();
    let wires = join_all((0..40).map(|_| async {
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        wire.send(&bytes[..bytes.len() - 1]).await.unwrap();
        wire
    }))
    .await;
    assert_eq!(ask(&gateway, &pay("good")).await.status, 201);
    let (_, most) = gateway.memory();
    assert!(most < MEMORY_MAX, "{most} bytes");
    drop(wires);
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_slow_connections_do_not_keep_a_good_caller_waiting() {
    raise_file_limit();
    let origin = Origin::start().await;
    let config = "[limits]\nfirst_byte_timeout = \"2s\"\nheader_timeout = \"2s\"\n\
                  body_grace = \"2s\"\nidle_timeout = \"2s\"\n";
    let gateway = launch(&origin).config(config).start().await;
    let before = gateway.open_files();
    let head = "POST /payments HTTP/1.1\r\nHost: a\r\nIdempotency-Key: slow\r\n";
    let beginnings = [
        String::new(),
        "P".into(),
        head.into(),
        format!("{head}Content-Length: 100\r\n\r\nx"),
    ];
    let opened = stream::iter(0..2000).map(|number: usize| {
        let bytes = beginnings[number % beginnings.len()].clone();
        let gateway = &gateway;
        async move {
            let mut wire = Wire::connect(gateway.addr()).await.unwrap();
            wire.send(bytes.as_bytes()).await.unwrap();
            wire
        }
    });
    let slow: Vec<_> = opened.buffer_unordered(64).collect().await;
    for key in 0..10 {
        assert_eq!(
            ask(&gateway, &pay(&format!("good-{key}"))).await.status,
            201
        );
    }
    // They are all cut off in the end, though none of them has closed its side.
    until("the slow connections are cut", || async {
        (gateway.open_files() < before + 100).then_some(())
    })
    .await;
    drop(slow);
    assert_eq!(origin.count(), 10);
    let (_, most) = gateway.memory();
    assert!(most < MEMORY_MAX, "{most} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_holds_nobody_up() {
    let origin = Origin::scripted(|_| Answer::new(200, vec![b'a'; 4 << 20]).into()).await;
    let gateway = launch(&origin).start().await;
    let mut lazy = Vec::new();
    for _ in 0..20 {
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        wire.send(&Ask::get("/large").bytes()).await.unwrap();
        lazy.push(wire);
    }
    let answer = ask(&gateway, &Ask::get("/large")).await;
    assert!(answer.complete && answer.body.len() == 4 << 20);
    let (_, most) = gateway.memory();
    assert!(
        most < 128 << 20,
        "{most} bytes: what is passed on is not gathered"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_leave_no_connections_behind() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    ask(&gateway, &pay("first")).await;
    let before = gateway.open_files();
    let asks = stream::iter(0..1000).map(|key| {
        let gateway = &gateway;
        async move { assert_eq!(ask(gateway, &pay(&format!("k{key}"))).await.status, 201) }
    });
    asks.buffer_unordered(32).collect::<Vec<()>>().await;
    until("connections are closed", || async {
        (gateway.open_files() < before + 64).then_some(())
    })
    .await;
    assert_eq!(origin.count(), 1001);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_and_leave_are_forgotten() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    // A caller may have closed its side only and still want its answer, so one that has left is
    // kept until its wait is over.
    let config = "[defaults]\nwait = \"500ms\"\n";
    let gateway = launch(&origin).config(config).start().await;
    let before = gateway.open_files();
    let bytes = pay("k").bytes();
    for _ in 0..5 {
        let mut waiting = Vec::new();
        for _ in 0..100 {
            let mut wire = Wire::connect(gateway.addr()).await.unwrap();
            wire.send(&bytes).await.unwrap();
            waiting.push(wire);
        }
        origin.wait_for(1).await;
        drop(waiting);
        until("those who left are gone", || async {
            (gateway.open_files() < before + 20).then_some(())
        })
        .await;
    }
    gate.open();
    assert_eq!(ask(&gateway, &pay("k")).await.text(), "receipt 0");
    assert_eq!(origin.count(), 1);
}
