//! Claims: the live ones are known in memory, so that lapsed ones are found without a disk; those
//! of an earlier run are found by the index.

use std::collections::{BTreeMap, BTreeSet};

use fjall::Readable as _;
use onceward::codec;
use onceward::record::{Reason, StateName};
use onceward::{Fence, SlotId, Timestamp};

use super::base::{Base, io_cause, unreadable};
use super::batch::{Batch, Change};
use super::value::{Draft, Index, Value, index_from, read_index_key};

/// The claims of this run that nobody has ended yet.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// When they lapse.
    by_due: BTreeSet<(Timestamp, SlotId)>,
    /// How many were written in each second: enough to know the oldest.
    by_second: BTreeMap<u64, usize>,
}

const SECOND: u64 = 1_000_000;

// === impl Claims ===

impl Claims {
    /// Takes note of a change that is durable.
    pub(super) fn note(&mut self, change: &Change) {
        let claimed = |value: &&Value| value.state() == StateName::Claimed;
        if let Some(before) = change.before.as_ref().filter(claimed) {
            self.by_due.remove(&(before.due(), change.slot));
            self.count(before.written(), |count| count.saturating_sub(1));
        }
        if let Some(after) = change.after.as_ref().filter(claimed) {
            self.add(change.slot, after);
        }
    }

    pub(super) fn add(&mut self, slot: SlotId, claim: &Value) {
        self.by_due.insert((claim.due(), slot));
        self.count(claim.written(), |count| count + 1);
    }

    /// The slots of claims that lapsed before `horizon`.
    pub(super) fn lapsed(&self, horizon: Timestamp) -> impl Iterator<Item = SlotId> + '_ {
        self.by_due
            .range(..(horizon, SlotId::RESERVED))
            .map(|(_, slot)| *slot)
    }

    /// A moment before which no live claim was written, `now` at the latest.
    pub(super) fn floor(&self, now: Timestamp) -> Timestamp {
        let oldest = self.by_second.first_key_value();
        oldest.map_or(now, |(second, _)| {
            Timestamp::from_micros(second * SECOND).min(now)
        })
    }

    fn count(&mut self, written: Timestamp, change: impl FnOnce(usize) -> usize) {
        let second = written.as_micros() / SECOND;
        match change(self.by_second.get(&second).copied().unwrap_or(0)) {
            0 => drop(self.by_second.remove(&second)),
            count => drop(self.by_second.insert(second, count)),
        }
    }
}

/// Returns the claims written since `floor`, by way of the index.
pub(super) fn claims_since(base: &Base, floor: Timestamp) -> fjall::Result<Vec<(SlotId, Value)>> {
    let from = index_from(Index::Claims, floor);
    let to = index_from(Index::Expiry, Timestamp::ZERO);
    let mut claims = Vec::new();
    for entry in base.db.snapshot().range(&base.index, from..to) {
        let key = entry.key()?;
        let Some((_, slot)) = read_index_key(&key) else {
            continue;
        };
        let value = match base.records.get(slot.as_bytes()) {
            Ok(Some(kept)) => Value::read(kept).map_err(|error| unreadable(slot, error)),
            Ok(None) => continue,
            // A claim that a disk withholds for a moment would stay a claim for good.
            Err(error) if io_cause(&error).is_some() => return Err(error),
            Err(error) => Err(unreadable(slot, error)),
        };
        match value {
            Ok(value) if value.state() == StateName::Claimed => claims.push((slot, value)),
            Ok(_) => {}
            // It stays unreadable for whoever asks, which repeats nothing.
            Err(error) => tracing::error!(%error, "a claim cannot be read"),
        }
    }
    Ok(claims)
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
