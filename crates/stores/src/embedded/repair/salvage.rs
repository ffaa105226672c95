//! Salvage: every record of a database that may have holes.

use std::ops::RangeInclusive;

use fjall::{Iter, Readable as _, UserValue};
use onceward::SlotId;

use super::Repaired;
use crate::OpenError;
use crate::embedded::base::Base;

/// How often a stretch that can be read from neither end is halved before it is given up. Sound
/// blocks between two bad ones are found that way, and a hole costs a hundred reads at most.
const HALVINGS: u32 = 6;

type Key = [u8; SlotId::LEN];
type Sift<'a> =
    &'a mut dyn FnMut(&mut Repaired, SlotId, Option<UserValue>) -> Result<(), OpenError>;

/// How far a stretch could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// To its other end.
    All,
    /// Up to and including this slot, if there was one at all.
    To(Option<Key>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Up,
    Down,
}

/// Hands every slot to `sift`: with what it holds, or with nothing where that cannot be read.
pub(super) fn salvage(
    base: &Base,
    repaired: &mut Repaired,
    sift: Sift<'_>,
) -> Result<(), OpenError> {
    let all = [u8::MIN; SlotId::LEN]..=[u8::MAX; SlotId::LEN];
    stretch(base, all, HALVINGS, repaired, sift)
}

/// Reads a stretch of slots from both ends, and then by halves what lies between two errors.
fn stretch(
    base: &Base,
    keys: RangeInclusive<Key>,
    halvings: u32,
    repaired: &mut Repaired,
    sift: Sift<'_>,
) -> Result<(), OpenError> {
    let (mut first, mut last) = keys.into_inner();
    let Reach::To(low) = read(base, &first, &last, Way::Up, repaired, sift)? else {
        return Ok(());
    };
    if low == Some(last) {
        repaired.unreadable += 1;
        return Ok(());
    }
    first = low.map_or(first, after);
    let Reach::To(high) = read(base, &first, &last, Way::Down, repaired, sift)? else {
        // Whatever was in the way upwards had no slots behind it: nobody knows what it held.
        repaired.unreadable += 1;
        return Ok(());
    };
    if high == Some(first) {
        repaired.unreadable += 1;
        return Ok(());
    }
    last = high.map_or(last, before);
    // A stretch that gave something is smaller now, and deserves another look.
    let halvings = match low.or(high) {
        Some(_) => HALVINGS,
        None => halvings,
    };
    let (Some(left), Some(halvings)) = (middle(&first, &last), halvings.checked_sub(1)) else {
        repaired.unreadable += 1;
        return Ok(());
    };
    let right = after(left);
    stretch(base, first..=left, halvings, repaired, sift)?;
    stretch(base, right..=last, halvings, repaired, sift)
}

/// Hands on what can be read before the first error.
fn read(
    base: &Base,
    first: &Key,
    last: &Key,
    way: Way,
    repaired: &mut Repaired,
    sift: Sift<'_>,
) -> Result<Reach, OpenError> {
    let mut reached = None;
    if first > last {
        return Ok(Reach::All);
    }
    let mut entries = range(base, first, last);
    loop {
        let next = match way {
            Way::Up => entries.next(),
            Way::Down => entries.next_back(),
        };
        let Some(entry) = next else {
            return Ok(Reach::All);
        };
        let Ok(key) = entry.key() else {
            return Ok(Reach::To(reached));
        };
        // The mark of the last batch is no record.
        let Ok(key) = Key::try_from(&*key) else {
            continue;
        };
        reached = Some(key);
        let slot = SlotId::from_bytes(key);
        let kept = base.kept(slot).and_then(Result::ok).flatten();
        sift(repaired, slot, kept)?;
    }
}

fn range(base: &Base, first: &Key, last: &Key) -> Iter {
    let bounds = first.as_slice()..=last.as_slice();
    base.db.snapshot().range::<&[u8], _>(&base.records, bounds)
}

/// The last key of the lower half; `None` if the two are too close to be told apart.
fn middle(first: &Key, last: &Key) -> Option<Key> {
    let (low, high) = (upper(first), upper(last));
    let middle = low + high.checked_sub(low).filter(|gap| *gap > 0)? / 2;
    let mut key = [u8::MAX; SlotId::LEN];
    key[..16].copy_from_slice(&middle.to_be_bytes());
    Some(key)
}

fn upper(key: &Key) -> u128 {
    key.first_chunk().map_or(0, |it| u128::from_be_bytes(*it))
}

/// The key after `key`, which is not the last one.
fn after(mut key: Key) -> Key {
    for byte in key.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    key
}

/// The key before `key`, which is not the first one.
fn before(mut key: Key) -> Key {
    for byte in key.iter_mut().rev() {
        *byte = byte.wrapping_sub(1);
        if *byte != u8::MAX {
            break;
        }
    }
    key
}
