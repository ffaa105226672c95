//! Every fault at every call: one execution, one answer, and an end to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onceward::testing::{Fault, World};
use onceward::{Answer, Done, Effect, OnBusy, Outcome, RunError};

const SECOND: Duration = Duration::from_secs(1);

/// A world in which executions are counted.
struct Scene {
    world: World,
    executions: Arc<AtomicUsize>,
}

impl Scene {
    fn new(effect: Effect) -> Self {
        let world = World::new()
            .effect(effect)
            .policy(|policy| policy.lease(10 * SECOND).on_busy(OnBusy::Refuse));
        Self {
            world,
            executions: Arc::default(),
        }
    }

    async fn run(&self) -> Result<Answer, RunError> {
        let executions = self.executions.clone();
        let work = |_| async move {
            executions.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(4 * SECOND).await;
            Done::outcome("paid")
        };
        self.world.run("k1", work).await
    }

    fn executions(&self) -> usize {
        self.executions.load(Ordering::Relaxed)
    }

    /// Runs with what is planned, mends the store, and returns the answers of a first caller and
    /// of one that comes when all is quiet.
    async fn play(&self) -> [Result<Answer, RunError>; 2] {
        let first = tokio::spawn({
            let scene = Self {
                world: self.world.clone(),
                executions: self.executions.clone(),
            };
            async move { scene.run().await }
        });
        self.world.pass(8 * SECOND).await;
        self.world.store.release();
        self.world.pass(8 * SECOND).await;
        self.world.store.mend();
        self.world.pass(20 * SECOND).await;
        let first = first.await.expect("the caller does not panic");
        let second = tokio::join!(self.run(), self.world.pass(6 * SECOND)).0;
        [first, second]
    }
}

fn body(answer: &Answer) -> &Outcome {
    &answer.outcome
}

/// How many calls a run without faults makes: it is renewed once on its way.
async fn calls(effect: Effect) -> usize {
    let scene = Scene::new(effect);
    let [first, second] = scene.play().await;
    assert!(first.is_ok_and(|answer| !answer.replayed));
    assert!(second.is_ok_and(|answer| answer.replayed));
    assert_eq!(scene.executions(), 1);
    scene.world.store.count()
}

#[tokio::test(start_paused = true)]
async fn opaque_work_is_executed_at_most_once_whatever_fails() {
    for at in 1..=calls(Effect::Opaque).await + 2 {
        for fault in Fault::ALL {
            let scene = Scene::new(Effect::Opaque);
            scene.world.store.fail_at(at, fault);
            let [first, second] = scene.play().await;
            let context = format!("{fault:?} at {at}: {first:?}, then {second:?}");
            assert_eq!(scene.executions(), 1, "{context}");
            let first = first.as_ref().map(body).ok();
            let second = second.as_ref().map(body).ok();
            match fault {
                // What cannot be read can neither be completed; it is not executed again.
                Fault::Unreadable => {}
                _ => assert_eq!(second, Some(&Outcome::success("paid")), "{context}"),
            }
            assert!(first.is_none() || first == second, "{context}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn keyed_work_gets_one_answer_whatever_fails() {
    for at in 1..=calls(Effect::Keyed).await + 2 {
        for fault in Fault::ALL {
            let scene = Scene::new(Effect::Keyed);
            scene.world.store.fail_at(at, fault);
            let [first, second] = scene.play().await;
            let context = format!("{fault:?} at {at}: {first:?}, then {second:?}");
            let second = second.as_ref().map(body).ok();
            assert_eq!(second, Some(&Outcome::success("paid")), "{context}");
            assert!((1..=2).contains(&scene.executions()), "{context}");
        }
    }
}
