//! A gateway that runs out of disk, of files, of memory: every call is answered, nothing is done
//! twice, and it serves again by itself once there is room.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use onceward_rig::gateway::{self, Gateway, Origin, Received, Wire, shim, until};
use onceward_rig::tally::Tally;

use crate::budget::Budget;
use crate::{ask, durable, pay, turn};

/// How many keys are asked for before each fault: enough to meet every kind of write.
const KEYS: usize = 6;

/// How many positions are tried at a time.
const ABREAST: usize = 4;

/// What became of a gateway whose writes failed at some position.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    /// There are not as many writes.
    NotStruck,
    /// It served, and refused this many calls until it could again.
    Served {
        refused: usize,
        unknown: usize,
        reopened: bool,
    },
}

/// An answer that a retry may change, with word when to retry.
fn is_refusal(answer: &Received) -> bool {
    let name = answer.problem();
    let known = matches!(
        (answer.status, name.as_deref()),
        (503, Some("store-unavailable")) | (409, Some("in-progress"))
    );
    known && answer.retry_after().is_some()
}

fn is_unknown(answer: &Received) -> bool {
    (answer.status, answer.problem().as_deref()) == (409, Some("outcome-unknown"))
}

/// Asks until there is an answer for good. Returns it, and how many refusals came before.
async fn insist(gateway: &Gateway, key: &str) -> (Received, usize) {
    let (asked, refusals) = (pay(key), AtomicUsize::new(0));
    let answer = until("the store comes back", || async {
        let answer = ask(gateway, &asked).await;
        if is_refusal(&answer) {
            refusals.fetch_add(1, Relaxed);
            return None;
        }
        let good = answer.status == 201 && answer.problem().is_none();
        assert!(good || is_unknown(&answer), "{key}: {}", answer.text());
        assert!(answer.complete, "{key}: {answer:?}");
        Some(answer)
    });
    (answer.await, refusals.into_inner())
}

/// Serves with a fault at one position, then looks at everything again without.
async fn strike(library: &Path, orders: &str) -> Outcome {
    let origin = Origin::start().await;
    let launch = durable(&origin).faults(library, orders);
    let mut gateway = launch.clone().start().await;
    launch.arm();
    let keys: Vec<_> = (0..KEYS).map(|key| format!("k{key}")).collect();
    let mut answers = HashMap::new();
    let mut refused = 0;
    // Two callers each, so that some of them wait while the store fails.
    for key in &keys {
        let (one, two) = tokio::join!(insist(&gateway, key), insist(&gateway, key));
        refused += one.1 + two.1;
        let agree = one.0.body == two.0.body || is_unknown(&one.0) && is_unknown(&two.0);
        assert!(agree, "{orders}: {:?} {:?}", one.0, two.0);
        answers.insert(key, one.0);
    }
    // By itself, without being started again.
    let mut served = false;
    for fresh in 0..5 {
        let (after, _) = insist(&gateway, &format!("after-{fresh}")).await;
        served = after.status == 201;
        if served {
            break;
        }
    }
    if !launch.was_struck() {
        return Outcome::NotStruck;
    }
    let log = gateway.log();
    let reopened = log.contains("the embedded store failed and is opened again");
    let last = format!("{orders}: {log}");
    assert!(served, "{last}");
    gateway.kill9().await;
    let gateway = launch.without_faults().start().await;
    for (key, told) in &answers {
        let again = ask(&gateway, &pay(key)).await;
        let executed = origin.executions(key);
        // A claim that could not be written may be there and was never used.
        match is_unknown(told) {
            true => assert!(is_unknown(&again) && executed <= 1, "{last}"),
            false => assert!(again.is_replay() && again.body == told.body, "{last}"),
        }
        assert!(
            is_unknown(told) || executed == 1,
            "{key} {executed}x {last}"
        );
    }
    let unknown = answers.values().filter(|it| is_unknown(it)).count();
    Outcome::Served {
        refused,
        unknown,
        reopened,
    }
}

/// Lets a fault strike `count` calls from the first on, then from the next by `step`, until there
/// is none left to strike. Starting on a full disk is another proof, of the store alone.
async fn strike_everywhere(proof: &str, fault: &str, count: usize, step: usize) {
    let _turn = turn().await;
    let folder = tempfile::tempdir().unwrap();
    let library = shim("faults", folder.path());
    let (mut struck, mut refusals, mut unknowns, mut reopenings) = (0, 0, 0, 0);
    let budget = Budget::seconds(0);
    loop {
        let library = &library;
        let trials = stream::iter((0..).step_by(step)).map(|at: usize| {
            let orders = format!("{fault}:{at}:{count}");
            async move { strike(library, &orders).await }
        });
        let mut outcomes = trials.buffered(ABREAST);
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Outcome::NotStruck => break,
                Outcome::Served {
                    refused,
                    unknown,
                    reopened,
                } => {
                    refusals += refused;
                    unknowns += unknown;
                    reopenings += usize::from(reopened);
                }
            }
            struck += 1;
        }
        if !budget.lasts() {
            break;
        }
    }
    assert!(struck >= KEYS / step, "only {struck} writes");
    // Whether anybody asks while the store is away is left to chance; that it was away is not.
    assert!(reopenings > 0, "no fault ever took the store away");
    let note = format!(
        "{reopenings} stores opened again, {refusals} calls refused, {unknowns} unknown, \
         second effects 0"
    );
    Tally::record(proof, struck as u64, None, 0, &note);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_at_any_write_is_survived_while_serving() {
    strike_everywhere("gateway, disk full at every write", "write:ENOSPC", 1, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_stays_full_for_a_while_is_survived_while_serving() {
    strike_everywhere("gateway, disk full for a while", "write:ENOSPC", 12, 3).await;
}

/// Connections that nobody can accept do not stay after their callers have gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_without_files_serves_whom_it_has_and_everybody_after() {
    let _turn = turn().await;
    let origin = Origin::start().await;
    let gateway = durable(&origin).start().await;
    let first = ask(&gateway, &pay("first")).await;
    let mut known = Wire::connect(gateway.addr()).await.unwrap();
    let budget = Budget::seconds(4);
    let mut rounds = 0;
    while rounds < 3 || budget.lasts() {
        // Whoever is known keeps being served, so the rest of the files are for the crowd.
        known.send(&pay("first").bytes()).await.unwrap();
        assert!(known.read().await.unwrap().is_replay());
        let most = gateway.open_files() + 8;
        gateway.limit_files(Some(most as u64));
        let mut crowd = Vec::new();
        for _ in 0..64 {
            crowd.push(Wire::connect(gateway.addr()).await.unwrap());
        }
        until("no files are left", || async {
            (gateway.open_files() >= most).then_some(())
        })
        .await;
        known.send(&pay("first").bytes()).await.unwrap();
        let replay = known.read().await.unwrap();
        assert!(replay.is_replay() && replay.body == first.body);
        // The limit stays; the callers go.
        drop(crowd);
        let key = format!("after-{rounds}");
        let after = until("it accepts again", || async {
            let answer = gateway::ask(gateway.addr(), &pay(&key)).await.ok()?;
            (!is_refusal(&answer)).then_some(answer)
        })
        .await;
        assert_eq!(after.status, 201, "{}", after.text());
        assert_eq!(origin.executions(&key), 1);
        gateway.limit_files(None);
        rounds += 1;
    }
    let note = "64 connections on 8 free files each time";
    Tally::record("gateway, no files left", rounds, None, 0, note);
}

/// How much more address space than at rest a gateway may take.
const SPACE: [u64; 4] = [64 << 20, 128 << 20, 256 << 20, 512 << 20];

/// Large bodies for a gateway with little memory. Rust ends a process that gets no memory, so it
/// may die; then it is started again, and no promise is broken.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_without_memory_breaks_no_promise() {
    let _turn = turn().await;
    let (mut deaths, mut served, mut unknown) = (0, 0, 0);
    for space in SPACE {
        let origin = Origin::start().await;
        let mut gateway = durable(&origin).start().await;
        ask(&gateway, &pay("warm")).await;
        gateway.limit_space(Some(gateway.space() + space));
        let asks: Vec<_> = (0..32)
            .map(|key| pay(&format!("large-{key}")).body(vec![b'x'; 7 << 20]))
            .collect();
        let answers = join_all(asks.iter().map(|it| gateway::ask(gateway.addr(), it))).await;
        let alive = gateway::ask(gateway.addr(), &pay("warm")).await.is_ok();
        deaths += u64::from(!alive);
        gateway.kill9().await;
        let gateway = gateway.restart().await;
        for (asked, told) in asks.iter().zip(answers) {
            let again = ask(&gateway, asked).await;
            match told.ok().filter(|it| it.complete && it.status == 201) {
                Some(told) => {
                    assert!(again.is_replay() && again.body == told.body, "{again:?}");
                    served += 1;
                }
                None if is_unknown(&again) => unknown += 1,
                None => assert_eq!(again.status, 201, "{}", again.text()),
            }
        }
        assert!(origin.effects().values().all(|count| *count == 1));
    }
    let note = format!("ended by it {deaths} times; {served} served, {unknown} unknown");
    Tally::record(
        "gateway, no memory left",
        SPACE.len() as u64,
        None,
        0,
        &note,
    );
}

/// Starts from a launch that has faults as well as from one that has not.
#[tokio::test(flavor = "multi_thread")]
async fn faults_that_strike_nothing_change_nothing() {
    let _turn = turn().await;
    let folder = tempfile::tempdir().unwrap();
    let library = shim("faults", folder.path());
    let outcome = strike(&library, "write:ENOSPC:1000000:1").await;
    assert_eq!(outcome, Outcome::NotStruck);
}
