//! A process that works until it is killed.
//!
//! Opens the embedded store in the folder given, and pays under one key after the other from
//! several callers at once. It says on stdout what it is about to do and what it knows to be
//! stored, one line each and unbuffered, so that whoever kills it knows what must still be there:
//!
//! ```text
//! ready            the store is open
//! effect KEY       the work of KEY is about to happen
//! done KEY         the outcome of KEY is stored: its caller has the answer
//! unknown KEY      nobody knows whether the work of KEY happened, and its caller was told so
//! failed KEY WHY   the store refused or did not answer; its caller retries
//! ```
//!
//! `victim record WORKLOAD FOLDER SEED` does other work, for crash images, and says what
//! [`onceward_rig::crash`] reads. `victim orders STORE_URL FIRST END` pays orders under new keys at
//! every try, and says what [`onceward_rig::lab::pay_all`] does.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onceward::{BoxError, Done, Engine, Fingerprint, Key, Limits, Policy, RunError, Scope, Slot};
use onceward_rig::crash::{self, Workload};
use onceward_rig::lab;
use onceward_stores::StoreUrl;

/// What the process was told on its command line.
struct Orders {
    url: StoreUrl,
    /// The first number of its keys.
    from: u64,
    /// How many keys to pay for; then it ends by itself.
    count: u64,
    callers: u64,
}

fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, workload, folder, seed] = &arguments[..]
        && word == "record"
    {
        let workload = Workload::parse(workload).ok_or("no such workload")?;
        crash::work(workload, folder.as_ref(), seed.parse()?)?;
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if let [word, url, from, end] = &arguments[..]
        && word == "orders"
    {
        let orders = (from.parse()?, end.parse()?);
        let url: StoreUrl = url.parse()?;
        return runtime.block_on(async {
            // Within the runtime, which some stores need.
            let store = onceward_stores::open(&url)?;
            lab::pay_all(&store, orders, say).await
        });
    }
    let [url, from, count, callers] = &arguments[..] else {
        return Err("usage: victim STORE_URL FIRST COUNT CALLERS".into());
    };
    let orders = Orders {
        url: url.parse()?,
        from: from.parse()?,
        count: count.parse()?,
        callers: callers.parse()?,
    };
    runtime.block_on(work(orders))
}

async fn work(orders: Orders) -> Result<(), BoxError> {
    let store = onceward_stores::open(&orders.url)?;
    let limits = Limits {
        store_patience: Duration::from_secs(2),
        ..Limits::default()
    };
    let engine = Engine::builder(store)
        .policy(Policy::default())
        .limits(limits)
        .build();
    engine.secret().await?;
    say("ready");
    let next = Arc::new(AtomicU64::new(orders.from));
    let end = orders.from + orders.count;
    let callers: Vec<_> = (0..orders.callers)
        .map(|_| tokio::spawn(call(engine.clone(), next.clone(), end)))
        .collect();
    for caller in callers {
        caller.await?;
    }
    engine.shutdown(Duration::from_secs(10)).await;
    Ok(())
}

async fn call(engine: Engine, next: Arc<AtomicU64>, end: u64) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return;
        }
        while !is_settled(&engine, number).await {
            // A store that is away comes back; hammering it would only fill the pipe.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Pays as a caller does that retries with the same key: until there is an answer.
async fn is_settled(engine: &Engine, number: u64) -> bool {
    match pay(engine, number).await {
        Ok(()) => say(&format!("done {number}")),
        Err(RunError::Unknown(_)) => say(&format!("unknown {number}")),
        Err(error) => {
            say(&format!("failed {number} {}", one_line(&error)));
            return false;
        }
    }
    true
}

async fn pay(engine: &Engine, number: u64) -> Result<(), RunError> {
    let key = Key::parse(&format!("key-{number}")).expect("printable");
    let slot = Slot::new(Scope::new("victim", "pay"), key);
    let payload = Fingerprint::of(&number.to_le_bytes());
    let work = move |_| async move {
        say(&format!("effect {number}"));
        Done::outcome(receipt(number))
    };
    let answer = engine.run(&slot, payload, work).await?;
    let expected = receipt(number);
    assert_eq!(
        answer.outcome.body().map(AsRef::as_ref),
        Some(expected.as_bytes())
    );
    Ok(())
}

/// The answer that KEY has, whoever asks.
fn receipt(number: u64) -> String {
    format!("receipt-{number}-{}", "x".repeat(300))
}

/// Says one line in one write, so that lines of several callers do not mix.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // A reader that is gone has killed us already.
    let _ = stdout
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| stdout.flush());
}

fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.replace('\n', " ")
}
