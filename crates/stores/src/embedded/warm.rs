//! A database that stays open from one schedule to the next: opening one takes far longer than a
//! schedule, and what is tried here is who does what when, not what lies in files.
//!
//! The schedules of one test run on one thread of the machine, one after the other.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use onceward::Timestamp;
use onceward::clock::{Clock, GuardedClock};
use shuttle::rand::Rng as _;

use super::base::{Base, open_error};
use super::head::Head;
use super::journal::{Mark, Place};
use super::layout::Folder;
use super::start::Started;
use crate::OpenError;

thread_local! {
    static WARM: RefCell<Option<(PathBuf, Base)>> = const { RefCell::new(None) };
}

/// Keeps the database of `started` open.
pub(super) fn keep(folder: &Folder, started: &Started) {
    let kept = (folder.path().to_owned(), clone(&started.base));
    WARM.set(Some(kept));
}

/// Starts with the database that is open, if there is one.
pub(super) fn started(
    folder: &Folder,
    sync: bool,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Started>, OpenError> {
    let Some((base, place, mark)) = found(folder)? else {
        return Ok(None);
    };
    let clock = GuardedClock::new(Arc::clone(clock), mark.stamp);
    let head = Head {
        epoch: 1,
        sequence: mark.sequence,
        stamp: mark.stamp,
        claims: clock.now(),
        swept: Timestamp::ZERO,
        journal: place.journal(),
        length: place.length(),
        synced: sync,
    };
    Ok(Some(Started {
        base,
        clock,
        head,
        place,
        mark,
    }))
}

/// Finds the database again after a failure. Now and then the disk is away for longer.
pub(super) fn recovered(folder: &Folder) -> Result<Option<(Base, Place, Mark)>, OpenError> {
    let found = found(folder)?;
    if found.is_some() && shuttle::rand::thread_rng().gen_ratio(1, 3) {
        let away = io::Error::other("the disk is away");
        return Err(OpenError::io(folder.path(), away));
    }
    Ok(found)
}

fn found(folder: &Folder) -> Result<Option<(Base, Place, Mark)>, OpenError> {
    let path = folder.path();
    let Some(base) = WARM.with_borrow(|warm| {
        let (at, base) = warm.as_ref()?;
        (at == path).then(|| clone(base))
    }) else {
        return Ok(None);
    };
    let [records, index] = base.marks().map_err(|error| open_error(path, error))?;
    assert_eq!(records, index, "a batch is in one keyspace only");
    let mark = records.expect("a store begins with a batch");
    Ok(Some((base, Place::new(&folder.data(), 0, 0), mark)))
}

fn clone(base: &Base) -> Base {
    Base {
        db: base.db.clone(),
        records: base.records.clone(),
        index: base.index.clone(),
    }
}
