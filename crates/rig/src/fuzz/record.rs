//! Records as bytes: whatever decodes is written back to the very same bytes, and nothing else
//! than a panic-free error comes of the rest.

use std::time::Duration;

use bytes::Bytes;
use onceward::record::{Deed, Lasts, Lease, Note, Point, Reservation};
use onceward::{
    Body, Effect, Ending, Fence, Outcome, Reason, Record, Scope, Seal, SlotId, State, Timestamp,
    codec,
};

use super::Choices;

/// Takes one byte of how: bytes as a store gives them, bytes with the right checksum behind them,
/// or a record to be written and damaged.
///
/// # Panics
///
/// Panics if a record is read that would be written in another way, if one does not read back, or
/// if a flipped bit goes unnoticed.
pub fn check(bytes: &[u8]) {
    let mut from = Choices(bytes);
    match from.below(3) {
        0 => reads(from.rest().to_vec()),
        1 => {
            let mut bytes = from.rest().to_vec();
            let sum = crc32fast::hash(&bytes);
            bytes.extend(sum.to_le_bytes());
            reads(bytes);
        }
        _ => writes(&mut from),
    }
}

fn reads(bytes: Vec<u8>) {
    let bytes = Bytes::from(bytes);
    let head = codec::head(&bytes);
    let at = Timestamp::from_micros(7);
    let Ok(record) = codec::decode(&bytes, at) else {
        return;
    };
    assert_eq!(record.written, at);
    let head = head.expect("what decodes has a head");
    let of_record = (record.state.name(), record.fence, record.due_after());
    assert_eq!((head.state, head.fence, head.due_after), of_record);
    assert_eq!(
        codec::encode(&record),
        bytes,
        "one record has two spellings"
    );
}

fn writes(from: &mut Choices<'_>) {
    let record = record(from);
    let bytes = codec::encode(&record);
    let read = codec::decode(&Bytes::from(bytes.clone()), record.written);
    assert_eq!(read.as_ref(), Ok(&record));
    let at = from.number() as usize % (bytes.len() * 8);
    let mut flipped = bytes.clone();
    flipped[at / 8] ^= 1 << (at % 8);
    assert!(codec::decode(&flipped.into(), record.written).is_err());
    let cut = Bytes::from(bytes).slice(..at / 8);
    assert!(codec::decode(&cut, record.written).is_err());
}

/// Any record that the product may make.
pub(super) fn record(from: &mut Choices<'_>) -> Record {
    Record {
        scope: Scope::parse(&from.text(40), &from.text(40))
            .unwrap_or_else(|_| Scope::new("tenant", "operation")),
        seal: Seal {
            rules: u16::from_le_bytes(from.array()),
            digest: [from.byte(); 32],
        },
        effect: from.pick(&[
            Effect::Repeatable,
            Effect::Transactional,
            Effect::Keyed,
            Effect::Probed,
            Effect::Opaque,
        ]),
        state: state(from),
        mark: from.flag().then(|| fence(from)),
        generation: fence(from),
        fence: fence(from),
        attempt: u32::from_le_bytes(from.array()),
        retention: span(from),
        unknown_retention: from
            .flag()
            .then(|| span(from))
            .filter(|it| *it != Duration::MAX),
        began: Some(Timestamp::from_micros(from.any_number())).filter(|it| *it != Timestamp::NEVER),
        written: Timestamp::from_micros(from.any_number()),
        point: from.flag().then(|| {
            Box::new(Point {
                name: from.text(Point::NAME_MAX).into(),
                data: from.bytes(255).to_vec().into(),
            })
        }),
        audit: (0..from.below(4)).map(|_| note(from)).collect(),
    }
}

fn state(from: &mut Choices<'_>) -> State {
    match from.below(6) {
        0 => State::Claimed(Lease { length: span(from) }),
        1 => State::Unknown(Reason::new(from.text(255))),
        2 => State::Open,
        4 => State::Reserved(Reservation {
            slot: SlotId::from_bytes([from.byte(); 32]),
            generation: fence(from),
            lasts: from.pick(&[Lasts::Work, Lasts::Window]),
        }),
        5 => State::Completed(Outcome {
            body: Body::KeptFor {
                bytes: from.bytes(255).to_vec().into(),
                keep: span(from),
            },
            ..Outcome::success("")
        }),
        _ => State::Completed(Outcome {
            ending: from.pick(&[Ending::Success, Ending::Failure]),
            head: from.bytes(255).to_vec().into(),
            body: match from.flag() {
                false => Body::Kept(from.bytes(255).to_vec().into()),
                true => Body::NotKept {
                    len: from.any_number(),
                    digest: [from.byte(); 32],
                },
            },
        }),
    }
}

fn note(from: &mut Choices<'_>) -> Note {
    Note {
        deed: from.pick(&[
            Deed::Completed,
            Deed::NotExecuted,
            Deed::Extended,
            Deed::Suspected,
        ]),
        who: from.text(60).into(),
        why: from.text(60).into(),
        at: Timestamp::from_micros(from.any_number()),
    }
}

fn fence(from: &mut Choices<'_>) -> Fence {
    Fence::from_bits(u128::from_le_bytes(from.array()))
}

/// A span as records hold them: in whole microseconds, or endless.
fn span(from: &mut Choices<'_>) -> Duration {
    match from.any_number() {
        u64::MAX => Duration::MAX,
        micros => Duration::from_micros(micros),
    }
}
