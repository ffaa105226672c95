//! Records by chance: every one that the codec has to carry.

use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::outcome::{Body, Ending};
use crate::record::{Deed, Lasts, Lease, Note, Point, Reservation};
use crate::{Effect, Fence, Outcome, Reason, Record, Scope, Seal, SlotId, State, Timestamp};

/// Every class, from the most lenient to the strictest.
pub(crate) const EFFECTS: [Effect; 5] = [
    Effect::Repeatable,
    Effect::Transactional,
    Effect::Keyed,
    Effect::Probed,
    Effect::Opaque,
];

/// Any record, whether or not the protocol would write it.
pub(crate) fn record() -> impl Strategy<Value = Record> {
    let identity = (scope(), seal(), effect(), state());
    let attempt = prop_oneof![Just(1), any::<u32>()];
    let writes = (option::of(fence()), fence(), fence(), attempt);
    let times = (
        span(),
        option::of(short_span()),
        option::of(moment()),
        moment(),
    );
    let tail = (option::of(point()), vec(note(), 0..5));
    (identity, writes, times, tail).prop_map(|(identity, writes, times, (point, audit))| {
        let (scope, seal, effect, state) = identity;
        let (mark, generation, fence, attempt) = writes;
        let (retention, unknown_retention, began, written) = times;
        Record {
            scope,
            seal,
            effect,
            state,
            mark,
            generation,
            fence,
            attempt,
            retention,
            unknown_retention,
            began,
            written,
            point: point.map(Box::new),
            audit,
        }
    })
}

/// Any class of effect.
pub(crate) fn effect() -> impl Strategy<Value = Effect> {
    proptest::sample::select(&EFFECTS[..])
}

fn scope() -> impl Strategy<Value = Scope> {
    let name = || prop_oneof![9 => "\\PC{1,24}", 1 => Just("n".repeat(Scope::LEN_MAX))];
    (name(), name()).prop_map(|(tenant, operation)| Scope::new(&tenant, &operation))
}

fn seal() -> impl Strategy<Value = Seal> {
    any::<(u16, [u8; 32])>().prop_map(|(rules, digest)| Seal { rules, digest })
}

fn fence() -> impl Strategy<Value = Fence> {
    any::<u128>().prop_map(Fence::from_bits)
}

/// A span that fits into a record: whole microseconds, or endless.
fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![9 => short_span(), 1 => Just(Duration::MAX)]
}

fn short_span() -> impl Strategy<Value = Duration> {
    (0..u64::MAX).prop_map(Duration::from_micros)
}

fn moment() -> impl Strategy<Value = Timestamp> {
    (0..u64::MAX).prop_map(Timestamp::from_micros)
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        span().prop_map(|length| State::Claimed(Lease { length })),
        outcome().prop_map(State::Completed),
        "\\PC{0,60}".prop_map(|text| State::Unknown(Reason::new(text))),
        Just(State::Open),
        (any::<[u8; 32]>(), fence(), any::<bool>()).prop_map(|(slot, generation, window)| {
            State::Reserved(Reservation {
                slot: SlotId::from_bytes(slot),
                generation,
                lasts: if window { Lasts::Window } else { Lasts::Work },
            })
        }),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let ending = prop_oneof![Just(Ending::Success), Just(Ending::Failure)];
    let body = prop_oneof![
        data(200).prop_map(Body::Kept),
        (data(200), short_span()).prop_map(|(bytes, keep)| Body::KeptFor { bytes, keep }),
        any::<(u64, [u8; 32])>().prop_map(|(len, digest)| Body::NotKept { len, digest }),
    ];
    (ending, data(40), body).prop_map(|(ending, head, body)| Outcome { ending, head, body })
}

fn point() -> impl Strategy<Value = Point> {
    ("\\PC{0,20}", data(100)).prop_map(|(name, data)| Point {
        name: name.into(),
        data,
    })
}

fn note() -> impl Strategy<Value = Note> {
    let deed = prop_oneof![
        Just(Deed::Completed),
        Just(Deed::NotExecuted),
        Just(Deed::Extended),
        Just(Deed::Suspected),
    ];
    (deed, "\\PC{0,20}", "\\PC{0,40}", moment()).prop_map(|(deed, who, why, at)| Note {
        deed,
        who: who.into(),
        why: why.into(),
        at,
    })
}

fn data(len: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=len).prop_map(Bytes::from)
}
