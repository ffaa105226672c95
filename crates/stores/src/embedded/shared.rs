//! What the threads of a store share.

use std::sync::Arc;

use onceward::SlotId;
use onceward::clock::{Clock, GuardedClock};
use tokio::sync::broadcast;

use super::base::Base;
use super::board::Board;
use super::couriers::Couriers;
use super::disk::{Disk, Reserve};
use super::intake::Intake;
use super::layout::Folder;
use super::looks::Looks;
use super::recent::Recent;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, RwLock};

/// What the threads of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) folder: Folder,
    /// The database, while it is open.
    pub(super) base: RwLock<Option<Base>>,
    pub(super) clock: GuardedClock,
    pub(super) machine: Arc<dyn Clock>,
    pub(super) board: Board,
    pub(super) intake: Intake,
    pub(super) recent: Recent,
    pub(super) couriers: Couriers,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) reserve: Reserve,
    pub(super) sync: bool,
    /// How much is written to a journal before what it says is filed.
    pub(super) journal: u64,
    /// So many records are too many for their filters to be in memory for certain.
    pub(super) large: usize,
    /// Who wants to know what changed, until the store is closed.
    pub(super) changes: Mutex<Option<broadcast::Sender<SlotId>>>,
    /// Somebody listens. Cheaper to ask than the channel is, on every batch.
    pub(super) is_watched: AtomicBool,
    pub(super) looks: Looks,
    pub(super) is_down: AtomicBool,
    pub(super) is_closing: AtomicBool,
}

// === impl Shared ===

impl Shared {
    /// Gives hints to those who watch.
    pub(super) fn changed(&self, slots: impl Iterator<Item = SlotId>) {
        if !self.is_watched.load(Ordering::Relaxed) {
            return;
        }
        if let Some(changes) = &*self.changes.lock() {
            for slot in slots {
                // A watcher that is gone is no error: hints are for those who listen.
                let _ = changes.send(slot);
            }
        }
    }

    /// Ends the streams of those who watch.
    pub(super) fn hush(&self) {
        self.changes.lock().take();
    }
}
