//! Claims: the live ones are known in memory, so that lapsed ones are found, and most ends are
//! judged, without a disk; those of an earlier run are found by their lists in the index.
//!
//! Every batch that claims something leaves one list of it. An entry for each claim would be
//! written and removed again within milliseconds, which is most of what an execution writes; a
//! list is removed when nothing on it is live any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

use fjall::Readable as _;
use onceward::codec;
use onceward::record::{Reason, StateName};
use onceward::store::Error;
use onceward::{Fence, SlotId, Timestamp};

use super::base::{Base, io_cause, unreadable};
use super::batch::{Batch, Change, Spread};
use super::journal::Mark;
use super::value::{Draft, Index, IndexKey, Value, index_from, read_index_key};

/// The claims of this run that nobody has ended yet.
#[derive(Debug, Default)]
pub(super) struct Claims {
    live: HashMap<SlotId, Live, BuildHasherDefault<Spread>>,
    /// When they lapse.
    by_due: BTreeSet<(Timestamp, SlotId)>,
    /// How many of each list are live.
    lists: BTreeMap<IndexKey, usize>,
    /// The lists on which nothing is live any more.
    dead: Vec<IndexKey>,
}

/// A claim as it is in its slot, durably.
#[derive(Debug)]
struct Live {
    value: Value,
    /// Where it is listed.
    list: IndexKey,
}

/// What slots hold, durably.
#[derive(Debug)]
pub(super) struct Slots<'a> {
    pub(super) base: &'a Base,
    pub(super) claims: &'a Claims,
}

/// What the index says of the claims of an earlier run, or of this one before it failed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Those that are claims still, each with the last list that it is on.
    pub(super) claims: Vec<(SlotId, Value, IndexKey)>,
    /// Every list that is there.
    pub(super) lists: Vec<IndexKey>,
}

// === impl Claims ===

impl Claims {
    /// Returns the claims that the index told of.
    pub(super) fn of(listed: Listed) -> Self {
        let mut claims = Self::default();
        for (slot, value, list) in listed.claims {
            claims.add(slot, &value, list);
        }
        let is_dead = |list: &IndexKey| !claims.lists.contains_key(list);
        claims.dead = listed.lists.into_iter().filter(is_dead).collect();
        claims
    }

    /// The claim in `slot`, if there is one of this run.
    pub(super) fn get(&self, slot: SlotId) -> Option<&Value> {
        self.live.get(&slot).map(|live| &live.value)
    }

    /// Takes note of a change that is durable, in the batch of `mark`.
    pub(super) fn note(&mut self, change: &Change, mark: Mark) {
        if let Some(before) = self.live.remove(&change.slot) {
            self.by_due.remove(&(before.value.due(), change.slot));
            self.strike(before.list);
        }
        if let Some(after) = change.claimed() {
            self.add(change.slot, after, list_key(mark));
        }
    }

    /// The lists on which nothing is live any more, to be removed.
    pub(super) fn dead(&self) -> &[IndexKey] {
        &self.dead
    }

    /// Says that the dead lists are gone, durably.
    pub(super) fn bury(&mut self) {
        self.dead.clear();
    }

    /// The claims that lapsed before `horizon`.
    pub(super) fn lapsed(&self, horizon: Timestamp) -> impl Iterator<Item = (SlotId, &Value)> {
        self.by_due
            .range(..(horizon, SlotId::RESERVED))
            .filter_map(|(_, slot)| Some((*slot, self.get(*slot)?)))
    }

    /// A moment before which there is no list, `now` at the latest.
    pub(super) fn floor(&self, now: Timestamp) -> Timestamp {
        let first = self.lists.keys().next().into_iter();
        let stamps = first
            .chain(&self.dead)
            .filter_map(|key| read_index_key(key));
        stamps.map(|(stamp, _)| stamp).fold(now, Timestamp::min)
    }

    fn add(&mut self, slot: SlotId, claim: &Value, list: IndexKey) {
        self.by_due.insert((claim.due(), slot));
        *self.lists.entry(list).or_default() += 1;
        let value = claim.clone();
        self.live.insert(slot, Live { value, list });
    }

    /// Says that one of a list is live no more.
    fn strike(&mut self, list: IndexKey) {
        let Some(live) = self.lists.get_mut(&list) else {
            return;
        };
        *live -= 1;
        if *live == 0 {
            self.lists.remove(&list);
            self.dead.push(list);
        }
    }
}

// === impl Slots ===

impl Slots<'_> {
    /// Most writes end a claim of this run, which is at hand; the rest is in the database.
    pub(super) fn get(&self, slot: SlotId) -> Result<Option<Value>, Error> {
        match self.claims.get(slot) {
            Some(claim) => Ok(Some(claim.clone())),
            None => self.base.get(slot),
        }
    }
}

/// Where the claims of the batch of `mark` are listed: at its stamp, which none of them is after.
pub(super) fn list_key(mark: Mark) -> IndexKey {
    let mut key = index_from(Index::Claims, mark.stamp);
    key[9..17].copy_from_slice(&mark.sequence.to_be_bytes());
    key
}

/// Returns what the lists since `floor` tell.
pub(super) fn claims_since(base: &Base, floor: Timestamp) -> fjall::Result<Listed> {
    let from = index_from(Index::Claims, floor);
    let to = index_from(Index::Expiry, Timestamp::ZERO);
    let mut listed = Listed::default();
    // In the order of the slots, in which they lie on the disk.
    let mut on = BTreeMap::<SlotId, IndexKey>::new();
    for entry in base.db.snapshot().range(&base.index, from..to) {
        let (key, list) = entry.into_inner()?;
        let Ok(key) = IndexKey::try_from(&*key) else {
            continue;
        };
        listed.lists.push(key);
        let (slots, _) = list.as_chunks::<{ SlotId::LEN }>();
        on.extend(slots.iter().map(|slot| (SlotId::from_bytes(*slot), key)));
    }
    for (slot, list) in on {
        let found = match base.kept(slot) {
            // A claim that a disk withholds for a moment would stay a claim for good.
            Some(Err(error)) if io_cause(&error).is_some() => return Err(error),
            Some(Err(error)) => Err(unreadable(slot, error)),
            Some(Ok(None)) => continue,
            Some(Ok(Some(kept))) => Value::read(kept).map_err(|error| unreadable(slot, error)),
            None => Err(unreadable(slot, "the database panicked over it")),
        };
        match found {
            Ok(value) if value.state() == StateName::Claimed => {
                listed.claims.push((slot, value, list));
            }
            Ok(_) => {}
            // It stays unreadable for whoever asks, which repeats nothing.
            Err(error) => tracing::error!(%error, "what was claimed cannot be read"),
        }
    }
    Ok(listed)
}

/// Puts into `batch` that nobody knows how a claim of an earlier run ended. The mark stays: its
/// holder may yet complete it.
pub(super) fn unsettle(batch: &mut Batch, slot: SlotId, claim: Value, now: Timestamp) {
    let record = match claim.decode() {
        Ok(record) => record,
        Err(error) => return skip(slot, error),
    };
    let fence = Fence::mint(Some(record.fence), now);
    let unknown = record.unsettled(Reason::RESTARTED, fence);
    let value = Draft::of(&unknown).stamp(now);
    batch.push(slot, Some(claim), Some(value));
}

fn skip(slot: SlotId, error: codec::Error) {
    let error = unreadable(slot, error);
    tracing::error!(%error, "a claim of an earlier run stays as it is");
}

#[cfg(test)]
mod tests {
    use onceward::testing::records;

    use super::*;

    fn mark(sequence: u64) -> Mark {
        let stamp = Timestamp::from_micros(sequence * 10);
        Mark { sequence, stamp }
    }

    fn change(name: &str, after: &onceward::Record) -> Change {
        Change {
            slot: records::slot(name),
            before: None,
            after: Some(Draft::of(after).stamp(Timestamp::from_micros(1))),
        }
    }

    fn claimed(name: &str) -> Change {
        change(name, &records::claimed(records::LONG))
    }

    fn completed(name: &str) -> Change {
        change(name, &records::completed(records::LONG))
    }

    fn dead(claims: &mut Claims) -> Vec<IndexKey> {
        let dead = claims.dead().to_vec();
        claims.bury();
        dead
    }

    #[test]
    fn a_list_goes_with_the_last_claim_on_it() {
        let mut claims = Claims::default();
        claims.note(&claimed("a"), mark(1));
        claims.note(&claimed("b"), mark(1));
        claims.note(&completed("a"), mark(2));
        assert!(dead(&mut claims).is_empty());
        claims.note(&completed("b"), mark(3));
        assert_eq!(dead(&mut claims), [list_key(mark(1))]);
        assert!(dead(&mut claims).is_empty());
    }

    #[test]
    fn a_claim_that_is_renewed_moves_to_another_list() {
        let mut claims = Claims::default();
        claims.note(&claimed("a"), mark(1));
        claims.note(&claimed("a"), mark(2));
        assert_eq!(dead(&mut claims), [list_key(mark(1))]);
        assert!(claims.get(records::slot("a")).is_some());
        claims.note(&completed("a"), mark(3));
        assert_eq!(dead(&mut claims), [list_key(mark(2))]);
        assert!(claims.get(records::slot("a")).is_none());
    }

    #[test]
    fn the_floor_lies_below_every_list_that_is_there() {
        let (mut claims, now) = (Claims::default(), Timestamp::from_micros(1000));
        assert_eq!(claims.floor(now), now);
        claims.note(&claimed("a"), mark(1));
        claims.note(&claimed("b"), mark(2));
        assert_eq!(claims.floor(now), mark(1).stamp);
        // Nobody has removed it yet.
        claims.note(&completed("a"), mark(3));
        assert_eq!(claims.floor(now), mark(1).stamp);
        dead(&mut claims);
        assert_eq!(claims.floor(now), mark(2).stamp);
    }
}
