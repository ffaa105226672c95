//! The scanner on journals that stand in memory, for tests from outside.

use super::{Promise, Scan};

/// What a scan found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scanned {
    /// The number of the newest journal.
    pub journal: u64,
    /// Where its last whole batch ends.
    pub end: u64,
    /// How many bytes behind that are to be cut.
    pub torn: u64,
    /// The whole batches, oldest first.
    pub batches: Vec<Found>,
}

/// One whole batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Its number.
    pub sequence: u64,
    /// Its writes: keyspace, key, and value unless the key was removed.
    pub items: Vec<(u64, Vec<u8>, Option<Vec<u8>>)>,
}

/// Reads journals, numbered from 0, the way a store does before it opens. `promise` is what HEAD
/// says: a journal, how many bytes of it were acknowledged, and whether each batch was synced.
pub fn scan(journals: &[&[u8]], promise: Option<(u64, u64, bool)>) -> Result<Scanned, String> {
    let promise = promise.map(|(journal, length, synced)| Promise {
        journal,
        length,
        synced,
    });
    let newest = journals.len().saturating_sub(1) as u64;
    let mut scan = Scan::before(0, newest);
    let mut seqno = None;
    let mut batches = Vec::new();
    for (id, bytes) in (0..).zip(journals) {
        scan.take(id, bytes, promise, &mut seqno, &mut |batch| {
            let items = batch.items.iter();
            batches.push(Found {
                sequence: batch.mark.sequence,
                items: items
                    .map(|it| (it.keyspace, it.key.to_vec(), it.value.map(<[u8]>::to_vec)))
                    .collect(),
            });
        })
        .map_err(|flaw| flaw.to_string())?;
    }
    Ok(Scanned {
        journal: scan.journal,
        end: scan.end,
        torn: scan.torn,
        batches,
    })
}
