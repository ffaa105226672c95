//! Records as every released version wrote them: what is on somebody's disk has to stay readable.

use std::time::Duration;

use bytes::Bytes;

use super::super::{Error, decode, encode};
use crate::outcome::Body;
use crate::record::{Deed, Lasts, Lease, Note, Point, Reservation};
use crate::{Effect, Fence, Outcome, Reason, Record, Scope, Seal, SlotId, State, Timestamp};

/// The bytes of version 1, as hex digits.
const VERSION_1: [(&str, &str); 7] = [
    (
        "claimed",
        include_str!("../../../tests/fixtures/record-v1/claimed.hex"),
    ),
    (
        "completed",
        include_str!("../../../tests/fixtures/record-v1/completed.hex"),
    ),
    (
        "completed-not-kept",
        include_str!("../../../tests/fixtures/record-v1/completed-not-kept.hex"),
    ),
    (
        "unknown",
        include_str!("../../../tests/fixtures/record-v1/unknown.hex"),
    ),
    (
        "open",
        include_str!("../../../tests/fixtures/record-v1/open.hex"),
    ),
    (
        "with-point",
        include_str!("../../../tests/fixtures/record-v1/with-point.hex"),
    ),
    (
        "with-notes",
        include_str!("../../../tests/fixtures/record-v1/with-notes.hex"),
    ),
];

/// The bytes of version 2, which holds what version 1 cannot.
const VERSION_2: [(&str, &str); 3] = [
    (
        "reserved",
        include_str!("../../../tests/fixtures/record-v2/reserved.hex"),
    ),
    (
        "shedding",
        include_str!("../../../tests/fixtures/record-v2/shedding.hex"),
    ),
    (
        "suspected",
        include_str!("../../../tests/fixtures/record-v2/suspected.hex"),
    ),
];

const WRITTEN: Timestamp = Timestamp::from_micros(1_777_777_777_123_456);

#[test]
fn records_of_version_1_are_read_as_they_were_written() {
    for ((name, hex), (its_name, record)) in VERSION_1.into_iter().zip(records()) {
        assert_eq!(name, its_name);
        assert_eq!(decode(&from_hex(hex), WRITTEN), Ok(record), "{name}");
    }
}

#[test]
fn version_1_is_written_byte_for_byte() {
    for ((name, hex), (_, record)) in VERSION_1.into_iter().zip(records()) {
        assert_eq!(to_hex(&encode(&record)), hex, "{name}");
    }
}

#[test]
fn records_of_version_2_are_read_as_they_were_written() {
    for ((name, hex), (its_name, record)) in VERSION_2.into_iter().zip(records_of_version_2()) {
        assert_eq!(name, its_name);
        assert_eq!(decode(&from_hex(hex), WRITTEN), Ok(record), "{name}");
    }
}

#[test]
fn version_2_is_written_byte_for_byte() {
    for ((name, hex), (_, record)) in VERSION_2.into_iter().zip(records_of_version_2()) {
        assert_eq!(to_hex(&encode(&record)), hex, "{name}");
    }
}

#[test]
fn a_record_is_not_read_in_a_later_version_than_it_needs() {
    let [(_, claimed), ..] = records();
    let mut bytes = encode(&claimed);
    bytes[0] = 2;
    bytes.truncate(bytes.len() - 4);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    let field = "version";
    let read = decode(&bytes.into(), WRITTEN);
    assert_eq!(read, Err(Error::Invalid { field }));
}

/// The records behind the fixtures of version 2, field by field.
fn records_of_version_2() -> [(&'static str, Record); 3] {
    let [_, (_, completed), ..] = records();
    let reserved = Record {
        scope: Scope::new("acme", "unique:paid-order"),
        state: State::Reserved(Reservation {
            slot: SlotId::from_bytes(std::array::from_fn(|at| 0xff - at as u8)),
            generation: Fence::from_bits(0x0006_50e1_24e3_3e3f_0f1e_2d3c_4b5a_6978),
            lasts: Lasts::Work,
        }),
        mark: None,
        generation: completed.fence,
        attempt: 1,
        began: None,
        ..completed.clone()
    };
    let shedding = Record {
        state: State::Completed(Outcome {
            body: Body::KeptFor {
                bytes: Bytes::from_static(b"{\"charge\":\"ch_2\"}"),
                keep: Duration::from_secs(3_600),
            },
            ..Outcome::success("").with_head("201 Created")
        }),
        ..completed.clone()
    };
    let suspected = Record {
        audit: vec![Note {
            deed: Deed::Suspected,
            who: "onceward".into(),
            why: "the same facts stand in slot 0102".into(),
            at: Timestamp::from_micros(1_777_777_774_000_000),
        }],
        ..completed
    };
    [
        ("reserved", reserved),
        ("shedding", shedding),
        ("suspected", suspected),
    ]
}

/// The records behind the fixtures, field by field.
pub(super) fn records() -> [(&'static str, Record); 7] {
    let claimed = Record {
        scope: Scope::new("acme", "POST /payments"),
        seal: Seal {
            rules: 1,
            digest: std::array::from_fn(|at| at as u8),
        },
        effect: Effect::Opaque,
        state: State::Claimed(Lease {
            length: Duration::from_secs(30),
        }),
        mark: Some(Fence::from_bits(0x0006_50e1_24e3_3e40_0123_4567_89ab_cdef)),
        generation: Fence::from_bits(0x0006_50e1_24e3_3e40_0123_4567_89ab_cdef),
        fence: Fence::from_bits(0x0006_50e1_24e3_3e40_0123_4567_89ab_cdef),
        attempt: 1,
        retention: Duration::from_secs(86_400),
        unknown_retention: None,
        began: None,
        written: WRITTEN,
        point: None,
        audit: Vec::new(),
    };
    let completed = Record {
        state: State::Completed(Outcome::success("{\"charge\":\"ch_1\"}").with_head("201 Created")),
        effect: Effect::Keyed,
        fence: Fence::from_bits(0x0006_50e1_24e3_3e41_fedc_ba98_7654_3210),
        attempt: 2,
        began: Some(Timestamp::from_micros(1_777_777_770_000_001)),
        ..claimed.clone()
    };
    let completed_not_kept = Record {
        state: State::Completed(Outcome {
            body: Body::NotKept {
                len: 5_000_000_000,
                digest: [0xd1; 32],
            },
            ..Outcome::failure("")
        }),
        effect: Effect::Transactional,
        retention: Duration::MAX,
        ..completed.clone()
    };
    let unknown = Record {
        state: State::Unknown(Reason::LAPSED),
        effect: Effect::Probed,
        unknown_retention: Some(Duration::from_secs(7 * 86_400)),
        ..completed.clone()
    };
    let open = Record {
        scope: Scope::new("zo\u{eb} \u{1f980}", "settle-payment"),
        state: State::Open,
        effect: Effect::Repeatable,
        mark: None,
        ..completed.clone()
    };
    let with_point = Record {
        point: Some(Box::new(Point {
            name: "charged".into(),
            data: Bytes::from_static(&[0x00, 0x01, 0xfe, 0xff]),
        })),
        ..claimed.clone()
    };
    let note = |deed, why: &str, at| Note {
        deed,
        who: "operator@example.com".into(),
        why: why.into(),
        at: Timestamp::from_micros(at),
    };
    let with_notes = Record {
        audit: vec![
            note(
                Deed::NotExecuted,
                "not in the ledger",
                1_777_777_771_000_000,
            ),
            note(Deed::Completed, "", 1_777_777_772_000_000),
            note(Deed::Extended, "under dispute", 1_777_777_773_000_000),
        ],
        ..completed.clone()
    };
    [
        ("claimed", claimed),
        ("completed", completed),
        ("completed-not-kept", completed_not_kept),
        ("unknown", unknown),
        ("open", open),
        ("with-point", with_point),
        ("with-notes", with_notes),
    ]
}

/// Hex digits in lines of 64, as the fixtures have them.
fn to_hex(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    };
    bytes.chunks(32).map(line).collect()
}

fn from_hex(text: &str) -> Bytes {
    let digits: Vec<_> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}
