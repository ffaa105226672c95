//! P8, P17: kept for the time promised whatever the clock does, and executed once after it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use onceward::clock::{Clock as _, SystemClock};
use onceward_rig::gateway::{Answer, Ask, Gateway, Origin, until};

use crate::{ask, durable, expect_problem, expect_replay, launch, pay};

const RETENTION: Duration = Duration::from_secs(2);

/// The store's clock is a coarse one: it may be behind by this much when an answer is stored.
const TICK: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_race_at_the_border_cause_one_new_execution() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let number = AtomicUsize::new(0);
    let origin = Origin::scripted(move |_| {
        noted.lock().unwrap().push(SystemClock.stopwatch());
        Answer::receipt(number.fetch_add(1, Ordering::Relaxed)).into()
    })
    .await;
    let gateway = launch(&origin)
        .config("[defaults]\nretention = \"2s\"\n")
        .start()
        .await;
    assert_eq!(ask(&gateway, &pay("k")).await.text(), "receipt 0");

    let asked = pay("k");
    let callers = join_all((0..8).map(async |_| {
        let mut replays = 0;
        loop {
            let answer = ask(&gateway, &asked).await;
            assert_eq!(answer.status, 201);
            if answer.text() != "receipt 0" {
                assert_eq!(answer.text(), "receipt 1");
                return replays;
            }
            assert!(answer.is_replay());
            replays += 1;
        }
    }));
    let replays: usize = callers.await.into_iter().sum();
    assert!(replays > 8, "there were replays before the end");
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 2);
    let between = times[1] - times[0];
    assert!(between + TICK >= RETENTION, "{between:?}");
}

#[tokio::test]
async fn a_key_that_tells_its_age_may_be_too_old() {
    let origin = Origin::start().await;
    let gateway = launch(&origin)
        .config("[defaults]\nkey_age_max = \"20h\"\n")
        .start()
        .await;
    let millis = SystemClock.wall().as_micros() / 1000;
    let uuid7 = |millis: u64| {
        let (high, low) = (millis >> 16, millis & 0xffff);
        format!("{high:08x}-{low:04x}-7abc-8def-0123456789ab")
    };
    let old = uuid7(millis - 21 * 60 * 60 * 1000);
    expect_problem(&ask(&gateway, &pay(&old)).await, 410, "expired");
    assert_eq!(origin.count(), 0);
    assert_eq!(ask(&gateway, &pay(&uuid7(millis))).await.status, 201);
    assert_eq!(ask(&gateway, &pay("no-uuid")).await.status, 201);
}

const DAYS: i64 = 24 * 60 * 60;

/// Every request gets a line, which begins with the time of day.
const LOGGED: &str = "[log]\naccess = true\n";

/// The day that the gateway takes for today.
async fn today(gateway: &Gateway, asked: &str) -> String {
    ask(gateway, &Ask::get(asked)).await;
    until("the request is logged", || async {
        let log = gateway.log();
        let line = log.lines().find(|line| line.contains(asked))?;
        Some(line[..10].to_owned())
    })
    .await
}

/// Moves the wall clock of a gateway, and checks that it sees that.
async fn jump(gateway: &Gateway, days: i64) {
    let before = today(gateway, &format!("/before/{days}/jump")).await;
    gateway.move_clock(days * DAYS);
    assert_ne!(today(gateway, &format!("/after/{days}/jump")).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_does_not_shorten_the_guarantee() {
    let origin = Origin::start().await;
    let gateway = durable(&origin)
        .config(LOGGED)
        .movable_clock()
        .start()
        .await;
    let first = ask(&gateway, &pay("k")).await;
    // Two days are more than the 24 hours that an answer is kept.
    for days in [2, -2, 0, 30, 3] {
        jump(&gateway, days).await;
        expect_replay(&ask(&gateway, &pay("k")).await, &first);
        let fresh = pay(&format!("fresh{days}"));
        let answer = ask(&gateway, &fresh).await;
        expect_replay(&ask(&gateway, &fresh).await, &answer);
    }
    assert!(origin.effects().values().all(|count| *count == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_before_a_restart_forgets_nothing() {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin)
        .config(LOGGED)
        .movable_clock()
        .start()
        .await;
    let first = ask(&gateway, &pay("k")).await;
    jump(&gateway, -300).await;
    gateway.kill9().await;
    let gateway = gateway.restart().await;
    expect_replay(&ask(&gateway, &pay("k")).await, &first);
    assert_eq!(origin.executions("k"), 1);
}
