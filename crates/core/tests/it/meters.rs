//! Meters: what is counted, under which names, and what is never said.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use onceward::testing::{ExpectLost, ExpectRun, ExpectVerdict, Fault, World};
use onceward::{Done, Effect, Identity, OnBusy, Reason, Suspicion, Then};

const SECOND: Duration = Duration::from_secs(1);

/// What was counted: by name, and by the route or store where that is said.
#[derive(Debug)]
struct Counted(BTreeMap<(String, Vec<String>), f64>);

impl Counted {
    /// Runs `test` on a runtime of its own with paused time, and returns what it counted.
    fn during<F: Future<Output = ()>>(test: impl FnOnce() -> F) -> Self {
        let recorder = DebuggingRecorder::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime starts");
        metrics::with_local_recorder(&recorder, || runtime.block_on(test()));
        let snapshot = recorder.snapshotter().snapshot().into_vec();
        let counted = snapshot.into_iter().map(|(key, _, _, value)| {
            let (_, key) = key.into_parts();
            let labels = key
                .labels()
                .map(|label| format!("{}={}", label.key(), label.value()));
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => values.len() as f64,
            };
            ((key.name().to_owned(), labels.collect()), value)
        });
        Self(counted.collect())
    }

    /// The sum under one name.
    fn get(&self, name: &str) -> f64 {
        let of_name = self.0.iter().filter(|((it, _), _)| it == name);
        of_name.map(|(_, value)| value).sum()
    }

    #[track_caller]
    fn expect(&self, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            assert_eq!(self.get(name), *value, "{name} in {self:?}");
        }
    }
}

#[test]
fn the_answer_of_a_twin_is_no_execution() {
    let counted = Counted::during(|| async {
        let world = World::new();
        let order = [Identity::unique("paid-order", "1001", Then::Return)];
        let claim = world.begin_as("k1", &order).await.expect_claim();
        claim.complete("paid").await.unwrap();
        for key in ["k2", "k3"] {
            world.begin_as(key, &order).await.expect_replay();
        }
        let facts = |key| Identity::suspect("same", key, SECOND, Suspicion::Return);
        let claim = world.begin_as("k4", &[facts("a")]).await.expect_claim();
        claim.complete("paid").await.unwrap();
        world.begin_as("k5", &[facts("a")]).await.expect_replay();
    });
    counted.expect(&[
        ("onceward_originals_total", 2.0),
        ("onceward_already_done_total", 2.0),
        ("onceward_suspected_total", 1.0),
    ]);
}

#[test]
fn each_verdict_and_each_end_is_counted_once() {
    let counted = Counted::during(|| async {
        let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
        let claim = world.begin("done").await.expect_claim();
        world.begin("done").await.expect_busy();
        claim.complete("paid").await.unwrap();
        world.begin("done").await.expect_replay();
        world.begin("done").await.expect_replay();
        world
            .payload("pay 900")
            .begin("done")
            .await
            .expect_mismatch();
        world
            .begin("released")
            .await
            .expect_claim()
            .release()
            .await
            .unwrap();
        let claim = world.begin("unknown").await.expect_claim();
        claim.abandon(Reason::new("timeout")).await.unwrap();
        world.begin("unknown").await.expect_unknown();
    });
    counted.expect(&[
        ("onceward_originals_total", 1.0),
        ("onceward_replays_total", 2.0),
        ("onceward_mismatches_total", 1.0),
        ("onceward_busy_refusals_total", 1.0),
        ("onceward_unknown_total", 1.0),
        ("onceward_released_total", 1.0),
        ("onceward_abandoned_total", 1.0),
        ("onceward_takeovers_total", 0.0),
        ("onceward_late_completions_total", 0.0),
        ("onceward_waits_total", 0.0),
        ("onceward_store_errors_total", 0.0),
    ]);
}

#[test]
fn take_overs_and_late_completions_are_counted() {
    let counted = Counted::during(|| async {
        let world = World::new().effect(Effect::Keyed);
        let late = world.begin("k1").await.expect_claim();
        world.clock.advance(world.policy.lease);
        let second = world.begin("k1").await.expect_claim();
        second.complete("second").await.unwrap();
        late.complete("first").await.unwrap_err().expect_lost();
    });
    counted.expect(&[
        ("onceward_takeovers_total", 1.0),
        ("onceward_late_completions_total", 1.0),
        ("onceward_originals_total", 1.0),
    ]);
}

#[test]
fn an_outcome_stored_after_lost_replies_is_one_original() {
    let counted = Counted::during(|| async {
        let world = World::new();
        let claim = world.begin("k1").await.expect_claim();
        world.store.fail_next(Fault::LostReply);
        claim.complete("paid").await.unwrap();
    });
    counted.expect(&[
        ("onceward_originals_total", 1.0),
        ("onceward_store_errors_total", 1.0),
        ("onceward_late_completions_total", 0.0),
    ]);
}

#[test]
fn waiters_are_counted_while_they_wait() {
    let counted = Counted::during(|| async {
        let world = World::new();
        let _claim = world.begin("k1").await.expect_claim();
        let waiting = [world.arrive("k1"), world.arrive("k1")];
        world.settle().await;
        for waiter in waiting {
            waiter.abort();
        }
        let _third = world.arrive("k1");
        world.settle().await;
    });
    counted.expect(&[("onceward_waits_total", 3.0), ("onceward_waiters", 1.0)]);
}

#[test]
fn the_durability_class_of_the_store_is_told() {
    let counted = Counted::during(|| async {
        World::new().engine.secret().await.unwrap();
    });
    counted.expect(&[("onceward_store_durability", 0.0)]);
}

#[test]
fn sweeping_and_the_stores_latency_are_counted() {
    let counted = Counted::during(|| async {
        let world = World::new().policy(|policy| policy.retention(SECOND));
        world.complete("done", "paid").await;
        drop(world.begin("silent").await.expect_claim());
        world.clock.advance(world.policy.lease + SECOND);
        world.engine.sweep(100).await.unwrap();
        // A call that takes time is timed; one answered at once is not worth a timer.
        world.store.fail_next(Fault::Held);
        let arrival = world.arrive("slow");
        world.store.until_held().await;
        world.store.release();
        drop(arrival.await.unwrap().expect_claim());
    });
    counted.expect(&[
        ("onceward_sweep_removed_total", 1.0),
        ("onceward_sweep_lapsed_total", 1.0),
        ("onceward_store_seconds", 1.0),
    ]);
}

#[test]
fn a_lapsed_claim_that_moved_before_the_sweeper_marked_it_is_not_counted() {
    let counted = Counted::during(|| async {
        let world = World::new();
        let claim = world.begin("k1").await.expect_claim();
        world.clock.advance(world.policy.lease + SECOND);
        world.store.fail_at(world.store.count() + 2, Fault::Held);
        let sweeping = tokio::spawn({
            let engine = world.engine.clone();
            async move { engine.sweep(100).await }
        });
        world.store.until_held().await;
        claim.complete("paid").await.unwrap();
        world.store.release();
        sweeping.await.unwrap().unwrap();
    });
    counted.expect(&[("onceward_sweep_lapsed_total", 0.0)]);
}

#[test]
fn labels_are_routes_and_stores_and_never_keys_or_callers() {
    let counted = Counted::during(|| async {
        let world = World::new()
            .tenant("mallory@example")
            .policy(|policy| policy.route("payments").on_busy(OnBusy::Refuse));
        let run = world.run("4711-secret-key", |_| async { Done::outcome("paid") });
        run.await.expect_first();
        world.begin("4711-secret-key").await.expect_replay();
        world
            .payload("other")
            .begin("4711-secret-key")
            .await
            .expect_mismatch();
        drop(world.begin("4712-secret-key").await.expect_claim());
        world.begin("4712-secret-key").await.expect_busy();
    });
    assert_eq!(counted.get("onceward_replays_total"), 1.0);
    for (name, labels) in counted.0.keys() {
        assert!(name.starts_with("onceward_"), "{name}");
        for label in labels {
            assert!(
                ["route=payments", "route=default", "store=memory"].contains(&&**label),
                "{name}{{{label}}}"
            );
        }
    }
}
