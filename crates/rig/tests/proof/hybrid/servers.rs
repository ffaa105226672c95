//! Real servers: a database and a cache, of which either is killed, paused or restored from
//! before, while two nodes serve.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use onceward::{Effect, Engine, Fingerprint, Key, Policy, Scope, Slot, Store, Verdict as Answered};
use onceward_rig::postgres::Server;
use onceward_rig::redis::{Options, RedisServer};
use onceward_rig::tally::Tally;
use onceward_stores::hybrid::{HybridStore, RedisCache};
use onceward_stores::postgres::PostgresStore;

use crate::budget::Budget;
use crate::postgres::site::store;
use crate::site::{Site, run};

/// How often something goes wrong at the least.
const TRIALS_MIN: u64 = 20;

/// A store on both servers, which gives up on a silent database soon.
fn hybrid(truth: &str, cache: &str) -> HybridStore {
    let between = if truth.contains('?') { '&' } else { '?' };
    let url = format!("{truth}{between}timeout=1500ms&sslmode=disable");
    let truth = PostgresStore::open(url.parse().expect("the URL is good"));
    let truth = truth.expect("a fresh server answers");
    let memos = RedisCache::open(cache.parse().expect("the URL is good"));
    let memos = memos.expect("a fresh server answers");
    HybridStore::start(Arc::new(truth), Arc::new(memos)).expect("a thread starts")
}

#[test]
fn whichever_side_goes_away_no_answer_changes_and_nothing_is_lost() {
    run(async {
        let mut truth = Server::start().await;
        let mut cache = RedisServer::start(Options::default()).await;
        let [one, two] = [(); 2].map(|()| hybrid(&truth.url(), &cache.url()));
        let watched = [one.clone(), two.clone()];
        let stores: [Arc<dyn Store>; 2] = [Arc::new(one), Arc::new(two)];
        let site = Site::over(stores, store(&truth.url()), Effect::Opaque).await;
        let site = site.busy().repeating();
        let (budget, mut random) = (Budget::seconds(25), fastrand::Rng::new());
        let mut counts = [0_u64; 5];
        while counts.iter().sum::<u64>() < TRIALS_MIN || budget.lasts() {
            site.hear(random.u64(1..40)).await;
            let what = random.usize(..5);
            counts[what] += 1;
            match what {
                // What it comes back with is what it last saved.
                0 => drop(cache.cli(&["SAVE"]).await),
                1 => {
                    cache.kill9().await;
                    site.hear(20).await;
                    cache.restart().await;
                }
                2 => {
                    cache.pause();
                    site.hear(random.u64(1..40)).await;
                    cache.resume();
                }
                3 => {
                    truth.kill9().await;
                    truth.restart().await;
                }
                _ => {
                    truth.pause();
                    tokio::time::sleep(Duration::from_millis(random.u64(1..120))).await;
                    truth.resume();
                }
            }
            site.recover().await;
        }
        let repeated = site.repeated();
        let verdict = site.close().await;
        assert!(repeated > 50, "only {repeated} answers were repeated");
        for node in &watched {
            assert_eq!(node.regressions().count(), 0, "nothing was lost");
        }
        let [saved, cache_killed, cache_paused, killed, paused] = counts;
        let note = format!(
            "the cache killed {cache_killed} times (saved {saved} times before), paused \
             {cache_paused}; the database killed {killed}, paused {paused}; {repeated} answers \
             asked for again"
        );
        let trials = counts.iter().sum::<u64>() - saved;
        verdict.record("hybrid: either side killed or paused", trials, &note);
    });
}

/// A node by itself, which counts what it executes.
struct Node {
    engine: Engine,
    store: HybridStore,
}

/// How many keys a database forgets in each trial.
const KEYS: u64 = 60;

#[test]
fn what_a_restored_database_lacks_is_answered_from_the_cache() {
    run(async {
        let truth = Server::start().await;
        let cache = RedisServer::start(Options::default()).await;
        let nodes = [Node::open(&truth, &cache), Node::open(&truth, &cache)];
        // Before the first backup: what the database forgets are answers.
        nodes[0]
            .engine
            .secret()
            .await
            .expect("a fresh server answers");
        let (mut answers, mut wrong, mut asked) = (BTreeMap::new(), Vec::new(), 0);
        let trials = if Budget::is_long() { 100 } else { 4 };
        for trial in 0..trials {
            truth.sql("DROP TABLE IF EXISTS backup").await;
            truth
                .sql("CREATE TABLE backup AS SELECT * FROM onceward.records")
                .await;
            for number in 0..KEYS {
                let key = trial * KEYS + number;
                let answer = nodes[key as usize % 2].execute(key).await;
                answers.insert(key, answer);
            }
            in_cache(&cache, answers.len()).await;
            truth
                .sql("BEGIN; TRUNCATE onceward.records; INSERT INTO onceward.records SELECT * FROM backup; COMMIT")
                .await;
            for (key, answer) in &answers {
                for node in &nodes {
                    asked += 1;
                    wrong.extend(node.retry(*key, answer).await);
                }
            }
        }
        let lost = trials * KEYS;
        found_out(&nodes, lost).await;
        let note = format!(
            "{lost} answers lost by the database, {asked} retries, every loss found out by a node"
        );
        println!("hybrid: the database restored from before: {trials} trials; {note}");
        let proof = "hybrid: the database restored from before";
        Tally::record(proof, trials, None, wrong.len() as u64, &note);
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

/// Waits until the cache has so many memos: they are written in the background.
async fn in_cache(cache: &RedisServer, count: usize) {
    let wanted = count.to_string();
    let filled = async {
        while cache.cli(&["DBSIZE"]).await != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let filled = tokio::time::timeout(Duration::from_secs(20), filled).await;
    filled.expect("every answer is remembered");
}

/// Waits until the nodes know of every answer that was lost.
async fn found_out(nodes: &[Node; 2], lost: u64) {
    let all = async {
        while nodes.iter().any(|it| it.store.regressions().count() < lost) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all = tokio::time::timeout(Duration::from_secs(60), all).await;
    let counts = nodes.each_ref().map(|it| it.store.regressions().count());
    assert!(all.is_ok(), "{counts:?} of {lost} losses were found");
    assert_eq!(counts, [lost; 2], "more than was lost");
}

// === impl Node ===

impl Node {
    fn open(truth: &Server, cache: &RedisServer) -> Self {
        let store = hybrid(&truth.url(), &cache.url());
        let engine = Engine::builder(Arc::new(store.clone()));
        Self {
            engine: engine.policy(Policy::default()).build(),
            store,
        }
    }

    async fn begin(&self, key: u64, payload: &[u8]) -> Answered {
        let name = Key::parse(&format!("key-{key}")).expect("it is printable");
        let slot = Slot::new(Scope::new("tenant", "work"), name);
        let begun = self.engine.begin(&slot, Fingerprint::of(payload)).await;
        begun.expect("both servers answer")
    }

    async fn execute(&self, key: u64) -> String {
        let Answered::Execute(claim) = self.begin(key, b"pay").await else {
            panic!("key {key} is new");
        };
        let answer = format!("answer {key}: {}", fastrand::u64(..));
        let done = claim.complete(answer.clone()).await;
        done.expect("both servers answer");
        answer
    }

    /// Asks again, for the same and for something else, and says what was wrong with it.
    async fn retry(&self, key: u64, answer: &str) -> Option<String> {
        match self.begin(key, b"pay").await {
            Answered::Replay(replay) if replay.outcome.body().is_some_and(|it| it == answer) => {}
            other => return Some(format!("key {key}: {other:?}")),
        }
        match self.begin(key, b"pay more").await {
            Answered::Mismatch => None,
            other => Some(format!("key {key}, another payload: {other:?}")),
        }
    }
}
