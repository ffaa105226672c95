//! Starting: from a locked folder to a database that holds everything that was acknowledged.

use std::io;
use std::path::Path;
use std::sync::Arc;

use onceward::Timestamp;
use onceward::bugs::{Bug, seeded};
use onceward::clock::{Clock, GuardedClock};

use super::base::{Base, open_error};
use super::batch::Batch;
use super::claims::{claims_since, list_key, unsettle};
use super::file::flush;
use super::head::{Head, Unusable};
use super::journal::{Flaw, Mark, Place, Promise, Scan, pen};
use super::layout::{
    Contents, Folder, Purpose, check_database, refuse_half_repaired, sync_folders,
};
use crate::OpenError;

/// A store that may serve.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) base: Base,
    pub(super) clock: GuardedClock,
    /// What HEAD says.
    pub(super) head: Head,
    pub(super) place: Place,
    pub(super) mark: Mark,
}

/// How many claims of an earlier run are dealt with in one batch.
const UNSETTLED_AT_ONCE: usize = 1024;

// === impl Started ===

impl Started {
    /// Opens what is in the folder, or creates a store there.
    pub(super) fn new(
        folder: &Folder,
        sync: bool,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        #[cfg(onceward_shuttle)]
        if let Some(started) = super::warm::started(folder, sync, &clock)? {
            return Ok(started);
        }
        let mut started = match folder.contents()? {
            Contents::Nothing => {
                refuse_half_repaired(folder.path())?;
                Self::create(folder, sync, clock, Mark::FIRST, 0)?
            }
            Contents::Store => Self::resume(folder, clock)?,
        };
        // The epoch is on disk before anything is served, so that no two runs share one.
        started.head.epoch += 1;
        started.head.synced = sync;
        started.unsettle_claims(folder)?;
        started.keep_head(folder)?;
        #[cfg(onceward_shuttle)]
        super::warm::keep(folder, &started);
        Ok(started)
    }

    /// Creates an empty store whose first batch is `mark`.
    pub(super) fn create(
        folder: &Folder,
        sync: bool,
        clock: Arc<dyn Clock>,
        mark: Mark,
        epoch: u64,
    ) -> Result<Self, OpenError> {
        let failed = |source| OpenError::io(folder.path(), source);
        folder.begin().map_err(failed)?;
        let base = Base::open(&folder.data(), folder.path())?;
        let clock = GuardedClock::new(clock, mark.stamp);
        let mark = Mark {
            stamp: clock.now(),
            ..mark
        };
        let length = Batch::default()
            .commit(&base, mark, true)
            .map_err(|error| open_error(folder.path(), error))?;
        sync_folders(&folder.data()).map_err(failed)?;
        let place = Place::new(&folder.data(), 0, length);
        let head = Head {
            epoch,
            sequence: mark.sequence,
            stamp: mark.stamp,
            claims: Timestamp::ZERO,
            swept: Timestamp::ZERO,
            journal: place.journal(),
            length,
            synced: sync,
        };
        head.write(folder.path()).map_err(failed)?;
        folder.complete().map_err(failed)?;
        Ok(Self {
            base,
            clock,
            head,
            place,
            mark,
        })
    }

    fn resume(folder: &Folder, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let head = read_head(folder.path())?;
        let (base, place, mark) = recover(folder, &head)?;
        Ok(Self {
            base,
            clock: GuardedClock::new(clock, head.stamp.max(mark.stamp)),
            head,
            place,
            mark,
        })
    }

    /// Nobody holds the claims of an earlier run any more.
    fn unsettle_claims(&mut self, folder: &Folder) -> Result<(), OpenError> {
        let failed = |error| open_error(folder.path(), error);
        let listed = claims_since(&self.base, self.head.claims).map_err(failed)?;
        let (mut claims, mut lists) = (listed.claims, listed.lists);
        if !claims.is_empty() {
            tracing::info!(
                claims = claims.len(),
                "claims of an earlier run are unknown now"
            );
        }
        let mut batch = Batch::default();
        while !claims.is_empty() || !lists.is_empty() {
            let now = self.clock.now();
            let some = claims.split_off(claims.len().saturating_sub(UNSETTLED_AT_ONCE));
            for (slot, claim, _) in some {
                unsettle(&mut batch, slot, &claim, now);
            }
            // Only with the last of the claims on them: a crash before that needs them again.
            if claims.is_empty() {
                let some = lists.split_off(lists.len().saturating_sub(UNSETTLED_AT_ONCE));
                for list in some {
                    batch.drop_stale(list_key(list));
                }
            }
            self.mark = self.mark.next(now);
            self.base.wait_for_room().map_err(failed)?;
            // Synced whatever the mode: HEAD still speaks for the run before.
            let len = batch.commit(&self.base, self.mark, true).map_err(failed)?;
            batch.clear();
            let advanced = self.place.advance(len);
            advanced.map_err(|source| OpenError::io(folder.path(), source))?;
        }
        Ok(())
    }

    fn keep_head(&mut self, folder: &Folder) -> Result<(), OpenError> {
        let now = self.clock.now();
        self.head = Head {
            sequence: self.mark.sequence,
            stamp: now,
            claims: now,
            journal: self.place.journal(),
            length: self.place.length(),
            ..self.head
        };
        let written = self.head.write(folder.path());
        written.map_err(|source| OpenError::io(folder.path(), source))
    }
}

// === impl Mark ===

impl Mark {
    const FIRST: Self = Self {
        sequence: 1,
        stamp: Timestamp::ZERO,
    };

    /// The mark of the batch after this one.
    pub(super) fn next(self, now: Timestamp) -> Self {
        Self {
            sequence: self.sequence + 1,
            stamp: now,
        }
    }
}

/// Opens the database and sees to it that nothing is missing of what `head` promises.
pub(super) fn recover(folder: &Folder, head: &Head) -> Result<(Base, Place, Mark), OpenError> {
    #[cfg(onceward_shuttle)]
    if let Some(recovered) = super::warm::recovered(folder)? {
        return Ok(recovered);
    }
    let path = folder.path();
    let failed = |source| OpenError::io(path, source);
    let data = folder.data();
    check_database(&data, Purpose::Serving)
        .map_err(failed)?
        .map_err(|what| OpenError::damaged(path, what))?;
    let promise = Promise {
        journal: head.journal,
        length: head.length,
        synced: head.synced,
    };
    let promised = Some(promise).filter(|_| !seeded(Bug::ShortfallIgnored));
    let scan = Scan::of(&data, promised, |_| {}).map_err(|flaw| match flaw {
        // A file that is not there is damage; a disk that does not answer now may do so later.
        Flaw::Io(error) if error.kind() != io::ErrorKind::NotFound => failed(error),
        flaw => OpenError::damaged(path, flaw.to_string()),
    })?;
    if scan.torn > 0 {
        let Scan { journal, torn, .. } = scan;
        tracing::warn!(journal, bytes = torn, "an unfinished batch was cut");
    }
    scan.settle(&data, promise).map_err(failed)?;
    // While a worker writes older journals to tables, nobody can tell what was there. With the
    // first journal in place there is nothing to ask.
    if 0 < scan.oldest && scan.oldest < scan.journal {
        no_hole(&Base::open_still(&data, path)?, &scan, path)?;
    }
    let mut base = Base::open(&data, path)?;
    if scan.oldest == scan.journal {
        no_hole(&base, &scan, path)?;
    }
    let mark = complete_up_to(&base, &scan, head, path)?;
    if scan.oldest < scan.journal {
        // Filing was interrupted. From here on journals are removed by us, and not by the database,
        // which would look for those it has read.
        flush(&base, mark).map_err(|error| open_error(path, error))?;
        drop(base);
        pen::remove_before(&data, scan.journal).map_err(failed)?;
        base = Base::open(&data, path)?;
    }
    let place = Place::new(&data, scan.journal, scan.end);
    Ok((base, place, mark))
}

/// Sees to it that the journals begin where the tables end: an older one may be missing.
fn no_hole(base: &Base, scan: &Scan, path: &Path) -> Result<(), OpenError> {
    let tabled = base.tabled().map_err(|error| open_error(path, error))?;
    match tabled.into_iter().any(|mark| scan.has_hole_before(mark)) {
        false => Ok(()),
        true => {
            let what = Flaw::Missing(scan.oldest.saturating_sub(1)).to_string();
            Err(OpenError::damaged(path, what))
        }
    }
}

/// The last batch, which has to be the same in every keyspace and in the journals.
fn complete_up_to(base: &Base, scan: &Scan, head: &Head, path: &Path) -> Result<Mark, OpenError> {
    let [records, index] = base.marks().map_err(|error| open_error(path, error))?;
    let (Some(records), Some(index)) = (records, index) else {
        return Err(OpenError::damaged(path, "a keyspace is empty"));
    };
    let tabled = base.tabled().map_err(|error| open_error(path, error))?;
    let beyond = tabled.into_iter().flatten().max_by_key(|it| it.sequence);
    let found = records.sequence.min(index.sequence);
    if found < head.sequence && !seeded(Bug::ShortfallIgnored) {
        return Err(OpenError::AcknowledgedMissing {
            path: path.into(),
            found,
            acknowledged: head.sequence,
        });
    }
    let is_behind = beyond.is_some_and(|beyond| beyond.sequence > found);
    if records != index || scan.last.is_some_and(|last| last != records) || is_behind {
        let [one, other] = match beyond.filter(|_| is_behind) {
            Some(beyond) => [beyond, records],
            None => [records, index],
        };
        let what = format!(
            "its keyspaces end at batches {} and {}",
            one.sequence, other.sequence
        );
        return Err(OpenError::damaged(path, what));
    }
    Ok(records)
}

fn read_head(path: &Path) -> Result<Head, OpenError> {
    Head::read(path).map_err(|unusable| match unusable {
        Unusable::Io(source) => OpenError::io(path, source),
        Unusable::Damaged => OpenError::damaged(path, "HEAD is missing or cannot be read"),
        Unusable::Newer { found } => OpenError::Newer {
            path: path.into(),
            found,
            known: 1,
        },
    })
}
