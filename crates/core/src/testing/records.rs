//! Records as tests need them: in the state asked for, and with nothing in them by chance.

use std::time::Duration;

use bytes::Bytes;

use crate::record::{Deed, Lasts, Lease, Note, Point, Reservation};
use crate::{Effect, Fence, Outcome, Reason, Record, Scope, Seal, SlotId, State, Timestamp};

#[cfg(test)]
pub(crate) mod strategy;

/// A duration that does not run out while a test runs.
pub const LONG: Duration = Duration::from_secs(3600);

/// A duration that a test can wait for.
pub const SHORT: Duration = Duration::from_millis(1);

/// Returns the slot of that name.
pub fn slot(name: &str) -> SlotId {
    SlotId::from_bytes(*blake3::hash(name.as_bytes()).as_bytes())
}

/// Returns a fence that no record carries yet.
pub fn fence() -> Fence {
    Fence::mint(None, Timestamp::from_micros(1_777_777_777_000_000))
}

/// Returns a first claim with a lease of this length.
pub fn claimed(lease: Duration) -> Record {
    in_state(State::Claimed(Lease { length: lease }))
}

/// Returns the record of finished work, kept for this long.
pub fn completed(retention: Duration) -> Record {
    Record {
        retention,
        ..in_state(State::Completed(Outcome::success("done").with_head("200")))
    }
}

/// Returns a record of which nobody knows whether the work happened, kept for this long.
pub fn unknown(retention: Option<Duration>) -> Record {
    Record {
        unknown_retention: retention,
        ..in_state(State::Unknown(Reason::LAPSED))
    }
}

/// Returns a record that an operator settled as not executed, kept for this long.
pub fn open(retention: Duration) -> Record {
    Record {
        mark: None,
        retention,
        audit: vec![note("not in the ledger")],
        ..in_state(State::Open)
    }
}

/// Returns the record of finished work that is kept for long, and its body for this long.
pub fn shedding(keep: Duration) -> Record {
    let outcome = Outcome::success("done").with_head("200");
    Record {
        retention: 2 * LONG,
        ..in_state(State::Completed(outcome.keeping_for(Some(keep))))
    }
}

/// Returns the name of an identity that work in another slot has taken, reviewed after this long.
pub fn reserved(review: Duration) -> Record {
    let reservation = Reservation {
        slot: slot("elsewhere"),
        generation: fence(),
        lasts: Lasts::Work,
    };
    Record {
        mark: None,
        retention: review,
        ..in_state(State::Reserved(reservation))
    }
}

/// Returns a record of each state, none of which comes due while a test runs.
pub fn of_every_state() -> [Record; 6] {
    [
        claimed(LONG),
        completed(LONG),
        unknown(None),
        open(LONG),
        reserved(LONG),
        shedding(LONG),
    ]
}

/// Returns `record` as the next writer would write it: with a fence of its own.
pub fn rewritten(record: &Record) -> Record {
    Record {
        fence: Fence::mint(Some(record.fence), record.written),
        ..record.clone()
    }
}

/// Returns a recovery point with that much data.
pub fn point(len: usize) -> Point {
    Point {
        name: "charged".into(),
        data: bytes(len),
    }
}

/// Returns an operator's note.
pub fn note(why: &str) -> Note {
    Note {
        deed: Deed::NotExecuted,
        who: "operator@example.com".into(),
        why: why.into(),
        at: Timestamp::from_micros(1_777_777_700_000_000),
    }
}

/// Returns that many bytes, of every value, which no compression makes smaller.
pub fn bytes(len: usize) -> Bytes {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(len as u64).fill(&mut bytes);
    bytes.into()
}

/// Returns a text of that many bytes, which compression makes little smaller: what an index or a
/// column cannot hold shows itself.
pub fn text(len: usize) -> String {
    let mut rng = fastrand::Rng::with_seed(len as u64);
    (0..len).map(|_| rng.alphanumeric()).collect()
}

fn in_state(state: State) -> Record {
    let mark = fence();
    Record {
        scope: Scope::new("tenant", "operation"),
        seal: Seal {
            rules: 3,
            digest: [0xa5; 32],
        },
        effect: Effect::Opaque,
        state,
        mark: Some(mark),
        generation: mark,
        fence: mark,
        attempt: 1,
        retention: LONG,
        unknown_retention: None,
        began: None,
        // Long ago, so that a store that believes its writers gives itself away.
        written: Timestamp::from_micros(1),
        point: None,
        audit: Vec::new(),
    }
}
