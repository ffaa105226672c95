//! Salvage: every record of a database that may have holes.

use std::ops::Bound;

use fjall::{Iter, Readable as _, UserValue};
use onceward::SlotId;

use super::Repaired;
use crate::OpenError;
use crate::embedded::base::Base;

/// Slots that begin with these bytes are read together; a stretch that fails is split by another
/// byte until it is this long. A hole then costs what shares its block, and little else.
const PREFIX_MAX: usize = 4;

/// How many slots may be kept in memory.
const SLOTS_AT_ONCE: usize = 1 << 20;

type Sift<'a> =
    &'a mut dyn FnMut(&mut Repaired, SlotId, Option<UserValue>) -> Result<(), OpenError>;

/// Hands every slot to `sift`: with what it holds, or with nothing where that cannot be read.
pub(super) fn salvage(
    base: &Base,
    repaired: &mut Repaired,
    sift: Sift<'_>,
) -> Result<(), OpenError> {
    stretch(base, &mut Vec::new(), repaired, sift)
}

/// Reads the slots that begin with `prefix`.
fn stretch(
    base: &Base,
    prefix: &mut Vec<u8>,
    repaired: &mut Repaired,
    sift: Sift<'_>,
) -> Result<(), OpenError> {
    // The slots of a stretch are kept in memory until its last block was read.
    if prefix.len() >= 2 || base.records.approximate_len() <= SLOTS_AT_ONCE {
        if let Some(slots) = slots(base, prefix) {
            for slot in slots {
                let kept = base.records.get(slot.as_bytes()).ok().flatten();
                sift(repaired, slot, kept)?;
            }
            return Ok(());
        }
        if prefix.len() == PREFIX_MAX {
            repaired.unreadable += 1;
            return Ok(());
        }
    }
    for byte in 0..=u8::MAX {
        prefix.push(byte);
        stretch(base, prefix, repaired, sift)?;
        prefix.pop();
    }
    Ok(())
}

/// The slots that begin with `prefix`, or `None` if some of them cannot be read.
fn slots(base: &Base, prefix: &[u8]) -> Option<Vec<SlotId>> {
    let mut slots = Vec::new();
    for entry in range(base, prefix) {
        let key = entry.key().ok()?;
        // The mark of the last batch is no record.
        let slot = <[u8; SlotId::LEN]>::try_from(&*key);
        slots.extend(slot.ok().map(SlotId::from_bytes));
    }
    Some(slots)
}

fn range(base: &Base, prefix: &[u8]) -> Iter {
    let mut last = prefix.to_vec();
    last.resize(SlotId::LEN, u8::MAX);
    let bounds = (Bound::Included(prefix), Bound::Included(&*last));
    base.db.snapshot().range::<&[u8], _>(&base.records, bounds)
}
