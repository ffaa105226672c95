//! Filing: what the journals say goes to the database's tables, whatever happens meanwhile.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use onceward::clock::{Clock, SystemClock};
use onceward::store::{Insert, Swap};
use onceward::testing::{ManualClock, records};
use onceward::{Record, SlotId, State, Store as _, Timestamp};
use onceward_stores::embedded::{Disk, EmbeddedStore, Room};

use crate::image::{Acknowledged, Opened, all, copy, open, present, put, scratch};

/// A disk on which filing stops at a gate, before it begins or before it is over.
#[derive(Debug)]
pub(crate) struct Gate {
    at: At,
    reached: mpsc::Sender<()>,
    open: Mutex<mpsc::Receiver<()>>,
    is_gone: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Begin,
    End,
}

/// The test's side of a [`Gate`]. Dropping it fails what stands there, or else what comes next.
pub(crate) struct Keeper {
    pub(crate) reached: mpsc::Receiver<()>,
    open: mpsc::Sender<()>,
}

// === impl Gate ===

impl Gate {
    pub(crate) fn new(at: At) -> (Arc<Self>, Keeper) {
        let ((reached, is_reached), (open, opened)) = (mpsc::channel(), mpsc::channel());
        let gate = Self {
            at,
            reached,
            open: Mutex::new(opened),
            is_gone: AtomicBool::new(false),
        };
        let keeper = Keeper {
            reached: is_reached,
            open,
        };
        (Arc::new(gate), keeper)
    }

    fn pass(&self, at: At) -> io::Result<()> {
        if at != self.at || self.is_gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _ = self.reached.send(());
        let opened = self.open.lock().unwrap().recv();
        opened.map_err(|_| {
            self.is_gone.store(true, Ordering::Relaxed);
            io::Error::other("the gate is gone")
        })
    }
}

impl Disk for Gate {
    fn room(&self, _: &Path) -> io::Result<Room> {
        let all = u64::MAX;
        Ok(Room { free: all, all })
    }

    fn filing(&self) -> io::Result<()> {
        self.pass(At::Begin)
    }

    fn filed(&self) -> io::Result<()> {
        self.pass(At::End)
    }
}

// === impl Keeper ===

impl Keeper {
    fn let_through(&self) {
        self.open.send(()).unwrap();
    }
}

/// Puts records until filing stands at the gate.
async fn put_until_reached(store: &EmbeddedStore, folder: &Path, keeper: &Keeper) -> Acknowledged {
    let mut acknowledged = Acknowledged::new();
    // No more than that: if another journal were full, writing would wait for the gate.
    while journals(folder).len() < 2 {
        let n = acknowledged.len();
        put(store, &mut acknowledged, n).await;
    }
    keeper.reached.recv().unwrap();
    acknowledged
}

fn journals(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder.join("data")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".jnl")).collect();
    names.sort();
    names
}

/// Waits until filing is over, which nobody is told.
fn until_filed(folder: &Path) {
    while journals(folder).len() > 1 {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_record_is_there_before_it_is_filed_meanwhile_and_afterwards() {
    for at in [At::Begin, At::End] {
        let folder = scratch();
        let (gate, keeper) = Gate::new(at);
        let store = EmbeddedStore::at(folder.path())
            .journal(64 << 10)
            .disk(gate);
        let store = store.open().unwrap();
        let mut acknowledged = put_until_reached(&store, folder.path(), &keeper).await;
        assert_eq!(present(&store, &acknowledged).await, acknowledged.len());
        assert_eq!(all(&store).await, acknowledged);
        // What is written meanwhile is in another journal, and stays.
        let n = acknowledged.len();
        put(&store, &mut acknowledged, n).await;
        keeper.let_through();
        until_filed(folder.path());
        assert_eq!(all(&store).await, acknowledged);
        for (slot, record) in &acknowledged {
            let again = store.insert(*slot, record, Timestamp::NEVER).await.unwrap();
            let Insert::Taken(found) = again.value else {
                panic!("{slot:?} was free");
            };
            assert_eq!(*found, *record);
        }
        drop(keeper);
        store.close();
        assert!(matches!(
            open(folder.path(), &acknowledged).await,
            Opened::Whole
        ));
    }
}

#[tokio::test]
async fn what_is_removed_or_replaced_while_it_is_filed_stays_so() {
    let folder = scratch();
    let (gate, keeper) = Gate::new(At::End);
    let store = EmbeddedStore::at(folder.path())
        .journal(64 << 10)
        .disk(gate);
    let store = store.open().unwrap();
    let mut acknowledged = put_until_reached(&store, folder.path(), &keeper).await;
    let slots: Vec<SlotId> = acknowledged.keys().copied().collect();
    for (n, slot) in slots.into_iter().enumerate() {
        let seen = acknowledged[&slot].fence;
        if n % 2 == 0 {
            let removed = store.remove(slot, seen, Timestamp::NEVER).await.unwrap();
            assert_eq!(removed.value, Swap::Done);
            acknowledged.remove(&slot);
        } else {
            let next = records::rewritten(&acknowledged[&slot]);
            let replaced = store.replace(slot, seen, &next, Timestamp::NEVER).await;
            let replaced = replaced.unwrap();
            assert_eq!(replaced.value, Swap::Done);
            acknowledged.insert(slot, next.stamped(replaced.now));
        }
    }
    keeper.let_through();
    until_filed(folder.path());
    assert_eq!(all(&store).await, acknowledged);
    // And once that is filed as well.
    // In slots of their own, for those that were emptied have to stay so.
    let mut more = Acknowledged::new();
    while journals(folder.path()).len() < 2 {
        let n = 100_000 + more.len();
        put(&store, &mut more, n).await;
    }
    keeper.reached.recv().unwrap();
    keeper.let_through();
    until_filed(folder.path());
    acknowledged.extend(more);
    assert_eq!(all(&store).await, acknowledged);
    drop(keeper);
    store.close();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    // Claims are unknown now, and everything is where it was.
    let there = all(&store).await;
    assert!(there.keys().eq(acknowledged.keys()));
}

#[tokio::test]
async fn a_crash_before_filed_journals_are_gone_loses_nothing() {
    for at in [At::Begin, At::End] {
        let folder = scratch();
        let (gate, keeper) = Gate::new(at);
        let store = EmbeddedStore::at(folder.path())
            .journal(64 << 10)
            .disk(gate);
        let store = store.open().unwrap();
        let mut acknowledged = put_until_reached(&store, folder.path(), &keeper).await;
        for _ in 0..5 {
            let n = acknowledged.len();
            put(&store, &mut acknowledged, n).await;
        }
        let crashed = copy(folder.path());
        assert_eq!(journals(crashed.path()).len(), 2, "{at:?}");
        for _ in 0..2 {
            let opened = open(crashed.path(), &acknowledged).await;
            assert!(matches!(opened, Opened::Whole), "{at:?}: {opened:?}");
            assert_eq!(journals(crashed.path()).len(), 1, "{at:?}");
        }
        keeper.let_through();
        drop(keeper);
    }
}

#[tokio::test]
async fn a_failed_filing_opens_the_store_again_and_loses_nothing() {
    let folder = scratch();
    let (gate, keeper) = Gate::new(At::End);
    let store = EmbeddedStore::at(folder.path())
        .journal(64 << 10)
        .disk(gate);
    let store = store.open().unwrap();
    let mut acknowledged = put_until_reached(&store, folder.path(), &keeper).await;
    drop(keeper);
    // Whoever writes while it is opened again is told that nobody knows.
    let slot = records::slot("afterwards");
    let record = records::completed(records::LONG);
    while store.insert(slot, &record, Timestamp::NEVER).await.is_err() {
        tokio::task::yield_now().await;
    }
    let found = store.get(slot).await.unwrap().value.unwrap();
    acknowledged.insert(slot, Record::clone(&found));
    store.close();
    assert!(matches!(
        open(folder.path(), &acknowledged).await,
        Opened::Whole
    ));
}

#[tokio::test]
async fn what_expires_is_swept_whether_it_is_filed_or_not() {
    let folder = scratch();
    let clock = Arc::new(ManualClock::new());
    let (gate, keeper) = Gate::new(At::Begin);
    let store = EmbeddedStore::at(folder.path())
        .clock(clock.clone())
        .journal(64 << 10)
        .disk(gate);
    let store = store.open().unwrap();
    let short = Duration::from_secs(60);
    let mut count = 0;
    let mut put_some = async |until: &mut dyn FnMut() -> bool| {
        while !until() {
            let slot = records::slot(&format!("short {count}"));
            let record = records::completed(short);
            store.insert(slot, &record, Timestamp::NEVER).await.unwrap();
            count += 1;
        }
        count
    };
    put_some(&mut || journals(folder.path()).len() > 1).await;
    keeper.reached.recv().unwrap();
    keeper.let_through();
    until_filed(folder.path());
    let mut more = 3;
    let expected = put_some(&mut || {
        more -= 1;
        more < 0
    })
    .await;
    clock.advance(short + Duration::from_secs(1));
    let swept = store.sweep(Timestamp::NEVER, 10_000).await.unwrap().value;
    assert_eq!((swept.removed, swept.more), (expected, false));
    assert!(all(&store).await.is_empty());
    drop(keeper);
}

/// A clock by which everything takes long that is timed.
#[derive(Default, Debug)]
struct SlowClock(AtomicU64);

impl Clock for SlowClock {
    fn wall(&self) -> Timestamp {
        SystemClock.wall()
    }

    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }

    fn stopwatch(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[tokio::test]
async fn a_large_store_says_the_same_whoever_looks() {
    let slow = Arc::new(SlowClock::default());
    let clocks: [Arc<dyn Clock>; 2] = [Arc::new(SystemClock), slow.clone()];
    for clock in clocks {
        let folder = scratch();
        let large = EmbeddedStore::at(folder.path()).large(0).clock(clock);
        let store = large.clone().open().unwrap();
        let mut acknowledged = Acknowledged::new();
        for n in 0..20 {
            put(&store, &mut acknowledged, n).await;
        }
        store.close();
        drop(store);
        let store = large.open().unwrap();
        let there = all(&store).await;
        for (slot, record) in &there {
            let again = store.insert(*slot, record, Timestamp::NEVER).await.unwrap();
            assert!(matches!(again.value, Insert::Taken(found) if *found == *record));
            let next = Record {
                state: State::Open,
                ..records::rewritten(record)
            };
            let replaced = store.replace(*slot, record.fence, &next, Timestamp::NEVER);
            assert_eq!(replaced.await.unwrap().value, Swap::Done);
        }
        assert_eq!(there.len(), acknowledged.len());
    }
    // One for each write at first, and two writes later. Nine are slow after each opening, and they
    // alone have an end: the others are left to the thread.
    let (looks, ends) = (20 + 2 * 20, 9 + 9);
    assert_eq!(slow.0.load(Ordering::Relaxed), looks + ends);
}

#[tokio::test]
async fn a_full_journal_of_an_earlier_run_is_filed_by_the_next() {
    let folder = scratch();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let mut acknowledged = Acknowledged::new();
    for n in 0..20 {
        put(&store, &mut acknowledged, 5 * n).await;
    }
    store.close();
    drop(store);
    let store = EmbeddedStore::at(folder.path()).journal(1 << 10).open();
    let store = store.unwrap();
    let n = 5 * acknowledged.len();
    put(&store, &mut acknowledged, n).await;
    while folder.path().join("data/0.jnl").exists() {
        std::thread::yield_now();
    }
    assert_eq!(all(&store).await, acknowledged);
    drop(store);
    assert!(matches!(
        open(folder.path(), &acknowledged).await,
        Opened::Whole
    ));
}

#[tokio::test]
async fn a_list_of_more_than_a_page_that_is_not_filed_is_whole() {
    let folder = scratch();
    let store = EmbeddedStore::at(folder.path()).sync(false);
    let store = store.open().unwrap();
    let mut acknowledged = Acknowledged::new();
    for n in 0..900 {
        put(&store, &mut acknowledged, 5 * n).await;
    }
    // Opened again, these are the database's; what follows is on the board.
    store.close();
    drop(store);
    let store = EmbeddedStore::at(folder.path()).sync(false);
    let store = store.open().unwrap();
    for n in 900..5_400 {
        put(&store, &mut acknowledged, 5 * n).await;
    }
    // The last ones that a page looks at on the board are among those that went.
    let slots: Vec<SlotId> = acknowledged.keys().copied().collect();
    for slot in &slots[1_500..4_000] {
        let seen = acknowledged[slot].fence;
        let removed = store.remove(*slot, seen, Timestamp::NEVER).await.unwrap();
        assert_eq!(removed.value, Swap::Done);
        acknowledged.remove(slot);
    }
    assert_eq!(all(&store).await, acknowledged);
}
