//! Engines and the runtimes they live on.

use std::time::Duration;

use onceward::OnBusy;
use onceward::testing::{ExpectVerdict, World};
use tokio::runtime::Runtime;

const SECOND: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let paused = builder.enable_all().start_paused(true);
    paused.build().expect("a runtime starts")
}

#[test]
fn a_claim_is_renewed_although_an_earlier_runtime_ended() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    for key in ["k1", "k2"] {
        runtime().block_on(async {
            let claim = world.begin(key).await.expect_claim();
            world.pass(2 * world.policy.lease).await;
            assert!(claim.is_held(), "{key}");
            claim.complete("paid").await.unwrap();
        });
    }
}

#[test]
fn hints_are_heard_although_an_earlier_runtime_ended() {
    let world = World::new();
    let node = world.node();
    for key in ["k1", "k2"] {
        runtime().block_on(async {
            let claim = world.begin(key).await.expect_claim();
            let waiter = node.arrive(key);
            world.settle().await;
            claim.complete("paid").await.unwrap();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(waiter.is_finished(), "{key}");
        });
    }
}

#[test]
fn a_claim_may_be_dropped_outside_of_any_runtime() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    let claims = runtime().block_on(async {
        let first = world.begin("k1").await.expect_claim();
        [first, world.begin("k2").await.expect_claim()]
    });
    let [dropped, ended] = claims;
    drop(dropped);
    // Its end is said; the store has it once there is a runtime again and something to do on it.
    drop(ended.complete("paid"));
    runtime().block_on(async {
        drop(world.begin("k3").await.expect_claim());
        world.pass(SECOND).await;
        assert_eq!(world.begin("k2").await.expect_replay(), "paid");
        world.begin("k1").await.expect_busy();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_one_executes_and_all_get_its_answer() {
    use onceward::testing::ExpectRun;
    use onceward::{Done, RunError};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    for _ in 0..50 {
        let world = World::new();
        let nodes = [world.clone(), world.node()];
        let executions = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..16)
            .map(|nth| {
                let (world, executions) = (nodes[nth % 2].clone(), executions.clone());
                tokio::spawn(async move {
                    let work = move |_| async move {
                        match executions.fetch_add(1, Ordering::Relaxed) {
                            0 => Done::not_executed("connection refused"),
                            _ => Done::outcome("paid"),
                        }
                    };
                    world.run("k1", work).await
                })
            })
            .collect();
        let mut refused = 0;
        for caller in callers {
            match caller.await.unwrap() {
                Err(RunError::NotExecuted(_)) => refused += 1,
                answer if answer.as_ref().is_ok_and(|it| it.replayed) => {
                    assert_eq!(answer.expect_replay(), "paid");
                }
                answer => assert_eq!(answer.expect_first(), "paid"),
            }
        }
        assert_eq!((refused, executions.load(Ordering::Relaxed)), (1, 2));
    }
}
