//! The same inside the transactions of sqlx.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onceward::{BoxError, Outcome, RunError};
use onceward_rig::postgres::Proxy;
use onceward_stores::postgres::{Begun, Next, Source, Tx};
use parking_lot::Mutex;
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use tokio::task::JoinSet;

use super::world::{World, payload};

/// A transaction of the pool.
type InTx = Tx<<PgPool as Source>::Open>;

async fn pool(world: &World, connections: u32) -> PgPool {
    let url = world.url.split('?').next().unwrap();
    let options = PgPoolOptions::new().max_connections(connections);
    options.connect(url).await.unwrap()
}

async fn insert(world: &World, tx: &mut PgConnection, key: &str) -> Result<(), sqlx::Error> {
    let insert = format!(
        "INSERT INTO {} (key, amount) VALUES ($1, 1)",
        world.table("ledger")
    );
    let insert = sqlx::query(sqlx::AssertSqlSafe(insert)).bind(key);
    insert.execute(tx).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_duplicates_on_two_connections_get_one_answer() {
    let world = Arc::new(World::new().await);
    let pool = pool(&world, 2).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let (world, pool, runs) = (world.clone(), pool.clone(), runs.clone());
        callers.spawn(async move {
            let (world, runs) = (&*world, &*runs);
            let work = |mut tx: InTx| async move {
                let run = runs.fetch_add(1, Ordering::Relaxed);
                insert(world, &mut tx, "k1").await?;
                tx.stage("charged", "acct", b"1").await?;
                Ok::<_, BoxError>(Outcome::success(format!("run {run}")))
            };
            world
                .keys
                .run(&pool, &world.slot("k1"), payload(1), work)
                .await
        });
    }
    for answer in callers.join_all().await {
        assert_eq!(answer.unwrap().outcome.body().unwrap(), "run 0");
    }
    let outbox = world.store.settings().table("outbox");
    let events = world.count(&format!("SELECT count(*) FROM {outbox}")).await;
    assert_eq!(
        (world.charges().await, world.records().await, events),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn an_error_rolls_both_back_and_leaves_the_key_free() {
    let world = &World::new().await;
    let pool = pool(world, 2).await;
    for fails in [true, false] {
        let work = |mut tx: InTx| async move {
            insert(world, &mut tx, "k1").await?;
            match fails {
                true => Err::<_, BoxError>("no money".into()),
                false => Ok(Outcome::success("charged")),
            }
        };
        let answer = world
            .keys
            .run(&pool, &world.slot("k1"), payload(1), work)
            .await;
        assert_eq!(matches!(answer, Err(RunError::NotExecuted(_))), fails);
        let left = i64::from(!fails);
        assert_eq!((world.charges().await, world.records().await), (left, left));
    }
}

#[tokio::test]
async fn by_hand_it_is_the_same() {
    let world = &World::new().await;
    let pool = pool(world, 2).await;
    let (slot, payload) = (world.slot("k1"), payload(1));
    let mut first = pool.begin().await.unwrap();
    let Begun::Execute(work) = world.keys.begin(&mut first, &slot, &payload).await.unwrap() else {
        panic!("the slot is free");
    };
    insert(world, &mut first, "k1").await.unwrap();

    let mut second = pool.begin().await.unwrap();
    let Begun::Busy(waiter) = world
        .keys
        .begin(&mut *second, &slot, &payload)
        .await
        .unwrap()
    else {
        panic!("somebody is at it");
    };
    drop(second);
    let completed = work
        .complete(&mut *first, Outcome::success("first"))
        .await
        .unwrap();
    first.commit().await.unwrap();
    completed.announce();
    assert!(waiter.wait().await);

    let mut second = pool.begin().await.unwrap();
    let Begun::Replay(replay) = world
        .keys
        .begin(&mut second, &slot, &payload)
        .await
        .unwrap()
    else {
        panic!("the work is done");
    };
    assert_eq!(replay.outcome.body().unwrap(), "first");
    assert_eq!((world.charges().await, world.records().await), (1, 1));
}

#[tokio::test]
async fn phases_go_on_after_the_last_point() {
    let world = &World::new().await;
    let pool = pool(world, 2).await;
    for fails in [true, false] {
        let work = |mut tx: InTx| async move {
            insert(world, &mut tx, "phase").await?;
            match tx.point_name() {
                None => Ok::<_, BoxError>(Next::reached("reserved", "r1")),
                Some(_) if fails => Err("another service is away".into()),
                Some(_) => Ok(Next::Done(Outcome::success("done"))),
            }
        };
        let answer = world
            .keys
            .run(&pool, &world.slot("k1"), payload(1), work)
            .await;
        assert_eq!(answer.is_err(), fails);
    }
    assert_eq!((world.charges().await, world.records().await), (2, 1));
}

/// A connection on which a transaction may be open would take up what its next user does.
#[tokio::test]
async fn a_beginning_that_is_given_up_leaves_no_transaction_in_the_pool() {
    let world = &World::with("timeout=2s").await;
    let server: tokio_postgres::Config = world.server().parse().unwrap();
    let target = format!("127.0.0.1:{}", server.get_ports()[0]);
    let proxy = Proxy::start(target.parse().unwrap());
    let options = PgPoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false);
    let pool = options.connect(&proxy.url(world.server())).await.unwrap();
    proxy.delay(Duration::from_secs(4));
    let work = |_: InTx| async move { Ok::<_, BoxError>(Outcome::success("charged")) };
    let run = world
        .keys
        .run(&pool, &world.slot("k1"), payload(1), work)
        .await;
    assert!(matches!(run, Err(RunError::Engine(_))), "{run:?}");

    proxy.delay(Duration::ZERO);
    let mut connection = pool.acquire().await.unwrap();
    insert(world, &mut connection, "k1").await.unwrap();
    assert_eq!(world.charges().await, 1, "it was no part of a transaction");
}

/// What the server says about a caller's statement may hold anything of the caller's.
#[tokio::test]
async fn what_the_server_says_of_a_statement_is_not_logged() {
    let world = &World::new().await;
    let (records, says) = (world.table("records"), world.table("says"));
    world
        .sql(&format!(
            "CREATE SEQUENCE {says}_once;
             CREATE FUNCTION {says}() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
               IF nextval('{says}_once') = 1 THEN
                 RAISE EXCEPTION 'card 4711' USING ERRCODE = '40001';
               END IF;
               RAISE WARNING 'card 4711';
               RETURN NEW;
             END $$;
             CREATE TRIGGER says BEFORE INSERT ON {records}
               FOR EACH ROW EXECUTE FUNCTION {says}()"
        ))
        .await;
    let log = Log::default();
    let heard = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || heard.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let pool = pool(world, 1).await;
    let work = |_: InTx| async move { Ok::<_, BoxError>(Outcome::success("charged")) };
    let (slot, payload) = (world.slot("k1"), payload(1));
    let run = world.keys.run(&pool, &slot, payload, work).await;
    assert!(!run.unwrap().replayed);
    let work = |_| async move { Ok::<_, BoxError>(Outcome::success("charged")) };
    let slot = world.slot("k2");
    let run = world.keys.run(&world.pool, &slot, payload, work).await;
    assert!(!run.unwrap().replayed);

    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    let ours: Vec<_> = log
        .lines()
        .filter(|line| line.contains("onceward"))
        .collect();
    assert!(
        ours.iter().any(|line| line.contains("overtaken")),
        "{ours:#?}"
    );
    assert!(ours.iter().any(|line| line.contains("01000")), "{ours:#?}");
    assert!(!ours.iter().any(|line| line.contains("4711")), "{ours:#?}");
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
