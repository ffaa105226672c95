//! Two nodes on a database with a cache in front of it, under a seed: either side is slow, away,
//! emptied or restored from before, and operators take answers away.
//!
//! What is judged: an answer is that of the work asked for, is not given once it has expired or was
//! taken away, and no work is done again while its answer stands. Only a database that lost an
//! answer may let it be done again, and not even that where the cache has it.
//!
//! Time is the seed's: tokio's clock is paused and moves together with the one by hand.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use onceward::testing::ManualClock;
use onceward::{
    Engine, Fence, Fingerprint, Key, Limits, MemoryStore, OnBusy, Policy, Scope, Slot, Store as _,
    Timestamp, Verdict,
};
use onceward_stores::hybrid::{HybridStore, MemoryCache, Snapshot, Truth as _};
use parking_lot::Mutex;
use tokio::task::JoinSet;

mod flaky;
mod ledger;

use flaky::{FlakyCache, FlakyTruth, SHOWN};
use ledger::Ledger;

/// What a seed led to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What broke the promise.
    pub wrong: Vec<String>,
    /// How often each thing happened that has to happen for the seed to mean something.
    pub counts: Counts,
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Work that was done.
    pub executions: u64,
    /// Answers that were repeated.
    pub replays: u64,
    /// Of those, answers while the database was away: the cache alone can have given them.
    pub cached: u64,
    /// Other payloads that were refused.
    pub mismatches: u64,
    /// Answers that operators took away.
    pub taken_away: u64,
    /// Answers that the database lost.
    pub lost: u64,
    /// Answers of which a node found out that the database lacks them.
    pub found_lost: u64,
    /// Times that the cache was emptied or restored from before.
    pub restored: u64,
}

/// Everything of one seed.
struct World {
    clock: Arc<ManualClock>,
    truth: Arc<FlakyTruth>,
    memory: Arc<MemoryStore>,
    cache: Arc<FlakyCache>,
    memos: MemoryCache,
    nodes: [Node; 2],
    ledger: Arc<Mutex<Ledger>>,
    snapshot: Option<Snapshot>,
    random: fastrand::Rng,
    callers: JoinSet<()>,
}

/// One process.
#[derive(Clone)]
struct Node {
    engine: Engine,
    store: HybridStore,
}

/// How long answers are kept.
const RETENTION: Duration = Duration::from_secs(3600);

/// How many keys there are, and payloads for each.
const KEYS: u64 = 3;
const PAYLOADS: u64 = 2;

/// How many things happen in a seed.
const STEPS: usize = 120;

/// Plays a seed.
///
/// # Panics
///
/// Panics if no runtime can be made.
pub fn run(seed: u64) -> Outcome {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step().await;
        }
        world.end().await
    })
}

// === impl World ===

impl World {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        let memory = Arc::new(MemoryStore::with_clock(clock.clone()));
        let mut random = fastrand::Rng::with_seed(seed);
        let truth = Arc::new(FlakyTruth::new(memory.clone(), random.fork()));
        let memos = MemoryCache::new(clock.clone());
        let cache = Arc::new(FlakyCache::new(
            memos.clone(),
            memory.clone(),
            random.fork(),
        ));
        let node = |number: u64| {
            let (store, chores) = HybridStore::new(truth.clone(), cache.clone(), clock.clone());
            tokio::spawn(chores.run());
            let policy = Policy::default()
                .retention(RETENTION)
                .on_busy(OnBusy::Refuse);
            let limits = Limits {
                store_patience: Duration::from_secs(2),
                answer_within: Duration::from_secs(2),
                ..Limits::default()
            };
            let engine = Engine::builder(Arc::new(store.clone()))
                .policy(policy)
                .limits(limits)
                .clock(clock.clone())
                .seed(seed ^ number)
                .build();
            Node { engine, store }
        };
        Self {
            nodes: [node(1), node(2)],
            clock,
            truth,
            memory,
            cache,
            memos,
            ledger: Arc::default(),
            snapshot: None,
            random,
            callers: JoinSet::new(),
        }
    }

    /// Lets one thing happen, and a little time pass.
    async fn step(&mut self) {
        match self.random.u8(0..100) {
            0..60 => self.call(),
            60..64 => self.truth.set_down(self.random.bool()),
            64..68 => self.cache.set_down(self.random.bool()),
            68..70 => self.cache.set_hanging(self.random.bool()),
            70..74 => self.take_away().await,
            74..78 => self.lose().await,
            78..80 => self.snapshot = Some(self.memos.snapshot()),
            80..83 => self.restore(),
            83..86 => self.inspect().await,
            86..96 => self.pass_millis(1..3_000).await,
            96..98 => self.pass_long(60_000..600_000).await,
            _ => self.pass_long(600_000..4_000_000).await,
        }
        self.pass_millis(0..120).await;
    }

    async fn pass_millis(&mut self, span: std::ops::Range<u64>) {
        let span = Duration::from_millis(self.random.u64(span));
        self.pass(span).await;
    }

    /// Lets so much time pass that nobody should be waiting for the database meanwhile: that would
    /// be asked for each of those seconds.
    async fn pass_long(&mut self, span: std::ops::Range<u64>) {
        self.truth.set_down(false);
        self.pass(Duration::from_secs(6)).await;
        self.pass_millis(span).await;
    }

    async fn pass(&self, span: Duration) {
        // In small steps, so that timers and the clock do not get far apart.
        const STEPS: u32 = 8;
        for _ in 0..STEPS {
            self.clock.advance(span / STEPS);
            tokio::time::sleep(span / STEPS).await;
        }
    }

    fn now(&self) -> Timestamp {
        self.memory.now()
    }

    /// Somebody asks for work, and does it if it is to be done.
    fn call(&mut self) {
        let node = self.nodes[self.random.usize(0..2)].clone();
        let (key, payload) = (self.random.u64(0..KEYS), self.random.u64(0..PAYLOADS));
        // Most callers of one key mean the same.
        let payload = if self.random.u8(0..4) > 0 { 0 } else { payload };
        let (ledger, memory) = (self.ledger.clone(), self.memory.clone());
        let truth = self.truth.clone();
        let fate = self.random.u8(0..20);
        let pause = Duration::from_millis(self.random.u64(0..50));
        self.callers.spawn(async move {
            let asked = memory.now();
            let slot = slot(key);
            let fingerprint = Fingerprint::of(&payload.to_le_bytes());
            let was_up = truth.is_up();
            let (begun, was_shown) = SHOWN
                .scope(Cell::new(false), async {
                    let begun = node.engine.begin(&slot, fingerprint).await;
                    (begun, SHOWN.with(Cell::get))
                })
                .await;
            match begun {
                Ok(Verdict::Execute(claim)) => {
                    let began = memory.now();
                    let work = ledger.lock().execute(key, payload, began, was_shown);
                    tokio::time::sleep(pause).await;
                    match fate {
                        0 => {
                            // It may be free before this caller hears of it.
                            ledger.lock().released(work, false);
                            let is_known = claim.release().await.is_ok();
                            ledger.lock().released(work, is_known);
                        }
                        _ => {
                            let done = claim.complete(work.answer()).await;
                            ledger
                                .lock()
                                .completed(work, done.ok().map(|it| it.expires));
                        }
                    }
                }
                Ok(Verdict::Replay(replay)) => {
                    let body = replay.outcome.body().cloned().unwrap_or_default();
                    let only_cache = !was_up && !truth.is_up();
                    ledger
                        .lock()
                        .replayed(key, payload, &body, asked, only_cache);
                }
                Ok(Verdict::Mismatch) => ledger.lock().counts.mismatches += 1,
                Ok(_) | Err(_) => {}
            }
        });
    }

    /// An operator takes an answer away, and tells the cache first.
    async fn take_away(&mut self) {
        let key = self.random.u64(0..KEYS);
        let node = self.nodes[self.random.usize(0..2)].clone();
        let Ok(id) = node.engine.id_of(&slot(key)).await else {
            return;
        };
        let Ok(found) = self.memory.get(id).await else {
            return;
        };
        let Some(answer) = found.value.filter(|it| it.outcome().is_some()) else {
            return;
        };
        let before = Fence::mint(Some(answer.fence), found.now);
        if node.store.forget(id, before).await.is_err() {
            return;
        }
        let removed = self.memory.remove(id, answer.fence, Timestamp::NEVER).await;
        if removed.is_ok_and(|reply| reply.value == onceward::store::Swap::Done) {
            let now = self.now();
            self.ledger.lock().taken_away(key, now);
            // Operators do not restore a cache from before what they settled.
            self.snapshot = None;
        }
    }

    /// The database loses an answer that it acknowledged.
    async fn lose(&mut self) {
        let key = self.random.u64(0..KEYS);
        let Ok(id) = self.nodes[0].engine.id_of(&slot(key)).await else {
            return;
        };
        let Ok(found) = self.memory.get(id).await else {
            return;
        };
        if let Some(answer) = found.value.filter(|it| it.outcome().is_some()) {
            let removed = self.memory.remove(id, answer.fence, Timestamp::NEVER).await;
            removed.expect("what is in memory can be removed");
            self.ledger.lock().lost(key);
        }
    }

    /// The cache is emptied, or restored from before.
    fn restore(&mut self) {
        match self.snapshot.take().filter(|_| self.random.bool()) {
            Some(snapshot) => self.memos.restore(snapshot),
            None => self.memos.clear(),
        }
        self.ledger.lock().forgot_tombstones();
    }

    /// An operator looks at a record.
    async fn inspect(&mut self) {
        let key = self.random.u64(0..KEYS);
        let node = &self.nodes[self.random.usize(0..2)];
        let Ok(id) = node.engine.id_of(&slot(key)).await else {
            return;
        };
        let now = self.now();
        let stands = self.ledger.lock().stands(key, now);
        if let Ok(None) = node.engine.inspect(id).await
            && stands
            && self.ledger.lock().stands(key, self.now())
        {
            self.ledger
                .lock()
                .wrong("a record that is there is called absent");
        }
    }

    /// Mends everything, lets everybody end, and asks once more for everything.
    async fn end(mut self) -> Outcome {
        self.truth.set_down(false);
        self.cache.set_down(false);
        self.cache.set_hanging(false);
        self.pass(Duration::from_secs(30)).await;
        for _ in 0..20 {
            self.call();
        }
        for _ in 0..10 {
            self.pass(Duration::from_secs(2)).await;
        }
        while let Some(ended) = self.callers.try_join_next() {
            ended.expect("a caller does not panic");
        }
        let mut ledger = self.ledger.lock();
        if !self.callers.is_empty() {
            ledger.wrong("a caller waits for ever");
        }
        let found: u64 = self
            .nodes
            .iter()
            .map(|it| it.store.regressions().count())
            .sum();
        ledger.counts.found_lost = found;
        if found > 0 && ledger.counts.lost == 0 {
            ledger.wrong("a node says that an answer was lost, and none was");
        }
        ledger.outcome()
    }
}

fn slot(key: u64) -> Slot {
    let key = Key::parse(&format!("key-{key}")).expect("it is printable");
    Slot::new(Scope::new("tenant", "work"), key)
}
