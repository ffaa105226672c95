//! The callers against an upstream and against stand-ins that keep, or break, the promise.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::callers::{Order, Pace};
use super::message::{self, Inbox};
use super::mix::Mix;
use super::upstream;

/// How a stand-in for the gateway treats a key that comes again.
#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Replays the answer, and says so.
    Replay,
    /// Replays the answer as if it were new.
    Silent,
    /// Replays the answer to another key.
    Mixed,
    /// Executes again, and says that it did not.
    Again,
}

type Kept = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn upstream() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(upstream::serve(listener));
    address
}

async fn stand_in(manner: Manner, upstream: SocketAddr) -> SocketAddr {
    let (listener, address) = listen().await;
    let kept = Kept::default();
    tokio::spawn(async move {
        loop {
            let (caller, _) = listener.accept().await.unwrap();
            tokio::spawn(relay(manner, upstream, caller, Arc::clone(&kept)));
        }
    });
    address
}

async fn relay(manner: Manner, upstream: SocketAddr, mut caller: TcpStream, kept: Kept) {
    let mut origin = TcpStream::connect(upstream).await.unwrap();
    let (mut asked, mut answered) = (Inbox::new(), Inbox::new());
    loop {
        let mut key = Vec::new();
        let parse = |bytes: &[u8]| {
            message::request(bytes, |_, _, fields| {
                let found = message::field(fields, "idempotency-key");
                key = found.unwrap_or_default().to_vec();
            })
        };
        let Ok(Some(frame)) = asked.next(&mut caller, parse).await else {
            return;
        };
        let request = [asked.head(frame), asked.body(frame)].concat();
        asked.take(frame);
        let found = kept.lock().unwrap().get(&key).cloned();
        let answer = match (found, manner) {
            (Some(answer), Manner::Silent) => answer,
            (Some(answer), Manner::Replay) => marked(&answer),
            (Some(answer), Manner::Mixed) => marked(&of_another_key(&answer)),
            (found, _) => {
                origin.write_all(&request).await.unwrap();
                let parse = |bytes: &[u8]| message::answer(bytes, |_, _| {});
                let frame = answered.next(&mut origin, parse).await.unwrap().unwrap();
                let answer = [answered.head(frame), answered.body(frame)].concat();
                answered.take(frame);
                if !key.is_empty() {
                    kept.lock().unwrap().insert(key, answer.clone());
                }
                found.map_or(answer, |found| marked(&found))
            }
        };
        if caller.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn marked(answer: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(answer.to_vec()).unwrap();
    let text = text.replacen("\r\n", "\r\nIdempotent-Replayed: true\r\n", 1);
    text.into_bytes()
}

fn of_another_key(answer: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(answer.to_vec()).unwrap();
    text.replacen("pay_8e03978e", "pay_8e03978f", 1)
        .into_bytes()
}

/// An order of a hundred requests, however long they take.
fn order(to: SocketAddr, mix: Mix) -> Order {
    Order {
        to,
        replays: true,
        connections: 4,
        pace: Pace::Closed,
        warm: Duration::ZERO,
        span: Duration::from_secs(600),
        each: 25,
        numbers: Arc::new(AtomicU64::new(0)),
        mix,
    }
}

async fn reached(upstream: SocketAddr) -> (u64, u64) {
    let (_, body) = message::call(upstream, "GET", "/_count").await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let count = |name: &str| body[name].as_u64().unwrap();
    (count("requests"), count("repeated"))
}

async fn refusal(manner: Manner) -> String {
    let upstream = upstream().await;
    let to = stand_in(manner, upstream).await;
    let refused = order(to, Mix::Half).run().await.unwrap_err();
    refused.to_string()
}

#[tokio::test]
async fn upstream_counts_every_payment_and_every_repeated_key() {
    let upstream = upstream().await;
    let plain = |mix| Order {
        replays: false,
        ..order(upstream, mix)
    };
    plain(Mix::First).run().await.unwrap();
    assert_eq!(reached(upstream).await, (100, 0));
    plain(Mix::First).run().await.unwrap();
    assert_eq!(reached(upstream).await, (200, 100));

    message::call(upstream, "POST", "/_reset").await.unwrap();
    plain(Mix::Unkeyed).run().await.unwrap();
    assert_eq!(reached(upstream).await, (100, 0));
}

#[tokio::test]
async fn replays_are_answered_and_never_reach_the_upstream() {
    let upstream = upstream().await;
    let to = stand_in(Manner::Replay, upstream).await;
    let first = order(to, Mix::First).run().await.unwrap();
    assert_eq!((first.asked, first.executed), (100, 100));

    let replayed = order(to, Mix::Replay(0..100)).run().await.unwrap();
    assert_eq!((replayed.asked, replayed.executed), (100, 0));
    assert_eq!(reached(upstream).await, (100, 0));
}

#[tokio::test]
async fn half_of_the_duplicates_executes() {
    let upstream = upstream().await;
    let to = stand_in(Manner::Replay, upstream).await;
    let turn = order(to, Mix::Half).run().await.unwrap();
    // A connection that asks 25 times asks for its 13th key once.
    assert_eq!((turn.asked, turn.executed), (100, 52));
    assert_eq!(reached(upstream).await, (52, 0));
}

#[tokio::test]
async fn replay_that_is_not_called_one_is_refused() {
    let refusal = refusal(Manner::Silent).await;
    assert!(
        refusal.contains("again: true } got a wrong answer"),
        "{refusal}"
    );
}

#[tokio::test]
async fn answer_to_another_key_is_refused() {
    let refusal = refusal(Manner::Mixed).await;
    assert!(refusal.contains("Replayed: true"), "{refusal}");
    assert!(refusal.contains("pay_8e03978f"), "{refusal}");
}

#[tokio::test]
async fn second_execution_shows_at_the_upstream() {
    let upstream = upstream().await;
    let to = stand_in(Manner::Again, upstream).await;
    let turn = order(to, Mix::Half).run().await.unwrap();
    assert_eq!(turn.executed, 52);
    assert_eq!(reached(upstream).await, (100, 48));
}

#[tokio::test]
async fn fixed_rate_sends_as_many_as_it_says() {
    let upstream = upstream().await;
    let order = Order {
        replays: false,
        pace: Pace::PerSecond(2_000),
        span: Duration::from_millis(100),
        each: u32::MAX,
        ..order(upstream, Mix::First)
    };
    let turn = order.run().await.unwrap();
    assert_eq!(turn.asked, 200);
    assert_eq!(turn.load.latency.len(), 200);
}
