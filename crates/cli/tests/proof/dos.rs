//! Attacks beside a caller who does nothing wrong: that caller is served, the gateway stays small,
//! and when the attack ends there is nothing left of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use onceward_rig::gateway::{Answer, Gate, Gateway, Origin, Seen, Wire, until};
use onceward_rig::tally::Tally;

use crate::frames::{self, frame};
use crate::{MEMORY_MAX, ask, durable, mib, pay, turn};

/// Slow callers are cut off soon, so that the end of an attack comes within a test.
const LIMITS: &str = "[upstream]\nconnect_timeout = \"60s\"\n[limits]\nfirst_byte_timeout = \"4s\"\nheader_timeout = \"4s\"\n\
                      body_grace = \"4s\"\nidle_timeout = \"20s\"\nexecutions = 11000\n\
                      [defaults]\nupstream_timeout = \"300s\"\n";

/// How often the good caller asks, before and during an attack.
const ASKS: usize = 200;

/// How many connections are slow.
const SLOW: usize = 2_000;

/// How many claims hang. Each takes two files of the gateway, and about 80 KB.
const HUNG: usize = 5_000;

/// The good caller, and how it fares.
struct Good {
    place: SocketAddr,
    asked: usize,
    /// The time within which 99 of 100 calls were answered, at rest.
    at_rest: Duration,
    /// And under attack, at the worst.
    attacked: Duration,
}

/// A gateway that is attacked.
struct Target {
    origin: Origin,
    gateway: Gateway,
    good: Good,
    files: usize,
}

// === impl Good ===

impl Good {
    /// Asks with keys of its own, and returns how long 99 of 100 of the calls took at the most.
    #[expect(
        clippy::disallowed_methods,
        reason = "what is reported, and nowhere compared, is real time"
    )]
    async fn ask(&mut self) -> Duration {
        let mut wire = Wire::connect(self.place).await.unwrap();
        let mut spans = Vec::with_capacity(ASKS);
        for _ in 0..ASKS {
            let asked = pay(&format!("good-{}", self.asked)).bearer("good");
            let start = Instant::now();
            wire.send(&asked.bytes()).await.unwrap();
            let answer = wire.read().await.unwrap();
            spans.push(start.elapsed());
            assert_eq!(answer.status, 201, "{}", answer.text());
            assert!(answer.complete && !answer.is_replay());
            self.asked += 1;
        }
        spans.sort_unstable();
        spans[ASKS * 99 / 100 - 1]
    }
}

// === impl Target ===

impl Target {
    async fn start(origin: Origin) -> Self {
        let gateway = durable(&origin).config(LIMITS).start().await;
        let mut good = Good {
            place: gateway.addr(),
            asked: 0,
            at_rest: Duration::ZERO,
            attacked: Duration::ZERO,
        };
        good.at_rest = good.ask().await;
        Self {
            files: gateway.open_files(),
            origin,
            gateway,
            good,
        }
    }

    async fn connect(&self) -> Wire {
        Wire::connect(self.gateway.addr()).await.unwrap()
    }

    /// Opens connections that begin with these bytes, in turn.
    async fn open(&self, count: usize, beginnings: &[Vec<u8>]) -> Vec<Wire> {
        let opened = stream::iter(0..count).map(|number| async move {
            let mut wire = self.connect().await;
            // It may be closed before all is sent.
            let _ = wire.send(&beginnings[number % beginnings.len()]).await;
            wire
        });
        opened.buffer_unordered(64).collect().await
    }

    /// Lets the good caller ask under attack.
    async fn serves(&mut self) {
        let span = self.good.ask().await;
        self.good.attacked = self.good.attacked.max(span);
    }

    /// Waits until nothing is left of the attack, checks that nobody but the good caller and
    /// `others` was executed, and records it.
    async fn recovers(mut self, proof: &str, trials: usize, others: usize) {
        until("nothing is left of the attack", || async {
            (self.gateway.open_files() < self.files + 100).then_some(())
        })
        .await;
        let after = self.good.ask().await;
        let (now, most) = self.gateway.memory();
        assert!(most <= MEMORY_MAX, "{} MiB at the most", mib(most));
        assert_eq!(self.origin.count(), self.good.asked + others);
        assert!(self.origin.effects().values().all(|count| *count == 1));
        assert_eq!(self.origin.malformed(), [""; 0]);
        let Good {
            at_rest, attacked, ..
        } = self.good;
        let note = format!(
            "p99 beside it {attacked:.1?}, before {at_rest:.1?}, after {after:.1?}; {} MiB at the \
             most, {} after",
            mib(most),
            mib(now)
        );
        Tally::record(proof, trials as u64, None, 0, &note);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_callers_harm_nobody() {
    let _turn = turn().await;
    let mut target = Target::start(Origin::start().await).await;
    let head = "POST /payments HTTP/1.1\r\nHost: a\r\nIdempotency-Key: slow\r\n";
    let beginnings = [
        String::new(),
        "P".into(),
        head.into(),
        format!("{head}Content-Length: 100000\r\n\r\nx"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n1"),
    ]
    .map(String::into_bytes);
    let slow = target.open(SLOW, &beginnings).await;
    target.serves().await;
    // They are cut off though none of them closes its side.
    target.recovers("slow callers", SLOW, 0).await;
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn bombs_are_refused_and_harm_nobody() {
    let _turn = turn().await;
    let mut target = Target::start(Origin::start().await).await;
    let begin = "POST /payments HTTP/1.1\r\nHost: a\r\nIdempotency-Key: bomb\r\n";
    let long = "x".repeat(256 << 10);
    let many = "X-A: b\r\n".repeat(20_000);
    let numbers: Vec<_> = (0..115)
        .map(|at| (format!("x-{at}"), [b'v'; 120]))
        .collect();
    let fields: Vec<_> = numbers.iter().map(|it| (&*it.0, &it.1[..])).collect();
    let mut listed = frames::preface();
    let block = frames::head("/payments", &fields);
    listed.extend(frame(frames::HEADERS, frames::END_STREAM, 1, &block));
    let bombs = [
        format!("{begin}X-A: {long}\r\n\r\n").into_bytes(),
        format!("{begin}{many}\r\n").into_bytes(),
        format!("POST /{long} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(),
        long.clone().into_bytes(),
        format!("{begin}Content-Length: 4000000000\r\n\r\nx").into_bytes(),
        format!("{begin}Transfer-Encoding: chunked\r\n\r\nffffffff\r\nx").into_bytes(),
        format!("{begin}Transfer-Encoding: chunked\r\n\r\n1;{long}").into_bytes(),
        listed,
    ];
    const BOMBS: usize = 200;
    let wires = target.open(BOMBS, &bombs).await;
    target.serves().await;
    target.recovers("bombs", BOMBS, 0).await;
    drop(wires);
}

/// Streams that are opened and reset as fast as can be, and streams that never end.
#[tokio::test(flavor = "multi_thread")]
async fn floods_of_streams_harm_nobody() {
    const ROUNDS: usize = 8;
    const STREAMS: usize = 2_000;
    let _turn = turn().await;
    let mut target = Target::start(Origin::start().await).await;
    let mut told = 0;
    for round in 0..ROUNDS {
        let (mut resets, mut open) = (frames::preface(), frames::preface());
        for number in 0..STREAMS {
            let stream = u32::try_from(2 * number + 1).unwrap();
            let key = format!("flood-{round}-{number}");
            let fields = [("idempotency-key", key.as_bytes())];
            let head = frames::head("/payments", &fields);
            // None of them has its body, so none of them is ever executed.
            resets.extend(frame(frames::HEADERS, 0, stream, &head));
            resets.extend(frame(frames::RESET, 0, stream, &frames::CANCEL));
            open.extend(frame(frames::HEADERS, 0, stream, &head));
        }
        let mut wires = target.open(2, &[resets, open]).await;
        target.serves().await;
        for wire in &mut wires {
            while let Some(frame) = frames::read(wire).await {
                if matches!(frame.kind, frames::GO_AWAY | frames::RESET) {
                    told += 1;
                    break;
                }
            }
        }
    }
    assert!(told >= ROUNDS, "only {told} connections were told to stop");
    let trials = ROUNDS * STREAMS * 2;
    target.recovers("floods of streams", trials, 0).await;
}

/// Claims that are never completed, because the service hangs and their callers are gone.
#[tokio::test(flavor = "multi_thread")]
async fn claims_that_hang_harm_nobody_and_are_done_once() {
    let _turn = turn().await;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |seen: &Seen| {
        let answer = Answer::receipt(0);
        match seen.fields.get("authorization") {
            Some("Bearer hang") => answer.after(&held).into(),
            _ => answer.into(),
        }
    })
    .await;
    let mut target = Target::start(origin).await;
    let hang = |number: usize| pay(&format!("hang-{number}")).bearer("hang");
    for from in (0..HUNG).step_by(500) {
        let asks: Vec<_> = (from..from + 500).map(|it| hang(it).bytes()).collect();
        let wires = target.open(asks.len(), &asks).await;
        target.origin.wait_for(target.good.asked + from + 500).await;
        for wire in wires {
            wire.reset().unwrap();
        }
    }
    target.serves().await;
    // Whoever comes back for one of them is told that it is under way.
    let busy = pay("hang-7")
        .bearer("hang")
        .field("Prefer", "respond-async");
    let busy = ask(&target.gateway, &busy).await;
    assert!(matches!(busy.status, 202 | 409), "{}", busy.text());
    gate.open();
    for number in (0..HUNG).step_by(97) {
        let again = ask(&target.gateway, &hang(number)).await;
        assert!(again.is_replay(), "{number}: {}", again.text());
    }
    target.recovers("claims that hang", HUNG, HUNG).await;
}
