//! A site: two nodes on one server, callers on both, and a ledger that shows what was done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use onceward::clock::{Clock as _, SystemClock};
use onceward::{Effect, Engine, Limits, OnBusy, Outcome, Policy, RunError, Store};
use onceward_rig::history::{self, Check, Judgement};
use onceward_rig::lab::Lab;
use onceward_rig::tally::Tally;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::budget::Budget;

/// Two nodes, their callers, and what those were told.
pub(crate) struct Site {
    lab: Arc<Lab<SystemClock>>,
    nodes: [Engine; 2],
    work: Arc<Work>,
    callers: JoinSet<()>,
}

/// What the callers share.
#[derive(Default)]
struct Work {
    /// The next key that nobody has used yet.
    next: AtomicU64,
    is_over: AtomicBool,
    /// Each key whose answer somebody was given.
    acknowledged: Mutex<BTreeMap<u64, Outcome>>,
    /// How many answers were given.
    answers: AtomicU64,
    /// How many answers were given again.
    repeated: AtomicU64,
    /// How many of those were not what was given before.
    changed: AtomicU64,
    /// How often the store did not answer.
    failures: AtomicU64,
}

/// What a whole run came to.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// How many keys have an answer that somebody was given.
    pub(crate) acknowledged: u64,
    /// How many of those have lost it.
    pub(crate) lost: u64,
    /// How many answers were another one when they were asked for again.
    pub(crate) changed: u64,
    /// How often the store did not answer.
    pub(crate) failures: u64,
    /// How many keys have more than one effect.
    pub(crate) charged_twice: u64,
    /// Which rules were broken, by the judge's numbers.
    pub(crate) broken: BTreeSet<Check>,
    /// What the judge has to say against it.
    pub(crate) wrong: Option<String>,
}

/// How long a claim lives at a site.
const LEASE: Duration = Duration::from_secs(3);

/// How soon service has to be back once the server is.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// How long anything at a site may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many seconds a proof may take, and a hundred times that in the long form.
const LIMIT: u64 = 600;

/// How many callers there are, half of them on each node.
const CALLERS: usize = 8;

/// How many records are read at once in the end.
const READS: usize = 64;

// === impl Site ===

impl Site {
    /// Opens a site for work of one class, with a store for each node, and one by which the
    /// records are read in the end.
    pub(crate) async fn over(
        stores: [Arc<dyn Store>; 2],
        reads: Arc<dyn Store>,
        effect: Effect,
    ) -> Self {
        let policy = Policy::default()
            .effect(effect)
            .lease(LEASE)
            .retention(Duration::from_secs(3600))
            .on_busy(OnBusy::Wait(Duration::from_secs(10)));
        let way = (reads, Arc::new(SystemClock));
        let lab = Lab::under(policy, way, effect, "site");
        let [a, b] = stores;
        let nodes = [(a, 1), (b, 2)].map(|(store, number)| lab.engine(lab.record(store, number)));
        for node in &nodes {
            node.secret().await.expect("a fresh server answers");
        }
        Self {
            lab,
            nodes,
            work: Arc::default(),
            callers: JoinSet::new(),
        }
    }

    /// Lets callers pay, each key from both nodes at once, until [`Site::close`].
    pub(crate) fn busy(mut self) -> Self {
        for _ in 0..CALLERS / 2 {
            let (lab, nodes, work) = (self.lab.clone(), self.nodes.clone(), self.work.clone());
            self.callers.spawn(async move {
                while !work.is_over.load(Ordering::Relaxed) {
                    let key = work.next.fetch_add(1, Ordering::Relaxed);
                    let [a, b] = &nodes;
                    tokio::join!(work.pay(&lab, a, key), work.pay(&lab, b, key));
                    // What is proved does not grow with the number of keys.
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            });
        }
        self
    }

    /// Lets others ask again for what was answered, and compares the answers.
    pub(crate) fn repeating(mut self) -> Self {
        for node in self.nodes.clone() {
            let (lab, work) = (self.lab.clone(), self.work.clone());
            self.callers.spawn(async move {
                while !work.is_over.load(Ordering::Relaxed) {
                    work.repeat(&lab, &node).await;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            });
        }
        self
    }

    /// How many answers were given again so far.
    pub(crate) fn repeated(&self) -> u64 {
        self.work.repeated.load(Ordering::Relaxed)
    }

    /// How many answers were given so far.
    pub(crate) fn answers(&self) -> u64 {
        self.work.answers.load(Ordering::Relaxed)
    }

    /// Waits until `count` more answers were given.
    pub(crate) async fn hear(&self, count: u64) {
        let wanted = self.answers() + count;
        let heard = async {
            while self.answers() < wanted {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        heard.expect("callers are answered");
    }

    /// Waits until callers are answered again by a server that is back, as soon as it has to be.
    pub(crate) async fn recover(&self) -> Duration {
        let start = SystemClock.stopwatch();
        self.hear(1).await;
        let took = SystemClock.stopwatch() - start;
        assert!(took < BACK_WITHIN, "service is back only after {took:?}");
        took
    }

    /// Waits until every record that somebody was told of can be looked for again: as soon as it
    /// has to be once all servers are back.
    pub(crate) async fn recover_all(&self) -> Duration {
        let keys: Vec<u64> = self.work.acknowledged.lock().keys().copied().collect();
        let start = SystemClock.stopwatch();
        let node = &self.nodes[0];
        let looks = keys.iter().map(|key| async move {
            let slot = self.lab.slot(&name(*key));
            let id = node.id_of(&slot).await.expect("the secret is known");
            while node.inspect(id).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let looks = futures_util::stream::iter(looks.collect::<Vec<_>>());
        let all = looks.buffer_unordered(READS).count();
        let all = tokio::time::timeout(PATIENCE, all).await;
        all.expect("every record can be looked for");
        let took = SystemClock.stopwatch() - start;
        assert!(took < BACK_WITHIN, "all are back only after {took:?}");
        took
    }

    /// Ends the callers, retries every key that has no answer yet, reads every record, and judges.
    pub(crate) async fn close(mut self) -> Verdict {
        self.work.is_over.store(true, Ordering::Relaxed);
        let ended = async {
            while let Some(ended) = self.callers.join_next().await {
                ended.expect("callers do not panic");
            }
        };
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        ended.expect("every caller is told something in the end");
        let keys = 0..self.work.next.load(Ordering::Relaxed);
        let open = {
            let acknowledged = self.work.acknowledged.lock();
            keys.filter(|key| !acknowledged.contains_key(key))
                .collect::<Vec<_>>()
        };
        let (lab, node, work) = (&self.lab, &self.nodes[1], &self.work);
        work.is_over.store(false, Ordering::Relaxed);
        let retries = futures_util::stream::iter(open).map(|key| work.pay(lab, node, key));
        let retries = retries.buffer_unordered(READS).count();
        let retried = tokio::time::timeout(PATIENCE, retries).await;
        retried.expect("every key is settled in the end");

        let reader = self.lab.engine(self.lab.recorded(0));
        self.settle(&reader).await;
        let lost = self.lost(&reader).await;
        // The longer it went on, the more there are.
        let patience = Budget::span(PATIENCE.as_secs());
        let history = tokio::time::timeout(patience, self.lab.history()).await;
        let mut history = history.expect("every record can be read in the end");
        history.expectations.slack_ns = LEASE.as_nanos() as u64;
        // A slower answer tells a node nothing of the time: it has given up on it.
        let patience = Limits::default().store_patience;
        history.expectations.reckoning_ns = Some(patience.as_nanos() as u64);
        let report = history::check(&history);
        let wrong = match report.judgement {
            Judgement::Pass => None,
            _ => Some(report.to_string()),
        };
        let broken = match &report.judgement {
            Judgement::Fail(violations) => violations.iter().map(|it| it.check).collect(),
            _ => BTreeSet::new(),
        };
        let charged_twice = self.charged_twice(&reader).await;
        Verdict {
            acknowledged: self.work.acknowledged.lock().len() as u64,
            failures: self.work.failures.load(Ordering::Relaxed),
            changed: self.work.changed.load(Ordering::Relaxed),
            charged_twice,
            lost,
            broken,
            wrong,
        }
    }

    /// Waits until every connection of the reader is sound: reads in the end are not repeated.
    async fn settle(&self, reader: &Engine) {
        let slot = self.lab.slot(&name(0));
        let settled = async {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let Ok(id) = reader.id_of(&slot).await else {
                    continue;
                };
                let reads = (0..READS).map(|_| reader.inspect(id));
                let reads = futures_util::future::join_all(reads).await;
                if reads.iter().all(Result::is_ok) {
                    return;
                }
            }
        };
        let settled = tokio::time::timeout(PATIENCE, settled).await;
        settled.expect("the store answers in the end");
    }

    /// Asks once more for every answer that somebody was given. Returns how many are others now.
    ///
    /// A record that was lost is no harm to a service that repeats its first answer, if that is
    /// what callers get.
    pub(crate) async fn ask_again(&self) -> u64 {
        let acknowledged = self.work.acknowledged.lock().clone();
        let (lab, node) = (&self.lab, &self.nodes[0]);
        let asked = acknowledged.iter().map(|(key, outcome)| async move {
            loop {
                match lab.pay(node, &name(*key)).await {
                    Ok(answer) => return u64::from(answer.outcome != *outcome),
                    Err(RunError::Unknown(_) | RunError::Mismatch) => return 1,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        });
        let asked = futures_util::stream::iter(asked.collect::<Vec<_>>());
        let others = asked.buffer_unordered(READS);
        let others = others.fold(0, |sum, other| async move { sum + other });
        let others = tokio::time::timeout(PATIENCE, others).await;
        others.expect("every key is answered")
    }

    /// How many keys were charged for more than once.
    async fn charged_twice(&self, node: &Engine) -> u64 {
        let mut twice = 0;
        for key in 0..self.work.next.load(Ordering::Relaxed) {
            let id = node.id_of(&self.lab.slot(&name(key))).await;
            let id = id.expect("the secret is known");
            twice += u64::from(self.lab.service.charges(id) > 1);
        }
        twice
    }

    /// How many acknowledged answers are not in the store now.
    pub(crate) async fn missing(&self) -> u64 {
        self.lost(&self.nodes[0]).await
    }

    /// How many acknowledged answers are no longer there, as they were given.
    async fn lost(&self, node: &Engine) -> u64 {
        let acknowledged = self.work.acknowledged.lock().clone();
        let reads = acknowledged.iter().map(|(key, outcome)| async {
            let slot = self.lab.slot(&name(*key));
            let id = node.id_of(&slot).await.expect("the secret is known");
            let found = node.inspect(id).await.expect("the store answers by now");
            let kept = found.as_ref().and_then(|found| found.record.outcome());
            u64::from(kept != Some(outcome))
        });
        let reads = futures_util::stream::iter(reads.collect::<Vec<_>>());
        reads
            .buffer_unordered(READS)
            .fold(0, |sum, lost| async move { sum + lost })
            .await
    }
}

// === impl Work ===

impl Work {
    /// Pays under a key as a caller does who has to know: asks until there is an answer, or
    /// until the site closes.
    async fn pay(&self, lab: &Lab<SystemClock>, node: &Engine, key: u64) {
        loop {
            match lab.pay(node, &name(key)).await {
                Ok(answer) => {
                    self.answers.fetch_add(1, Ordering::Relaxed);
                    self.acknowledged.lock().insert(key, answer.outcome);
                    return;
                }
                Err(RunError::Unknown(_)) => return,
                Err(RunError::Mismatch) => panic!("every caller brings the same payload"),
                Err(_) => drop(self.failures.fetch_add(1, Ordering::Relaxed)),
            }
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asks again for something that was answered.
    async fn repeat(&self, lab: &Lab<SystemClock>, node: &Engine) {
        let known = {
            let acknowledged = self.acknowledged.lock();
            let at = fastrand::usize(..acknowledged.len().max(1));
            let known = acknowledged.iter().nth(at);
            known.map(|(key, outcome)| (*key, outcome.clone()))
        };
        let Some((key, outcome)) = known else {
            return;
        };
        // A store that is away says nothing.
        if let Ok(answer) = lab.pay(node, &name(key)).await {
            self.repeated.fetch_add(1, Ordering::Relaxed);
            let is_changed = answer.outcome != outcome;
            self.changed
                .fetch_add(u64::from(is_changed), Ordering::Relaxed);
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// Adds a row to the tally, and sees that nothing was lost and nothing is wrong.
    pub(crate) fn record(&self, proof: &str, trials: u64, note: &str) {
        let violations = self.lost + self.changed + u64::from(self.wrong.is_some());
        let note = format!(
            "{note}; {} keys acknowledged, lost {}; {} calls without an answer were retried",
            self.acknowledged, self.lost, self.failures
        );
        println!("{proof}: {trials} trials; {note}");
        Tally::record(proof, trials, None, violations, &note);
        assert_eq!(
            self.lost, 0,
            "acknowledged answers are lost: {:?}",
            self.wrong
        );
        assert_eq!(self.changed, 0, "answers changed");
        assert_eq!(self.wrong, None);
        assert!(
            self.acknowledged > 10,
            "the callers hardly worked: {self:?}"
        );
    }
}

/// Runs a proof on a runtime of its own, as long as it may take.
///
/// # Panics
///
/// Panics if it waits for ever: from a proof that hangs nobody learns anything.
pub(crate) fn run(proof: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let ended = async { tokio::time::timeout(Budget::span(LIMIT), proof).await };
    if runtime.block_on(ended).is_err() {
        // What blocks a thread would hold this one as well.
        runtime.shutdown_timeout(Duration::from_secs(10));
        panic!("the proof comes to no end");
    }
}

fn name(key: u64) -> String {
    format!("key-{key}")
}
