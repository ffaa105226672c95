//! Rows: what a statement said of each slot.

use bytes::Bytes;
use onceward::{BoxError, Fence, SlotId};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use super::queue::{Kind, Raw};
use super::trouble::Trouble;
use crate::reckon::timestamp;

/// What a statement said, in the order of slots.
#[derive(Debug, Default)]
pub(super) struct Told {
    slots: Vec<(SlotId, Said)>,
    /// The server's clock, if anything was said at all.
    pub(super) raw: Option<i64>,
}

/// What was said of a slot.
#[derive(Debug)]
pub(super) enum Said {
    /// The write happened at this time.
    Done(i64),
    /// The slot was taken by this, and nothing was written.
    Taken(Raw),
    /// This is there, and nothing was written so far.
    There(Option<(Fence, Raw)>),
}

/// A slot as the table has it. The table itself takes names of any length: a CHECK
/// would be compiled anew by each statement, which a lone write would feel.
struct Name(SlotId);

// === impl Told ===

impl Told {
    /// Reads the rows of a statement of this kind.
    pub(super) fn read(kind: Kind, rows: &[Row]) -> Result<Self, Trouble> {
        let read = |row| match kind {
            Kind::Insert => inserted(row),
            Kind::Replace | Kind::Remove => swapped(row),
            Kind::Get => found(row),
        };
        let mut told = Self::default();
        for row in rows {
            let (slot, said, raw) = read(row).map_err(|error| Trouble::of(&error))?;
            // The latest is the nearest to now.
            told.raw = told.raw.max(Some(raw));
            told.slots.push((slot, said));
        }
        told.sort();
        Ok(told)
    }

    /// Puts what was learned later to it.
    pub(super) fn add(&mut self, later: Self) {
        self.raw = self.raw.max(later.raw);
        self.slots.extend(later.slots);
        self.sort();
    }

    /// A slot whose former record went away in mid-statement was both found and filled: what was
    /// done counts, and stands first.
    fn sort(&mut self) {
        let is_done = |said: &Said| matches!(said, Said::Done(_));
        self.slots
            .sort_by_key(|(slot, said)| (*slot, !is_done(said)));
        self.slots.dedup_by_key(|(slot, _)| *slot);
    }

    /// What was said of a slot.
    pub(super) fn of(&self, slot: SlotId) -> Option<&Said> {
        let at = self.slots.binary_search_by_key(&slot, |(slot, _)| *slot);
        at.ok().map(|at| &self.slots[at].1)
    }

    /// Whether it tells of anything that others wrote.
    pub(super) fn tells_of_others(&self) -> bool {
        let is_done = |said: &Said| matches!(said, Said::Done(_));
        self.slots.iter().any(|(_, said)| !is_done(said))
    }

    /// Forgets everything but what was done.
    pub(super) fn keep_done(&mut self) {
        self.slots.retain(|(_, said)| matches!(said, Said::Done(_)));
    }

    /// Whether anything was said of a slot.
    pub(super) fn knows(&self, slot: SlotId) -> bool {
        self.of(slot).is_some()
    }

    /// The slots that were written.
    pub(super) fn done(&self) -> impl Iterator<Item = SlotId> + '_ {
        let done = self.slots.iter();
        let done = done.filter(|(_, said)| matches!(said, Said::Done(_)));
        done.map(|(slot, _)| *slot)
    }
}

type Read = Result<(SlotId, Said, i64), tokio_postgres::Error>;

/// `slot`, `written`, `record` where it was there already, `raw`.
fn inserted(row: &Row) -> Read {
    let written = row.try_get(1)?;
    let said = match row.try_get::<_, Option<&[u8]>>(2)? {
        None => Said::Done(written),
        Some(record) => Said::Taken(raw(written, record)),
    };
    Ok((slot(row, 0)?, said, row.try_get(3)?))
}

/// `slot`, `written`, `raw`.
fn swapped(row: &Row) -> Read {
    Ok((slot(row, 0)?, Said::Done(row.try_get(1)?), row.try_get(2)?))
}

/// `slot`, `fence`, `written`, `record`, `raw`.
fn found(row: &Row) -> Read {
    let there = match row.try_get::<_, Option<Uuid>>(1)? {
        None => None,
        Some(fence) => {
            let fence = Fence::from_bits(fence.as_u128());
            Some((fence, raw(row.try_get(2)?, row.try_get(3)?)))
        }
    };
    Ok((slot(row, 0)?, Said::There(there), row.try_get(4)?))
}

fn raw(written: i64, record: &[u8]) -> Raw {
    Raw {
        written: timestamp(written),
        bytes: Bytes::copy_from_slice(record),
    }
}

/// The slot in a column.
pub(super) fn slot(row: &Row, column: usize) -> Result<SlotId, tokio_postgres::Error> {
    let Name(slot) = row.try_get(column)?;
    Ok(slot)
}

// === impl Name ===

impl<'a> FromSql<'a> for Name {
    fn from_sql(kind: &Type, bytes: &'a [u8]) -> Result<Self, BoxError> {
        let bytes = <&[u8]>::from_sql(kind, bytes)?;
        let bytes = bytes.try_into().map_err(|_| "not the length of a slot")?;
        Ok(Self(SlotId::from_bytes(bytes)))
    }

    fn accepts(kind: &Type) -> bool {
        <&[u8]>::accepts(kind)
    }
}
