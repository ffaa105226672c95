//! Traces: a run as text, and as a number.

use serde::Serialize;

use super::world::Fault;
use crate::history::History;

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a> {
    Fault(&'a Fault),
}

/// Writes a run down: what was seen, then what went wrong on purpose.
pub(super) fn write(history: &History, faults: &[Fault]) -> String {
    let mut bytes = Vec::new();
    history
        .write_jsonl(&mut bytes)
        .expect("memory can be written to");
    for fault in faults {
        serde_json::to_writer(&mut bytes, &Line::Fault(fault)).expect("memory can be written to");
        bytes.push(b'\n');
    }
    String::from_utf8(bytes).expect("JSON is text")
}

/// A digest of what was seen: of when, by whom, and under which fence.
pub(super) fn digest(history: &History) -> u64 {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    for event in &history.events {
        digest.add(event.mono_ns);
        digest.add(u64::from(event.proc) << 32 ^ event.op_id);
        digest.add((event.kind as u64) << 8 ^ event.verb as u64);
        digest.add(event.fence.map_or(0, |fence| fence.0 as u64));
    }
    for row in &history.ledger {
        digest.add(row.t);
        digest.add(row.mark.map_or(0, |mark| mark.0 as u64));
    }
    for read in &history.finals {
        digest.add(read.mono_ns);
        digest.add(read.state as u64);
    }
    digest.0
}

/// FNV, a word at a time: this is to notice a difference, not to withstand anybody.
struct Digest(u64);

// === impl Digest ===

impl Digest {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23);
    }
}
