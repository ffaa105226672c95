//! The moves of the protocol, for whoever checks them from outside: the ones that ship.

use crate::record::{Note, Point};
use crate::{Arrival, Fence, Outcome, Record};

/// A first claim of an empty slot.
pub fn claimed(arrival: &Arrival, fence: Fence) -> Record {
    Record::claimed(arrival, fence)
}

/// A first claim over an expired or open record.
pub fn claimed_over(found: &Record, arrival: &Arrival, fence: Fence) -> Record {
    found.claimed_over(arrival, fence)
}

/// A claim over a silent holder.
pub fn taken_over(found: &Record, arrival: &Arrival, fence: Fence) -> Record {
    found.taken_over(arrival, fence)
}

/// The same claim, with its lease starting anew.
pub fn renewed(own: &Record, fence: Fence) -> Record {
    own.renewed(fence)
}

/// The same claim, with a recovery point.
pub fn reached(own: &Record, point: Point, fence: Fence) -> Record {
    own.reached(point, fence)
}

/// The work is done.
pub fn completed(own: &Record, outcome: Outcome, fence: Fence) -> Record {
    own.completed(outcome, own.retention, fence)
}

/// The work provably did not happen. `None` removes the record.
pub fn released(own: &Record, fence: Fence) -> Option<Record> {
    own.released(fence)
}

/// An operator settled it, with an outcome or as not executed.
pub fn resolved(found: &Record, outcome: Option<Outcome>, note: Note, fence: Fence) -> Record {
    found.resolved(outcome, note, fence)
}
