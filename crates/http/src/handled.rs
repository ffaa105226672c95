//! What became of a request.

use onceward::SlotId;

/// What became of a request, for logs: in the extensions of its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handled {
    /// A word for it: `passed`, `original`, `replay`, or the name of a problem.
    pub outcome: &'static str,
    /// The slot, which is a keyed digest of caller, operation and key.
    pub slot: Option<SlotId>,
    /// Which attempt was executed; 0 if none was.
    pub attempt: u32,
}

// === impl Handled ===

impl Handled {
    pub(crate) fn original(slot: SlotId, attempt: u32) -> Self {
        Self {
            outcome: "original",
            slot: Some(slot),
            attempt,
        }
    }
}
