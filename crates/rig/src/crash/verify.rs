//! Opening an image with the real store, and holding it to its promise.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use onceward::clock::Clock;
use onceward::store::{Error, Filter, Insert, Swap};
use onceward::testing::records;
use onceward::{Fence, Outcome, Record, SlotId, State, Store as _, Timestamp};
use onceward_stores::OpenError;
use onceward_stores::embedded::EmbeddedStore;

use super::promise::{Promise, Version};

/// What is wrong with an image, or rather with the store that opened it.
pub(super) type Wrong = String;

/// What an image came to, where nothing is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Came {
    /// It opened, with everything.
    Whole,
    /// It opened, and says of some records that they cannot be read.
    Unreadable,
    /// It was refused by name.
    Refused,
}

/// A machine whose clock was lost with its power: the store has to know the time by itself.
#[derive(Debug)]
struct LostClock;

type Found = BTreeMap<SlotId, Arc<Record>>;

// === impl LostClock ===

impl Clock for LostClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(1_000_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn stopwatch(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// Opens the image of a power loss: everything has to be there, and the store has to go on.
pub(super) async fn whole(folder: &Path, promise: &Promise, rng: &mut Rng) -> Result<Came, Wrong> {
    let store = open(folder).map_err(|refused| format!("it is refused: {}", chain(&refused)))?;
    let found = all(&store).await?;
    compare(promise, &found)?;
    // Reading one by one shows the same.
    for slot in some(&found, rng, 3) {
        let one = store.get(slot).await.map_err(|error| chain(&error))?.value;
        if one.as_ref() != found.get(&slot) {
            return Err(format!("{slot} is listed and read differently"));
        }
    }
    let expected = go_on(&store, promise, &found, rng).await?;
    store.close();
    drop(store);
    // Closing leaves less to chance than losing power, so not every image is opened twice.
    match rng.u8(..3) {
        0 => reopened(folder, &expected).await,
        _ => Ok(Came::Whole),
    }
}

/// Opens a store once more that was closed in good order.
async fn reopened(
    folder: &Path,
    expected: &BTreeMap<SlotId, Option<Version>>,
) -> Result<Came, Wrong> {
    let store =
        open(folder).map_err(|refused| format!("not a second time: {}", chain(&refused)))?;
    let again = all(&store).await?;
    for (slot, version) in expected {
        let is_there = match (version, again.get(slot)) {
            (Some(version), Some(found)) => version.is(found),
            (None, None) => true,
            _ => false,
        };
        if !is_there {
            return Err(format!("{slot} is not what it was before it was closed"));
        }
    }
    let is_known = |slot: &&SlotId| !expected.contains_key(slot);
    match again.keys().find(is_known) {
        Some(slot) => Err(format!("{slot} came from nowhere when it was opened again")),
        None => Ok(Came::Whole),
    }
}

/// Opens a damaged image: whatever is not there has to be missed by name.
pub(super) async fn never_silent(folder: &Path, promise: &Promise) -> Result<Came, Wrong> {
    let store = match open(folder) {
        Ok(store) => store,
        Err(refused) if speaks_of_damage(&refused) => return Ok(Came::Refused),
        Err(refused) => {
            return Err(format!("refused for another reason: {}", chain(&refused)));
        }
    };
    let mut came = Came::Whole;
    for (slot, held) in &promise.slots {
        match store.get(*slot).await {
            Ok(reply) if held.allows(reply.value.as_deref()) => {}
            Ok(reply) => return Err(wrong_in(*slot, promise, reply.value.as_deref())),
            Err(Error::Unreadable { .. }) => came = Came::Unreadable,
            Err(error) => return Err(format!("{slot} cannot be read: {}", chain(&error))),
        }
    }
    Ok(came)
}

fn open(folder: &Path) -> Result<EmbeddedStore, OpenError> {
    let options = EmbeddedStore::at(folder.join("store"));
    // Synced or not, it recovers alike; the image itself lies in memory.
    let options = options.sync(false).clock(Arc::new(LostClock));
    let options = options.recent(1 << 16);
    // A process that is just being started elsewhere in this one has a copy of every open file, the
    // folder's lock among them, until it is what it will be.
    for _ in 0..100_000 {
        match options.clone().open() {
            Err(OpenError::InUse { .. }) => std::thread::yield_now(),
            opened => return opened,
        }
    }
    options.open()
}

/// Whether a store is refused for what is in it. Whoever is told of anything else, such as a full
/// disk, would look for the trouble elsewhere.
fn speaks_of_damage(refused: &OpenError) -> bool {
    matches!(
        refused,
        OpenError::Damaged { .. } | OpenError::AcknowledgedMissing { .. } | OpenError::Newer { .. }
    )
}

async fn all(store: &EmbeddedStore) -> Result<Found, Wrong> {
    let mut found = Found::new();
    let mut after = None;
    loop {
        let page = store.list(&Filter::default(), after, 1_000).await;
        let page = page.map_err(|error| chain(&error))?.value;
        found.extend(page.records);
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

fn compare(promise: &Promise, found: &Found) -> Result<(), Wrong> {
    for (slot, held) in &promise.slots {
        let there = found.get(slot).map(AsRef::as_ref);
        if !held.allows(there) {
            return Err(wrong_in(*slot, promise, there));
        }
    }
    // The secret is a record that the engine wrote, of which nothing was said before it was read.
    let is_unknown =
        |slot: &&SlotId| **slot != SlotId::RESERVED && !promise.slots.contains_key(slot);
    match found.keys().find(is_unknown) {
        Some(slot) => Err(format!("{slot} holds a record that nobody wrote")),
        None => Ok(()),
    }
}

/// Claims, completes and releases in an opened image. Returns what has to be there then.
async fn go_on(
    store: &EmbeddedStore,
    promise: &Promise,
    found: &Found,
    rng: &mut Rng,
) -> Result<BTreeMap<SlotId, Option<Version>>, Wrong> {
    let mut expected: BTreeMap<SlotId, Option<Version>> = found
        .iter()
        .map(|(slot, record)| (*slot, Some(Version::stored(record))))
        .collect();
    // One new slot, and some that there were.
    let fresh = records::slot(&format!("after the crash {}", rng.u64(..)));
    let mut slots = some(found, rng, 2);
    let gone = promise
        .slots
        .keys()
        .filter(|slot| !found.contains_key(slot));
    slots.extend(gone.take(1));
    slots.push(fresh);
    slots.retain(|slot| *slot != SlotId::RESERVED);
    for (turn, slot) in slots.into_iter().enumerate() {
        let read = store.get(slot).await.map_err(|error| chain(&error))?;
        if read.now < promise.stamp {
            return Err(format!(
                "its clock says {:?} after {:?}",
                read.now, promise.stamp
            ));
        }
        let over = read.value.map(|record| record.fence);
        let fence = Fence::mint(over, read.now);
        let before = promise.slots.get(&slot).and_then(|held| held.fence);
        if over.is_some() && before.is_some_and(|before| fence <= before) {
            return Err(format!("{slot} gives fences out again"));
        }
        let claim = Record {
            fence,
            mark: Some(fence),
            ..records::claimed(records::LONG)
        };
        let now = write(store, slot, over, Some(&claim)).await?;
        let claim = claim.stamped(now);
        expected.insert(slot, Some(Version::stored(&claim)));
        match turn % 3 {
            0 => {
                let done = Record {
                    fence: Fence::mint(Some(fence), now),
                    state: State::Completed(Outcome::success(records::bytes(rng.usize(..700)))),
                    ..claim
                };
                let now = write(store, slot, Some(fence), Some(&done)).await?;
                expected.insert(slot, Some(Version::stored(&done.stamped(now))));
            }
            1 => {
                write(store, slot, Some(fence), None).await?;
                expected.insert(slot, None);
            }
            _ => {}
        }
    }
    Ok(expected)
}

async fn write(
    store: &EmbeddedStore,
    slot: SlotId,
    over: Option<Fence>,
    record: Option<&Record>,
) -> Result<Timestamp, Wrong> {
    let late = Timestamp::NEVER;
    let (is_done, now) = match (over, record) {
        (None, Some(record)) => {
            let reply = store.insert(slot, record, late).await;
            let reply = reply.map_err(|error| chain(&error))?;
            (reply.value == Insert::Done, reply.now)
        }
        (Some(over), record) => {
            let reply = match record {
                Some(record) => store.replace(slot, over, record, late).await,
                None => store.remove(slot, over, late).await,
            };
            let reply = reply.map_err(|error| chain(&error))?;
            (reply.value == Swap::Done, reply.now)
        }
        (None, None) => return Err("nothing cannot be removed".to_owned()),
    };
    match is_done {
        true => Ok(now),
        false => Err(format!("{slot} does not take a write over what it holds")),
    }
}

fn some(found: &Found, rng: &mut Rng, count: usize) -> Vec<SlotId> {
    rng.choose_multiple(found.keys().copied(), count)
}

fn wrong_in(slot: SlotId, promise: &Promise, found: Option<&Record>) -> Wrong {
    let held = promise.slots.get(&slot);
    let short = |text: String| text.chars().take(700).collect::<String>();
    let (promised, found) = (short(format!("{held:?}")), short(format!("{found:?}")));
    format!("{slot} holds {found}, promised was {promised}")
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_is_said_about_the_files_counts_as_refused() {
        let folder = tempfile::tempdir().unwrap();
        let held = open(folder.path()).unwrap();
        let wrong = never_silent(folder.path(), &Promise::default()).await;
        let wrong = wrong.unwrap_err();
        assert!(wrong.starts_with("refused for another reason: "), "{wrong}");
        assert!(wrong.contains("in use"), "{wrong}");

        held.close();
        drop(held);
        std::fs::remove_file(folder.path().join("store/HEAD")).unwrap();
        let came = never_silent(folder.path(), &Promise::default()).await;
        assert_eq!(came, Ok(Came::Refused));
    }
}
