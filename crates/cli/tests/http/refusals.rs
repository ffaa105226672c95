//! P19: refusals that every client survives, and what is said while the first still runs.

use onceward_rig::gateway::{Answer, Ask, Gate, Gateway, Origin, Received, Wire, until};

use crate::{ask, expect_problem, launch, pay};

#[tokio::test]
async fn a_client_that_reads_json_only_gets_json() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let bad = pay("a,b");
    for (accept, media_type) in [
        ("application/json", "application/json"),
        ("application/json, */*", "application/json"),
        ("*/*", "application/problem+json"),
        (
            "application/problem+json, application/json",
            "application/problem+json",
        ),
    ] {
        let answer = ask(&gateway, &bad.clone().field("Accept", accept)).await;
        expect_problem(&answer, 400, "invalid-key");
        assert_eq!(
            answer.fields.get("content-type"),
            Some(media_type),
            "{accept}"
        );
    }
}

#[tokio::test]
async fn a_target_that_is_too_long_is_refused() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let answer = ask(&gateway, &Ask::get(&format!("/{}", "x".repeat(9000)))).await;
    expect_problem(&answer, 414, "target-too-long");
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn what_is_no_request_is_told_so_as_a_problem() {
    let origin = Origin::start().await;
    let config = "[problems]\ndocs = \"https://docs.example/\"\n";
    let gateway = launch(&origin).config(config).start().await;
    let lines = "X-Y: z\r\n".repeat(101);
    let long = format!("Cookie: {}\r\n", "x".repeat(40_000));
    for (head, status, name) in [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n",
            400,
            "invalid-request",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n",
            400,
            "invalid-request",
        ),
        ("SSH-2.0-OpenSSH_9.6\r\n", 400, "invalid-request"),
        (
            &*format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}"),
            431,
            "head-too-large",
        ),
        (
            &*format!("GET / HTTP/1.1\r\nHost: a\r\n{long}"),
            431,
            "head-too-large",
        ),
    ] {
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        wire.send(format!("{head}\r\n").as_bytes()).await.unwrap();
        let answer = wire.read().await.unwrap();
        expect_problem(&answer, status, name);
        assert!(answer.closes, "{name}");
        let link = format!("<https://docs.example/{name}>; rel=\"describedby\"");
        assert_eq!(answer.fields.get("link"), Some(&*link));
    }
    assert_eq!(origin.count(), 0);
}

/// A service that holds its answer, and a gateway with the first request on its way.
async fn running(config: &str) -> (Origin, Gateway, Gate, Wire) {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    let gateway = launch(&origin).config(config).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    origin.wait_for(1).await;
    (origin, gateway, gate, wire)
}

async fn settled(origin: &Origin, gateway: &Gateway, gate: &Gate, mut first: Wire) {
    gate.open();
    assert_eq!(first.read().await.unwrap().text(), "receipt 0");
    assert!(ask(gateway, &pay("k")).await.is_replay());
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_may_refuse_duplicates_at_once() {
    let (origin, gateway, gate, first) = running("[defaults]\non_busy = \"refuse\"\n").await;
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "in-progress");
    settled(&origin, &gateway, &gate, first).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_waits_no_longer_than_it_prefers_or_the_route_says() {
    let (origin, gateway, gate, first) = running("[defaults]\nwait = \"1s\"\n").await;
    let hasty = pay("k").field("Prefer", "wait=0");
    expect_problem(&ask(&gateway, &hasty).await, 409, "in-progress");
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "in-progress");
    let patient = pay("k").field("Prefer", "wait=600");
    expect_problem(&ask(&gateway, &patient).await, 409, "in-progress");
    settled(&origin, &gateway, &gate, first).await;
}

/// Where an accepted request says that its answer will be.
fn place(accepted: &Received) -> String {
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    let place = accepted.fields.get("location").unwrap();
    assert!(
        place.starts_with("/.well-known/onceward/operations/"),
        "{place}"
    );
    place.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_does_not_wait_is_told_where_to_look() {
    let (origin, gateway, gate, first) = running("[defaults]\non_busy = \"accept\"\n").await;
    let place = place(&ask(&gateway, &pay("k")).await);
    let running = ask(&gateway, &Ask::get(&place)).await;
    assert!(!running.text().contains("receipt"));
    let foreign = ask(&gateway, &Ask::get(&place).bearer("somebody else")).await;
    expect_problem(&foreign, 404, "no-such-operation");
    let none = ask(&gateway, &Ask::get("/.well-known/onceward/operations/none")).await;
    expect_problem(&none, 404, "no-such-operation");
    settled(&origin, &gateway, &gate, first).await;
    let done = ask(&gateway, &Ask::get(&place)).await;
    assert!(
        done.text().contains("receipt 0"),
        "{} {}",
        done.status,
        done.text()
    );
    let foreign = ask(&gateway, &Ask::get(&place).bearer("somebody else")).await;
    expect_problem(&foreign, 404, "no-such-operation");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_request_may_ask_not_to_wait() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    let gateway = launch(&origin).start().await;
    let asked = pay("k").field("Prefer", "respond-async");
    let place = place(&ask(&gateway, &asked).await);
    origin.wait_for(1).await;
    gate.open();
    until("the operation is done", || async {
        let found = ask(&gateway, &Ask::get(&place)).await;
        found.text().contains("receipt 0").then_some(())
    })
    .await;
    assert_eq!(ask(&gateway, &pay("k")).await.text(), "receipt 0");
    assert_eq!(origin.count(), 1);
}
