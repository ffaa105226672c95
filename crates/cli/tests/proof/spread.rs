//! Many keys, each sent six times over different connections at once: one effect per key, and
//! every retry is the first answer byte for byte.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use onceward_rig::gateway::{Gateway, Origin, Received, Wire};
use onceward_rig::tally::Tally;

use crate::budget::Budget;
use crate::{MEMORY_MAX, durable, mib, pay, turn};

/// How many connections there are.
const CONNECTIONS: usize = 48;

/// How many keys are under way together.
const BATCH: usize = 480;

/// How often each key is sent: once, and five retries.
const SENT: usize = 6;

/// How many keys there are before one gateway, at the least and at the most.
const KEYS_MIN: usize = 2_000;
const KEYS_MAX: usize = 100_000;

/// Sends the keys of a batch, each on [`SENT`] connections. Returns the answers by key.
async fn send(wires: &mut [Wire], keys: std::ops::Range<usize>) -> HashMap<usize, Vec<Received>> {
    let mut lists = vec![Vec::new(); wires.len()];
    for attempt in 0..SENT {
        let mut keys: Vec<_> = keys.clone().collect();
        fastrand::shuffle(&mut keys);
        for (at, key) in keys.into_iter().enumerate() {
            // Another distance for each attempt, so that a key meets other connections.
            lists[(at + attempt * 7) % CONNECTIONS].push(key);
        }
    }
    let sent = wires.iter_mut().zip(lists).map(|(wire, list)| async move {
        let mut answers = Vec::with_capacity(list.len());
        for key in list {
            let body = format!("pay {key}");
            let bytes = pay(&format!("spread-{key}")).body(body).bytes();
            wire.send(&bytes).await.unwrap();
            answers.push((key, wire.read().await.unwrap()));
        }
        answers
    });
    let mut answers = HashMap::<usize, Vec<Received>>::new();
    for (key, answer) in join_all(sent).await.into_iter().flatten() {
        answers.entry(key).or_default().push(answer);
    }
    answers
}

/// Checks that one of the answers is the first, and all others are that.
fn check(key: usize, answers: &[Received]) {
    assert_eq!(answers.len(), SENT);
    let firsts: Vec<_> = answers.iter().filter(|it| !it.is_replay()).collect();
    let [first] = firsts[..] else {
        panic!("key {key} has {} first answers: {firsts:?}", firsts.len());
    };
    assert_eq!(first.status, 201, "key {key}: {}", first.text());
    for answer in answers {
        assert!(answer.complete, "key {key}: {answer:?}");
        assert_eq!(
            (answer.status, &answer.body),
            (201, &first.body),
            "key {key}"
        );
        assert_eq!(answer.lasting(), first.lasting(), "key {key}");
    }
}

async fn connect(gateway: &Gateway) -> Vec<Wire> {
    let wires = (0..CONNECTIONS).map(|_| async { Wire::connect(gateway.addr()).await.unwrap() });
    join_all(wires).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_retry_of_many_keys_is_the_first_answer_byte_for_byte() {
    let _turn = turn().await;
    let budget = Budget::seconds(25);
    let (mut keys, mut most) = (0, 0);
    while keys == 0 || budget.lasts() {
        let (tried, memory) = one_gateway(&budget).await;
        keys += tried;
        most = most.max(memory);
    }
    let note = format!("{keys} keys, {} MiB at the most", mib(most));
    Tally::record("retries of many keys", (keys * SENT) as u64, None, 0, &note);
}

/// Returns how many keys there were, and how much memory the gateway took for them.
async fn one_gateway(budget: &Budget) -> (usize, u64) {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).start().await;
    let mut wires = connect(&gateway).await;
    let mut bodies = HashMap::new();
    while bodies.len() < KEYS_MIN || (bodies.len() < KEYS_MAX && budget.lasts()) {
        let from = bodies.len();
        let answers = send(&mut wires, from..from + BATCH).await;
        assert_eq!(answers.len(), BATCH);
        for (key, answers) in answers {
            check(key, &answers);
            bodies.insert(key, answers[0].body.clone());
        }
    }
    let effects = origin.effects().len();
    assert_eq!((effects, origin.count()), (bodies.len(), bodies.len()));
    let (_, most) = gateway.memory();
    assert!(most <= MEMORY_MAX, "{} MiB", mib(most));

    // No two keys have one answer, and a sample of them outlives the process.
    let different: HashSet<_> = bodies.values().collect();
    assert_eq!(different.len(), bodies.len());
    gateway.kill9().await;
    let gateway = gateway.restart().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    for (key, body) in bodies.iter().take(500) {
        let asked = pay(&format!("spread-{key}")).body(format!("pay {key}"));
        wire.send(&asked.bytes()).await.unwrap();
        let again = wire.read().await.unwrap();
        assert!(again.is_replay(), "key {key}: {again:?}");
        assert_eq!(&again.body, body, "key {key}");
    }
    assert_eq!(origin.count(), bodies.len(), "a retry was executed");
    (bodies.len(), most)
}
