//! The service behind: it does the work, and keeps a ledger of what it did.

use std::collections::HashMap;
use std::sync::Arc;

use onceward::{Effect, Fence, SlotId};
use parking_lot::Mutex;

use super::Recorder;

/// A payments service of the class that the lab's work is declared to have.
#[derive(Debug)]
pub struct Service {
    recorder: Arc<Recorder>,
    effect: Effect,
    accounts: Mutex<HashMap<SlotId, Account>>,
}

#[derive(Debug, Default)]
struct Account {
    /// The receipts of the charges that were accepted.
    receipts: Vec<String>,
    /// The highest fence seen: older ones are refused where the class says so.
    fence: Option<Fence>,
}

/// The service refused to do the work.
#[derive(Debug, thiserror::Error)]
#[error("an older fence is refused")]
pub struct Refused;

// === impl Service ===

impl Service {
    pub(super) fn new(recorder: Arc<Recorder>, effect: Effect) -> Self {
        Self {
            recorder,
            effect,
            accounts: Mutex::default(),
        }
    }

    /// Charges, as a service of this class does, and returns the receipt.
    ///
    /// A keyed service repeats its first receipt; a probed one refuses fences older than the
    /// newest it has seen and charges once; an opaque one charges whenever it is asked.
    /// `payload` is what the caller brought, for the ledger.
    pub fn charge(
        &self,
        slot: SlotId,
        fence: Fence,
        payload: Option<Arc<str>>,
    ) -> Result<String, Refused> {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(slot).or_default();
        if self.effect == Effect::Probed && account.fence.is_some_and(|seen| fence < seen) {
            return Err(Refused);
        }
        account.fence = account.fence.max(Some(fence));
        let repeats = matches!(self.effect, Effect::Keyed | Effect::Probed);
        if let Some(first) = account.receipts.first().filter(|_| repeats) {
            return Ok(first.clone());
        }
        let receipt = format!("{slot}-{}", account.receipts.len());
        account.receipts.push(receipt.clone());
        self.recorder.accepted(slot, fence, payload, &receipt);
        Ok(receipt)
    }

    /// How often the service charged for `slot`.
    pub fn charges(&self, slot: SlotId) -> usize {
        let accounts = self.accounts.lock();
        accounts.get(&slot).map_or(0, |it| it.receipts.len())
    }
}
