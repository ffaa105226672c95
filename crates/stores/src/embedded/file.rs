//! Filing: what the journals say is put into the database's tables, all at once and in order.

use std::sync::Arc;

use onceward::BoxError;

use super::base::{Base, Part};
use super::board::Unfiled;
use super::journal::{Mark, pen};
use super::shared::Shared;
use super::sweep::Cursor;
use super::value::{Index, IndexKey, Value};
use crate::sync::thread::{self, JoinHandle};

/// What is to be filed beside what is on the board.
#[derive(Debug)]
pub(super) struct Order {
    /// The journal that begins behind all that is filed.
    pub(super) journal: u64,
    /// The last batch before that.
    pub(super) mark: Mark,
    /// The database's number of the batch after that, at the least.
    pub(super) seqno: u64,
    /// Entries of the index that went, and lists of claims that came.
    pub(super) gone: Vec<IndexKey>,
    pub(super) lists: Vec<(IndexKey, Vec<u8>)>,
}

/// What came of an [`Order`].
#[derive(Debug)]
pub(super) struct Done {
    /// The first entries of what expires, and of what is a matter for the protocol, that the index
    /// had not before.
    pub(super) first: [Option<Cursor>; 2],
}

/// A thread that files, while there is something to file.
#[derive(Debug, Default)]
pub(super) struct Filer(Option<JoinHandle<Result<Done, BoxError>>>);

/// More numbers than filing takes.
const NUMBERS: u64 = 1 << 10;

// === impl Filer ===

impl Filer {
    /// Carries out an order, on a thread of its own.
    pub(super) fn start(&mut self, shared: &Arc<Shared>, order: Order) -> std::io::Result<()> {
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new()
            .name("onceward-filer".to_owned())
            .spawn(move || file(&shared, &order))?;
        self.0 = Some(thread);
        Ok(())
    }

    /// What came of the order that is carried out, if that is over or is to be waited for.
    pub(super) fn result(&mut self, waits: bool) -> Option<Result<Done, BoxError>> {
        let thread = self.0.take_if(|thread| waits || is_finished(thread))?;
        let result = thread.join();
        Some(result.unwrap_or_else(|_| Err("the database panicked".into())))
    }
}

fn is_finished<T>(thread: &JoinHandle<T>) -> bool {
    #[cfg(onceward_shuttle)]
    return {
        let _ = thread;
        true
    };
    #[cfg(not(onceward_shuttle))]
    thread.is_finished()
}

/// Has the database put all that it has in memory into tables. Nothing in the journals is needed
/// then.
pub(super) fn flush(base: &Base, mark: Mark) -> fjall::Result<()> {
    file_records(base, &[], mark)?;
    file_index(base, &[], mark)
}

/// Puts everything that is on the board into tables, and removes the journals that said it.
fn file(shared: &Shared, order: &Order) -> Result<Done, BoxError> {
    let base = shared.base.read();
    let base = base.as_ref().ok_or("the store is not open")?;
    base.wait_for_room()?;
    shared.disk.filing()?;
    // What is written meanwhile has greater numbers than this, and has to have greater ones than the
    // tables: a database that is opened passes over the rest.
    if base.db.seqno() + NUMBERS > order.seqno {
        return Err("the database has run out of numbers for its tables".into());
    }
    let unfiled = shared.board.take_unfiled();
    if !shared.sync {
        // Some of it is in the new journal, and what is in tables survives a power loss.
        pen::sync(&shared.folder.data(), order.journal)?;
    }
    let index = index(&unfiled, order);
    let first = [Index::Expiry, Index::Chores].map(|kind| {
        let mut there = index.iter().filter(|(_, value)| value.is_some());
        let found = there.find(|(key, _)| key[0] == kind as u8);
        found.map(|(key, _)| Cursor::to(*key))
    });
    file_records(base, &unfiled, order.mark)?;
    file_index(base, &index, order.mark)?;
    shared.disk.filed()?;
    shared.board.filed(&unfiled);
    shared.looks.set_large(base.len() >= shared.large);
    pen::remove_before(&shared.folder.data(), order.journal)?;
    base.check()?;
    Ok(Done { first })
}

/// What becomes of entries of the index, in their order: what is under a key from now on, or `None`
/// where nothing is.
fn index<'a>(unfiled: &[Unfiled], order: &'a Order) -> Vec<(IndexKey, Option<&'a [u8]>)> {
    let mut index = Vec::with_capacity(unfiled.len() + order.gone.len() + order.lists.len());
    index.extend(order.gone.iter().map(|key| (*key, None)));
    let lists = order.lists.iter();
    index.extend(lists.map(|(key, list)| (*key, Some(list.as_slice()))));
    for Unfiled { slot, value, under } in unfiled {
        index.extend(under.map(|key| (key, None)));
        let key = value.as_ref().and_then(|value| value.index_key(*slot));
        index.extend(key.map(|key| (key, Some(&[][..]))));
    }
    index.sort_unstable();
    // What went and came is there, and stands behind what went.
    index.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            earlier.1 = later.1;
        }
        is_same
    });
    index
}

fn file_records(base: &Base, unfiled: &[Unfiled], mark: Mark) -> fjall::Result<()> {
    let mut ingestion = base.part(Part::Records).start_ingestion()?;
    let mut mark = Some(mark.to_bytes());
    for Unfiled { slot, value, .. } in unfiled {
        if slot.as_bytes()[..] > *Mark::KEY
            && let Some(mark) = mark.take()
        {
            ingestion.write(Mark::KEY, mark)?;
        }
        match value.as_ref().map(Value::kept) {
            Some(kept) => ingestion.write(*slot.as_bytes(), kept)?,
            None => ingestion.write_tombstone(*slot.as_bytes())?,
        }
    }
    if let Some(mark) = mark {
        ingestion.write(Mark::KEY, mark)?;
    }
    ingestion.finish()
}

fn file_index(base: &Base, index: &[(IndexKey, Option<&[u8]>)], mark: Mark) -> fjall::Result<()> {
    let mut ingestion = base.part(Part::Index).start_ingestion()?;
    // Shorter than any other key, and before them all.
    ingestion.write(Mark::KEY, mark.to_bytes())?;
    for (key, value) in index {
        match value {
            Some(value) => ingestion.write(*key, *value)?,
            None => ingestion.write_tombstone(*key)?,
        }
    }
    ingestion.finish()
}

#[cfg(test)]
mod tests {
    use onceward::Timestamp;

    use super::*;

    #[test]
    fn what_went_and_came_is_there_and_the_rest_is_gone() {
        let [first, second, third] = [1, 2, 3].map(|byte| [byte; 41]);
        let order = Order {
            journal: 1,
            mark: Mark {
                sequence: 1,
                stamp: Timestamp::ZERO,
            },
            seqno: 1,
            gone: vec![third, second, first],
            lists: vec![(second, vec![7])],
        };
        let expected = [(first, None), (second, Some(&[7][..])), (third, None)];
        assert_eq!(index(&[], &order), expected);
    }
}
