//! Work to record: what a process does to a store, and says of it.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use onceward::store::{Filter, Insert, Swap};
use onceward::testing::records;
use onceward::{BoxError, Engine, Fence, Outcome, Record, SlotId, State, Store, Timestamp};
use onceward_stores::embedded::{EmbeddedStore, repair};

use super::promise::text;

/// What a recorded process does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Workload {
    /// Creates a store, and the secret in it, and no more.
    Create,
    /// Claims, completes, renews and releases, many at once.
    Commit,
    /// The same, and ends as if killed.
    Kill,
    /// Records that expire, and sweeps.
    Sweep,
    /// Outcomes of many pages.
    Large,
    /// Little in a journal, so that journals, tables and blobs come and go.
    Flush,
    /// So much that a long journal is full, and another one begun.
    Rotate,
    /// Repairs a store that is sound.
    Repair,
}

/// A process that tells everything it does to a store.
#[derive(Debug)]
struct Teller {
    store: EmbeddedStore,
    /// Tells this session's writes from those of others.
    next: AtomicU64,
    /// The highest fence so far.
    last: Mutex<Option<Fence>>,
    seed: u64,
}

// === impl Workload ===

impl Workload {
    /// All there are.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Commit,
        Self::Kill,
        Self::Sweep,
        Self::Large,
        Self::Flush,
        Self::Rotate,
        Self::Repair,
    ];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Commit => "commit",
            Self::Kill => "kill",
            Self::Sweep => "sweep",
            Self::Large => "large",
            Self::Flush => "flush",
            Self::Rotate => "rotate",
            Self::Repair => "repair",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// How many callers work at once, and how many steps each takes.
    fn size(self) -> (u64, u64) {
        match self {
            Self::Create | Self::Repair => (1, 2),
            Self::Commit | Self::Kill => (5, 16),
            Self::Sweep => (4, 24),
            Self::Large => (2, 6),
            Self::Flush => (6, 40),
            Self::Rotate => (4, 16),
        }
    }
}

/// Does that work on the store in `folder`.
pub fn work(workload: Workload, folder: &Path, seed: u64) -> Result<(), BoxError> {
    if workload == Workload::Repair {
        repair(folder)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run(workload, folder, seed))
}

async fn run(workload: Workload, folder: &Path, seed: u64) -> Result<(), BoxError> {
    let journal = match workload {
        Workload::Flush => 3 << 10,
        Workload::Rotate => 16 << 20,
        _ => 32 << 20,
    };
    let store = EmbeddedStore::at(folder).journal(journal).open()?;
    let store = Arc::new(store);
    // As every process begins; the secret is a record like any other to the store.
    let engine = Engine::builder(Arc::clone(&store) as Arc<dyn Store>).build();
    engine.secret().await?;
    engine.shutdown(Duration::ZERO).await;
    drop(engine);
    let store = Arc::into_inner(store).ok_or("the engine is gone")?;
    let teller = Arc::new(Teller {
        store,
        next: AtomicU64::new(seed << 32),
        last: Mutex::default(),
        seed,
    });
    teller.look().await?;
    if workload == Workload::Rotate {
        teller.fill().await?;
    }
    let (callers, steps) = workload.size();
    let callers: Vec<_> = (0..callers)
        .map(|caller| {
            let teller = Arc::clone(&teller);
            tokio::spawn(async move { teller.call(workload, caller, steps).await })
        })
        .collect();
    for caller in callers {
        caller.await?.map_err(|error| error.to_string())?;
    }
    teller.store.close();
    Ok(())
}

// === impl Teller ===

impl Teller {
    /// Mints a fence over `seen`, greater than any before: as the engine does, for a slot may be
    /// claimed, emptied and claimed again within a tick of the clock.
    fn mint(&self, seen: Option<Fence>, now: Timestamp) -> Fence {
        let mut last = self.last.lock().expect("nobody panics with it");
        let fence = Fence::mint(seen.max(*last), now);
        *last.insert(fence)
    }

    /// Writes as much as a journal holds, over and over into one slot.
    async fn fill(&self) -> Result<(), BoxError> {
        const JOURNAL: usize = 18_000_000;
        const BODY: usize = 1_000_000;
        let slot = records::slot("filling");
        say(&format!("any {slot}"));
        for _ in 0..JOURNAL / BODY {
            let found = self.store.get(slot).await?;
            let over = found.value.map(|record| record.fence);
            let record = Record {
                fence: self.mint(over, found.now),
                state: State::Completed(Outcome::success(records::bytes(BODY))),
                ..records::completed(records::LONG)
            };
            match over {
                None => drop(self.store.insert(slot, &record, Timestamp::NEVER).await?),
                Some(over) => {
                    let replaced = self.store.replace(slot, over, &record, Timestamp::NEVER);
                    replaced.await?;
                }
            }
        }
        Ok(())
    }

    /// Works on slots that are this caller's alone.
    async fn call(&self, workload: Workload, caller: u64, steps: u64) -> Result<(), BoxError> {
        let mut rng = Rng::with_seed(self.seed * 1_000 + caller);
        let mut last = Vec::new();
        for step in 0..steps {
            if workload == Workload::Kill && caller == 0 && step == steps / 2 {
                std::process::abort();
            }
            // Some slots are used by every session, some by this one alone.
            let name = match rng.bool() {
                true => format!("{}-{caller}-{}", workload.name(), step % 8),
                false => format!("{}-{caller}-{}-{step}", workload.name(), self.seed),
            };
            let slot = records::slot(&name);
            let body = match workload {
                Workload::Large => rng.usize(1..40_000),
                Workload::Flush | Workload::Rotate => rng.usize(200..900),
                _ => rng.usize(0..600),
            };
            self.pay(slot, body, workload, &mut rng).await?;
            last.push(slot);
            if workload == Workload::Sweep && step % 8 == 7 {
                self.sweep(slot).await?;
            }
            if rng.u8(..6) == 0 {
                let slot = last[rng.usize(..last.len())];
                self.release(slot).await?;
            }
        }
        Ok(())
    }

    /// Claims a slot, or takes over what is there, and mostly completes.
    async fn pay(
        &self,
        slot: SlotId,
        body: usize,
        workload: Workload,
        rng: &mut Rng,
    ) -> Result<(), BoxError> {
        let found = self.store.get(slot).await?;
        let over = found.value.as_ref().map(|record| record.fence);
        let fence = self.mint(over, found.now);
        let claim = Record {
            fence,
            mark: Some(fence),
            generation: fence,
            ..records::claimed(records::LONG)
        };
        let Some(now) = self.write(slot, over, Some(&claim)).await? else {
            return Ok(());
        };
        let fence = self.mint(Some(fence), now);
        let mut ended = Record {
            fence,
            ..claim.stamped(now)
        };
        ended.state = match rng.u8(..8) {
            // Claims that are never ended, and one that is renewed.
            0 => return Ok(()),
            1 => ended.state,
            2 => State::Unknown(onceward::Reason::LAPSED),
            3 => State::Open,
            _ => State::Completed(Outcome::success(records::bytes(body))),
        };
        if workload == Workload::Sweep && rng.bool() {
            ended.retention = Duration::from_millis(rng.u64(2..20));
        }
        self.write(slot, Some(claim.fence), Some(&ended)).await?;
        Ok(())
    }

    async fn release(&self, slot: SlotId) -> Result<(), BoxError> {
        if let Some(found) = self.store.get(slot).await?.value {
            self.write(slot, Some(found.fence), None).await?;
        }
        Ok(())
    }

    async fn sweep(&self, some: SlotId) -> Result<(), BoxError> {
        let before = self.store.get(some).await?.now.as_micros();
        say(&format!("sweep {before}"));
        let swept = self.store.sweep(Timestamp::from_micros(before), 10_000);
        if !swept.await?.value.more {
            say(&format!("swept {before}"));
        }
        Ok(())
    }

    /// Writes, and says so before and after. Returns the stamp, if it was written.
    async fn write(
        &self,
        slot: SlotId,
        over: Option<Fence>,
        record: Option<&Record>,
    ) -> Result<Option<Timestamp>, BoxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let written = record.map_or("-".to_owned(), text);
        say(&format!("try {id} {slot} {written}"));
        let (is_done, now) = match (over, record) {
            (None, Some(record)) => {
                let reply = self.store.insert(slot, record, Timestamp::NEVER).await?;
                (reply.value == Insert::Done, reply.now)
            }
            (Some(over), Some(record)) => {
                let reply = self.store.replace(slot, over, record, Timestamp::NEVER);
                let reply = reply.await?;
                (reply.value == Swap::Done, reply.now)
            }
            (Some(over), None) => {
                let reply = self.store.remove(slot, over, Timestamp::NEVER).await?;
                (reply.value == Swap::Done, reply.now)
            }
            (None, None) => return Ok(None),
        };
        match is_done {
            true => say(&format!("ok {id} {}", now.as_micros())),
            false => say(&format!("not {id}")),
        }
        Ok(is_done.then_some(now))
    }

    /// Says everything that is in the store.
    async fn look(&self) -> Result<(), BoxError> {
        say("look");
        let mut after = None;
        loop {
            let page = self
                .store
                .list(&Filter::default(), after, 1_000)
                .await?
                .value;
            for (slot, record) in &page.records {
                let written = record.written.as_micros();
                say(&format!("saw {slot} {written} {}", text(record)));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        say("looked");
        Ok(())
    }
}

/// Says one line in one write: the recorder sees it as a whole.
fn say(line: &str) {
    let line = format!("{line}\n");
    let mut stdout = std::io::stdout().lock();
    // Nobody listens but the recorder.
    let _ = stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush());
}
