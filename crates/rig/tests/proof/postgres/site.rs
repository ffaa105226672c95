//! A site: two nodes on one database, callers on both, and a ledger that shows what was done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use onceward::clock::{Clock as _, SystemClock};
use onceward::{Effect, Engine, Limits, OnBusy, Outcome, Policy, RunError, Store};
use onceward_rig::history::{self, Judgement};
use onceward_rig::lab::Lab;
use onceward_rig::tally::Tally;
use onceward_stores::OpenError;
use onceward_stores::postgres::{PostgresStore, Settings};
use parking_lot::Mutex;
use tokio::task::JoinSet;

/// Two nodes, their callers, and what those were told.
pub(super) struct Site {
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
    /// How often the store did not answer.
    failures: AtomicU64,
}

/// What a whole run came to.
#[derive(Debug)]
pub(super) struct Verdict {
    /// How many keys have an answer that somebody was given.
    pub(super) acknowledged: u64,
    /// How many of those have lost it.
    pub(super) lost: u64,
    /// How often the store did not answer.
    pub(super) failures: u64,
    /// What the judge has to say against it.
    pub(super) wrong: Option<String>,
}

/// How long a claim lives at a site.
pub(super) const LEASE: Duration = Duration::from_secs(3);

/// How soon service has to be back once the server is.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// How long anything at a site may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many callers there are, half of them on each node.
const CALLERS: usize = 8;

/// How many records are read at once in the end.
const READS: usize = 64;

// === impl Site ===

impl Site {
    /// Opens a site on the database of `url`, for work of one class.
    pub(super) async fn open(url: &str, effect: Effect) -> Self {
        Self::open_beside(url, url, effect).await
    }

    /// Opens a site whose records are read in the end by another way than the nodes' own.
    pub(super) async fn open_beside(url: &str, reads: &str, effect: Effect) -> Self {
        let policy = Policy::default()
            .effect(effect)
            .lease(LEASE)
            .retention(Duration::from_secs(3600))
            .on_busy(OnBusy::Wait(Duration::from_secs(10)));
        let way = (store(reads), Arc::new(SystemClock));
        let lab = Lab::under(policy, way, effect, "site");
        let nodes = [1, 2].map(|number| lab.engine(lab.record(store(url), number)));
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
    pub(super) fn busy(mut self) -> Self {
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

    /// How many answers were given so far.
    pub(super) fn answers(&self) -> u64 {
        self.work.answers.load(Ordering::Relaxed)
    }

    /// Waits until `count` more answers were given.
    pub(super) async fn hear(&self, count: u64) {
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
    pub(super) async fn recover(&self) -> Duration {
        let start = SystemClock.stopwatch();
        self.hear(1).await;
        let took = SystemClock.stopwatch() - start;
        assert!(took < BACK_WITHIN, "service is back only after {took:?}");
        took
    }

    /// Ends the callers, retries every key that has no answer yet, reads every record, and judges.
    pub(super) async fn close(mut self) -> Verdict {
        self.work.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.callers.join_next().await {
            ended.expect("callers do not panic");
        }
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
        let mut history = self.lab.history().await;
        history.expectations.slack_ns = LEASE.as_nanos() as u64;
        // A slower answer tells a node nothing of the time: it has given up on it.
        let patience = Limits::default().store_patience;
        history.expectations.reckoning_ns = Some(patience.as_nanos() as u64);
        let report = history::check(&history);
        let wrong = match report.judgement {
            Judgement::Pass => None,
            _ => Some(report.to_string()),
        };
        Verdict {
            acknowledged: self.work.acknowledged.lock().len() as u64,
            failures: self.work.failures.load(Ordering::Relaxed),
            lost,
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
}

// === impl Verdict ===

impl Verdict {
    /// Adds a row to the tally, and sees that nothing was lost and nothing is wrong.
    pub(super) fn record(&self, proof: &str, trials: u64, note: &str) {
        let violations = self.lost + u64::from(self.wrong.is_some());
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
        assert_eq!(self.wrong, None);
        assert!(
            self.acknowledged > 10,
            "the callers hardly worked: {self:?}"
        );
    }
}

/// A store on a server, which gives up on a silent one soon.
pub(super) fn store(url: &str) -> Arc<dyn Store> {
    let between = if url.contains('?') { '&' } else { '?' };
    patient(&format!("{url}{between}timeout=1500ms&sslmode=disable"))
}

/// A store on a server, with calls that may take as long as its URL says.
pub(super) fn patient(url: &str) -> Arc<dyn Store> {
    let settings: Settings = url.parse().expect("the URL is good");
    let mut tries = 0;
    loop {
        tries += 1;
        match PostgresStore::open(settings.clone()) {
            Ok(store) => return Arc::new(store),
            // A busy machine may be slow to let anybody in.
            Err(OpenError::Unreachable { .. }) if tries < 10 => {}
            Err(error) => panic!("the store does not open: {}", error.line()),
        }
    }
}

/// Runs a proof on a runtime of its own.
pub(super) fn run(proof: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(proof);
}

fn name(key: u64) -> String {
    format!("key-{key}")
}
