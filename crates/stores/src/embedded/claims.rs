//! Claims: where those that are on the board are listed, so that a later run finds them.
//!
//! Every batch that claims something leaves one list of it. An entry for each claim would be
//! written and removed again within milliseconds, which is most of what an execution writes; a
//! list is removed when nothing on it is live any more.

use std::collections::BTreeMap;
use std::mem;

use fjall::Readable as _;
use onceward::codec;
use onceward::record::{Reason, StateName};
use onceward::{Fence, SlotId, Timestamp};

use super::base::{Base, io_cause, unreadable};
use super::batch::{Batch, Change};
use super::board::Board;
use super::journal::Mark;
use super::value::{Draft, Index, IndexKey, Value, index_from, read_index_key};

/// The lists of the claims that nobody has ended yet.
#[derive(Debug, Default)]
pub(super) struct Claims {
    lists: BTreeMap<Mark, List>,
    /// The lists on which nothing is live any more.
    dead: Vec<IndexKey>,
}

/// The claims of one batch.
#[derive(Debug, Default)]
struct List {
    /// How many of them are live.
    live: usize,
    /// All of them, until the list is filed.
    slots: Vec<u8>,
}

/// What the index says of the claims of an earlier run, or of this one before it failed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Those that are claims still, each with the last list that it is on.
    pub(super) claims: Vec<(SlotId, Value, Mark)>,
    /// Every list that is there.
    pub(super) lists: Vec<Mark>,
}

// === impl Claims ===

impl Claims {
    /// Puts the claims that the index told of on the board.
    pub(super) fn of(listed: Listed, board: &Board) -> Self {
        let mut claims = Self::default();
        for (slot, claim, list) in listed.claims {
            claims.lists.entry(list).or_default().live += 1;
            board.post(slot, claim, list);
        }
        let dead = listed.lists.into_iter();
        let dead = dead.filter(|list| !claims.lists.contains_key(list));
        claims.dead = dead.map(list_key).collect();
        claims
    }

    /// Takes note of changes that are durable, in the batch of `mark`, and says so on the board.
    pub(super) fn note(&mut self, board: &Board, changes: &mut [Change], mark: Mark) {
        let mut fresh = List::default();
        for change in changes {
            let list = change.claimed().map(|_| mark);
            if list.is_some() {
                fresh.live += 1;
                fresh.slots.extend_from_slice(change.slot.as_bytes());
            }
            if let Some(list) = board.settle(change, list) {
                self.strike(list);
            }
        }
        if fresh.live > 0 {
            self.lists.insert(mark, fresh);
        }
    }

    /// Takes the lists that are to be filed.
    pub(super) fn take_unfiled(&mut self) -> impl Iterator<Item = (IndexKey, Vec<u8>)> {
        let unfiled = self.lists.iter_mut();
        let unfiled = unfiled.filter(|(_, list)| !list.slots.is_empty());
        unfiled.map(|(mark, list)| (list_key(*mark), mem::take(&mut list.slots)))
    }

    /// The lists on which nothing is live any more, to be removed.
    pub(super) fn dead(&self) -> &[IndexKey] {
        &self.dead
    }

    /// Says that the dead lists are gone, durably.
    pub(super) fn bury(&mut self) {
        self.dead.clear();
    }

    /// A moment before which there is no list, `now` at the latest.
    pub(super) fn floor(&self, now: Timestamp) -> Timestamp {
        let dead = self.dead.iter().filter_map(mark_of);
        // Those of later batches are no earlier.
        let first = self.lists.keys().next().copied().into_iter();
        first
            .chain(dead)
            .map(|mark| mark.stamp)
            .fold(now, Timestamp::min)
    }

    /// Says that one of a list is live no more.
    fn strike(&mut self, list: Mark) {
        let Some(found) = self.lists.get_mut(&list) else {
            return;
        };
        found.live -= 1;
        if found.live == 0 {
            self.lists.remove(&list);
            self.dead.push(list_key(list));
        }
    }
}

/// Where the claims of the batch of `mark` are listed: at its stamp, which none of them is after.
pub(super) fn list_key(mark: Mark) -> IndexKey {
    let mut key = index_from(Index::Claims, mark.stamp);
    key[9..17].copy_from_slice(&mark.sequence.to_be_bytes());
    key
}

/// The batch whose claims are listed at `key`.
fn mark_of(key: &IndexKey) -> Option<Mark> {
    let (stamp, _) = read_index_key(key)?;
    let sequence = u64::from_be_bytes(key[9..17].try_into().ok()?);
    Some(Mark { sequence, stamp })
}

/// Returns what the lists since `floor` tell.
pub(super) fn claims_since(base: &Base, floor: Timestamp) -> fjall::Result<Listed> {
    let from = index_from(Index::Claims, floor);
    let to = index_from(Index::Expiry, Timestamp::ZERO);
    let mut listed = Listed::default();
    // In the order of the slots, in which they lie on the disk.
    let mut on = BTreeMap::<SlotId, Mark>::new();
    for entry in base.db.snapshot().range(&base.index, from..to) {
        let (key, list) = entry.into_inner()?;
        let key = IndexKey::try_from(&*key).ok();
        let Some(mark) = key.as_ref().and_then(mark_of) else {
            continue;
        };
        listed.lists.push(mark);
        let (slots, _) = list.as_chunks::<{ SlotId::LEN }>();
        on.extend(slots.iter().map(|slot| (SlotId::from_bytes(*slot), mark)));
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
pub(super) fn unsettle(batch: &mut Batch, slot: SlotId, claim: &Value, now: Timestamp) {
    let record = match claim.decode() {
        Ok(record) => record,
        Err(error) => return skip(slot, error),
    };
    let fence = Fence::mint(Some(record.fence), now);
    let unknown = record.unsettled(Reason::RESTARTED, fence);
    let value = Draft::of(&unknown).stamp(now);
    batch.push(slot, Some(claim.trace()), Some(value));
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
        let (mut claims, board) = (Claims::default(), Board::new());
        claims.note(&board, &mut [claimed("a"), claimed("b")], mark(1));
        claims.note(&board, &mut [completed("a")], mark(2));
        assert!(dead(&mut claims).is_empty());
        claims.note(&board, &mut [completed("b")], mark(3));
        assert_eq!(dead(&mut claims), [list_key(mark(1))]);
        assert!(dead(&mut claims).is_empty());
    }

    #[test]
    fn a_claim_that_is_renewed_moves_to_another_list() {
        let (mut claims, board) = (Claims::default(), Board::new());
        claims.note(&board, &mut [claimed("a")], mark(1));
        claims.note(&board, &mut [claimed("a")], mark(2));
        assert_eq!(dead(&mut claims), [list_key(mark(1))]);
        claims.note(&board, &mut [completed("a")], mark(3));
        assert_eq!(dead(&mut claims), [list_key(mark(2))]);
    }

    #[test]
    fn the_floor_lies_below_every_list_that_is_there() {
        let (mut claims, board) = (Claims::default(), Board::new());
        let now = Timestamp::from_micros(1000);
        assert_eq!(claims.floor(now), now);
        claims.note(&board, &mut [claimed("a")], mark(1));
        claims.note(&board, &mut [claimed("b")], mark(2));
        assert_eq!(claims.floor(now), mark(1).stamp);
        // Nobody has removed it yet.
        claims.note(&board, &mut [completed("a")], mark(3));
        assert_eq!(claims.floor(now), mark(1).stamp);
        dead(&mut claims);
        assert_eq!(claims.floor(now), mark(2).stamp);
    }
}
