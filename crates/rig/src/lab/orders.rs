//! Callers that make up a new key at every try, for orders that are to be paid once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use onceward::{
    Answer, Attempt, BoxError, Done, Engine, Fingerprint, Identity, Key, OnBusy, Policy, RunError,
    Scope, Slot, Store, Then,
};

/// How many callers race for an order.
pub const TWINS: u64 = 16;

/// How long a caller waits for a twin.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lets [`TWINS`] nodes pay each of `orders` orders at once, each under a key of its own.
///
/// # Errors
///
/// Says which order was paid twice, or answered differently.
pub async fn race(store: &Arc<dyn Store>, orders: u64) -> Result<(), String> {
    let nodes: Vec<Engine> = (0..TWINS).map(|_| engine(store)).collect();
    for order in 0..orders {
        let charges = Arc::new(AtomicU64::new(0));
        let callers = nodes.iter().zip(0..).map(|(node, number)| {
            let charges = charges.clone();
            let key = format!("key-{order}-{number}");
            pay(node, key, order, move |_| async move {
                charges.fetch_add(1, Ordering::Relaxed);
                Done::outcome(format!("receipt-{number}"))
            })
        });
        let mut answers = Vec::new();
        for answer in join_all(callers).await {
            answers.push(answer.map_err(|error| format!("order {order}: {error}"))?);
        }
        let charges = charges.load(Ordering::Relaxed);
        let first = answers.iter().filter(|answer| !answer.replayed).count();
        let same = answers.iter().all(|it| it.outcome == answers[0].outcome);
        if charges != 1 || first != 1 || !same {
            return Err(format!(
                "order {order} is charged {charges} times, answered {first} times at first hand, \
                 and all answers are the same: {same}"
            ));
        }
    }
    Ok(())
}

/// An engine whose callers wait for each other.
fn engine(store: &Arc<dyn Store>) -> Engine {
    let policy = Policy::default().on_busy(OnBusy::Wait(PATIENCE));
    Engine::builder(store.clone()).policy(policy).build()
}

/// Pays an order under `key`, unless it is paid.
async fn pay<W, F>(engine: &Engine, key: String, order: u64, work: W) -> Result<Answer, RunError>
where
    W: FnOnce(Attempt) -> F + Send + 'static,
    F: Future<Output = Done> + Send + 'static,
{
    let key = Key::parse(&key).expect("the key is printable");
    let slot = Slot::new(Scope::new("shop", "pay"), key);
    let payload = Fingerprint::of(&order.to_le_bytes());
    let identity = Identity::unique("paid-order", order.to_le_bytes(), Then::Return);
    let arrival = engine.prepare(&slot, &payload).await?;
    let arrival = arrival.under(identity, engine.secret().await?);
    engine.run_for(&arrival, work).await
}

/// Pays orders from `from` on until `end`, each by several callers at once, of which each makes up
/// a new key at every try. Says one line for everything that somebody outside has to know:
///
/// ```text
/// ready                 the store is open
/// effect ORDER RECEIPT  the work is about to happen
/// done ORDER RECEIPT    a caller has its answer
/// unknown ORDER         a caller was told that nobody knows
/// ```
///
/// # Errors
///
/// Fails if the store does not answer in the beginning.
pub async fn pay_all(
    store: &Arc<dyn Store>,
    (from, end): (u64, u64),
    say: fn(&str),
) -> Result<(), BoxError> {
    /// How many callers an order has at a time.
    const CALLERS: u64 = 4;
    let engine = engine(store);
    engine.secret().await?;
    say("ready");
    let life = std::process::id();
    let next = Arc::new(AtomicU64::new(from * CALLERS));
    let callers = (0..TWINS).map(|caller| {
        let (engine, next) = (engine.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let order = next.fetch_add(1, Ordering::Relaxed) / CALLERS;
                if order >= end {
                    return;
                }
                for attempt in 0.. {
                    let name = format!("{order}-{life}-{caller}-{attempt}");
                    if is_told(&engine, order, name, say).await {
                        break;
                    }
                }
            }
        })
    });
    for caller in join_all(callers).await {
        caller?;
    }
    Ok(())
}

/// Tries once, under a new key. Returns whether there is nothing left to ask.
async fn is_told(engine: &Engine, order: u64, name: String, say: fn(&str)) -> bool {
    let key = format!("key-{name}");
    let work = move |_| async move {
        let receipt = format!("receipt-{name}");
        say(&format!("effect {order} {receipt}"));
        Done::outcome(receipt)
    };
    match pay(engine, key, order, work).await {
        Ok(answer) => {
            let body = answer.outcome.body().map_or(&[][..], |body| body);
            say(&format!("done {order} {}", String::from_utf8_lossy(body)));
        }
        Err(RunError::Unknown(_)) => say(&format!("unknown {order}")),
        Err(_) => return false,
    }
    true
}
