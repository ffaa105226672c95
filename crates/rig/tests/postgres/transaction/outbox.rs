//! Events that are staged in a transaction and published after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use onceward::{BoxError, Outcome};
use onceward_stores::postgres::{
    Connections, Event, Outbox, PostgresStore, Relay, RelayPace, TransactionError,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::world::{InTx, World, open, payload};

/// What was published, by key and in the order in which it was.
#[derive(Clone, Default)]
struct Broker(Arc<Mutex<BTreeMap<String, Vec<Event>>>>);

impl Broker {
    fn take(&self, event: Event) {
        self.0
            .lock()
            .entry(event.key.clone())
            .or_default()
            .push(event);
    }

    /// The payloads of a key, as numbers.
    fn of(&self, key: &str) -> Vec<i64> {
        let all = self.0.lock();
        let events = all.get(key).into_iter().flatten();
        events
            .map(|event| {
                std::str::from_utf8(&event.payload)
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect()
    }

    fn count(&self) -> usize {
        self.0.lock().values().map(Vec::len).sum()
    }

    /// A relay that publishes everything here.
    fn relay(&self, store: &PostgresStore, pace: RelayPace) -> Relay {
        let broker = self.clone();
        Relay::start(store, pace, move |event| {
            broker.take(event);
            async { Ok(()) }
        })
    }
}

/// Waits until `is_so`; a test that waits for ever fails by its runner.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    while !is_so().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn staged(world: &World) -> i64 {
    let outbox = world.store.settings().table("outbox");
    world.count(&format!("SELECT count(*) FROM {outbox}")).await
}

/// Stages the numbers of a range for a key, each in a transaction of its own.
async fn stage(world: &World, key: &str, numbers: std::ops::Range<i64>) {
    let outbox = Outbox::new(&world.store);
    let mut connection = world.pool.get().await.unwrap();
    for number in numbers {
        let tx = connection.transaction().await.unwrap();
        let payload = number.to_string();
        outbox
            .stage(&tx, "numbers", key, payload.as_bytes())
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    outbox.announce();
}

#[tokio::test]
async fn an_event_is_published_if_its_transaction_commits_and_not_otherwise() {
    let world = &World::new().await;
    let broker = Broker::default();
    // So long that only a hint can be what wakes it.
    let mut pace = RelayPace::default();
    pace.poll = Duration::from_secs(3600);
    let relay = broker.relay(&world.store, pace);
    for (key, commits) in [("k1", true), ("k2", false), ("k3", true)] {
        let work = |mut tx: InTx| async move {
            tx.stage("charged", "acct", b"1").await?;
            match commits {
                true => Ok::<_, BoxError>(Outcome::success("charged")),
                false => Err("no money".into()),
            }
        };
        let _ = world
            .keys
            .run(&world.pool, &world.slot(key), payload(1), work)
            .await;
    }
    until(async || broker.count() == 2 && staged(world).await == 0).await;
    relay.stop().await;
    assert_eq!(broker.of("acct"), [1, 1]);
    let event = broker.0.lock()["acct"][0].clone();
    assert_eq!((event.topic.as_str(), event.tries), ("charged", 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_key_are_published_in_the_order_of_their_commits() {
    let world = Arc::new(World::new().await);
    let counters = world.table("counters");
    world
        .sql(&format!(
            "CREATE TABLE {counters} (key text PRIMARY KEY, n bigint); \
             INSERT INTO {counters} SELECT 'key' || n, 0 FROM generate_series(0, 4) n"
        ))
        .await;
    let broker = Broker::default();
    let store = open(&world.url).await;
    let relays = [
        broker.relay(&world.store, RelayPace::default()),
        broker.relay(&store, RelayPace::default()),
    ];
    // Every transaction stages what it counted, and several of one key overlap.
    let mut writers = JoinSet::new();
    for writer in 0..8_usize {
        let (world, counters) = (world.clone(), counters.clone());
        writers.spawn(async move {
            let outbox = Outbox::new(&world.store);
            let pool = Connections::new(world.store.settings(), 1);
            let mut connection = pool.get().await.unwrap();
            for round in 0..25 {
                let key = format!("key{}", (writer + round) % 5);
                let tx = connection.transaction().await.unwrap();
                let next = format!("UPDATE {counters} SET n = n + 1 WHERE key = $1 RETURNING n");
                let row = tx.query_one(&next, &[&key]).await.unwrap();
                let payload = row.get::<_, i64>(0).to_string();
                outbox
                    .stage(&tx, "counted", &key, payload.as_bytes())
                    .await
                    .unwrap();
                tx.commit().await.unwrap();
                outbox.announce();
            }
        });
    }
    writers.join_all().await;
    until(async || broker.count() >= 200 && staged(&world).await == 0).await;
    for relay in relays {
        relay.stop().await;
    }
    for key in 0..5 {
        let all = broker.of(&format!("key{key}"));
        assert_eq!(all, (1..=40).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn numbers_of_a_key_wait_for_the_transaction_before() {
    let world = &World::new().await;
    let outbox = Outbox::new(&world.store);
    let (mut one, mut two) = (
        world.pool.get().await.unwrap(),
        world.pool.get().await.unwrap(),
    );
    let first = one.transaction().await.unwrap();
    let before = outbox.stage(&first, "t", "same", b"1").await.unwrap();
    let second = two.transaction().await.unwrap();
    second
        .batch_execute("SET LOCAL lock_timeout = '100ms'")
        .await
        .unwrap();
    outbox.stage(&second, "t", "another", b"1").await.unwrap();
    let blocked = outbox.stage(&second, "t", "same", b"2").await.unwrap_err();
    assert!(matches!(blocked, TransactionError::Database(_)));
    second.rollback().await.unwrap();
    first.commit().await.unwrap();

    let second = two.transaction().await.unwrap();
    let after = outbox.stage(&second, "t", "same", b"2").await.unwrap();
    assert!(after.number > before.number);
}

#[tokio::test]
async fn a_bad_event_holds_up_its_own_key_alone() {
    let world = &World::new().await;
    stage(world, "bad", 0..3).await;
    stage(world, "good", 0..100).await;
    let broker = Broker::default();
    let is_mended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (seen, mended) = (broker.clone(), is_mended.clone());
    let mut pace = RelayPace::default();
    pace.longest_pause = Duration::from_millis(100);
    let relay = Relay::start(&world.store, pace, move |event| {
        let fails = event.key == "bad" && &event.payload[..] == b"1";
        let fails = fails && !mended.load(std::sync::atomic::Ordering::Relaxed);
        if !fails {
            seen.take(event);
        }
        async move {
            match fails {
                true => Err("it does not fit".into()),
                false => Ok(()),
            }
        }
    });
    until(async || broker.of("good").len() == 100).await;
    assert_eq!(broker.of("good"), (0..100).collect::<Vec<_>>());
    let tries = format!(
        "SELECT max(tries) FROM {}",
        world.store.settings().table("outbox")
    );
    until(async || world.count(&tries).await >= 3).await;
    assert_eq!(broker.of("bad"), [0]);

    is_mended.store(true, std::sync::atomic::Ordering::Relaxed);
    until(async || staged(world).await == 0).await;
    assert_eq!(broker.of("bad"), [0, 1, 2]);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_key_does_not_hold_up_the_others() {
    let world = &World::new().await;
    stage(world, "slow", 0..1).await;
    stage(world, "quick", 0..200).await;
    let broker = Broker::default();
    let seen = broker.clone();
    let go_on = Arc::new(Notify::new());
    let waits = go_on.clone();
    let relay = Relay::start(&world.store, RelayPace::default(), move |event| {
        let (seen, waits) = (seen.clone(), waits.clone());
        async move {
            if event.key == "slow" {
                waits.notified().await;
            }
            seen.take(event);
            Ok(())
        }
    });
    until(async || broker.of("quick").len() == 200).await;
    assert_eq!(broker.of("slow").len(), 0);
    go_on.notify_one();
    until(async || staged(world).await == 0).await;
    relay.stop().await;
    assert_eq!(broker.of("slow").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_crashes_loses_nothing_and_keeps_the_order() {
    let world = &World::new().await;
    for key in 0..4 {
        stage(world, &format!("key{key}"), 0..100).await;
    }
    let broker = Broker::default();
    let mut crashes = 0;
    while staged(world).await > 0 {
        // It comes as far as this, and is gone while it publishes.
        let enough = broker.count() + fastrand::usize(1..40);
        let (seen, full) = (broker.clone(), Arc::new(Notify::new()));
        let is_full = full.clone();
        let relay = Relay::start(&world.store, RelayPace::default(), move |event| {
            seen.take(event);
            let (stuck, is_full) = (seen.count() >= enough, is_full.clone());
            async move {
                if stuck {
                    is_full.notify_one();
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        });
        tokio::select! {
            () = full.notified() => crashes += 1,
            () = until(async || staged(world).await == 0) => {}
        }
        drop(relay);
    }
    assert!(crashes >= 5, "{crashes}");
    for key in 0..4 {
        let mut all = broker.of(&format!("key{key}"));
        // What is published again begins no later than where it was interrupted.
        assert!(all.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{all:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_relay_whose_connection_is_cut_goes_on() {
    let world = &World::new().await;
    let broker = Broker::default();
    let relay = broker.relay(&world.store, RelayPace::default());
    stage(world, "key", 0..10).await;
    until(async || broker.of("key").len() >= 10).await;
    let outbox = world.store.settings().table("outbox");
    let cut = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE query LIKE '%heads%' AND query LIKE '%{outbox}%' AND pid <> pg_backend_pid()"
    );
    until(async || world.count(&cut).await > 0).await;
    stage(world, "key", 10..20).await;
    until(async || staged(world).await == 0).await;
    relay.stop().await;
    let mut all = broker.of("key");
    all.dedup();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_callback_that_panics_has_failed_and_the_relay_goes_on() {
    let world = &World::new().await;
    let broker = Broker::default();
    let seen = broker.clone();
    let relay = Relay::start(&world.store, RelayPace::default(), move |event| {
        // The first time before there is a future, the second time in it.
        assert!(event.key != "bad" || event.tries > 0, "it does not fit");
        let seen = seen.clone();
        async move {
            assert!(
                event.key != "bad" || event.tries > 1,
                "it still does not fit"
            );
            seen.take(event);
            Ok(())
        }
    });
    stage(world, "bad", 0..1).await;
    stage(world, "good", 0..10).await;
    until(async || staged(world).await == 0).await;
    relay.stop().await;
    let bad = broker.0.lock()["bad"][0].clone();
    assert_eq!((bad.tries, broker.of("bad")), (2, vec![0]));
    assert_eq!(broker.of("good"), (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_event_without_a_name_is_refused() {
    let world = &World::new().await;
    let outbox = Outbox::new(&world.store);
    let mut connection = world.pool.get().await.unwrap();
    let tx = connection.transaction().await.unwrap();
    for (topic, key) in [
        ("", "k"),
        ("t", ""),
        ("t", &"k".repeat(Outbox::NAME_MAX + 1)),
    ] {
        let refused = outbox.stage(&tx, topic, key, b"").await.unwrap_err();
        assert!(matches!(refused, TransactionError::TooLarge(_)));
    }
}
