//! The codec: how records look as bytes, in every store.
//!
//! One layout, with its version first. Integers are little-endian, times and spans are
//! microseconds, texts and bytes have their length before them. The stamp of the write is not
//! part of it: the store keeps it beside the bytes, because only the store knows it.
//!
//! ```text
//! clear head   version 1 | state 1 | fence 16 | due after 8
//! body         effect 1 | mark 1+16 | generation 16 | attempt 4 | retention 8 | unknown
//!              retention 8 | began 8 | rules 2 | seal 32 | tenant 2+n | operation 2+n
//! state        claimed: nothing | completed: ending 1, head 4+n, body 1 and 4+n or 8+32
//!              unknown: reason 2+n | open: nothing
//!              from version 2 on: body may be 1, 8, 4+n (kept for a time of its own)
//!              reserved: slot 32, generation 16, lasts 1
//! tail         point 1 and 2+n, 4+n | notes 1 and (deed 1, who 2+n, why 2+n, at 8) each
//! checksum     CRC-32 of everything before it
//! ```

use std::time::Duration;

use bytes::Bytes;

use crate::outcome::{Body, Ending};
use crate::record::{Deed, Lasts, Lease, Note, Point, Reservation, StateName};
use crate::{Effect, Fence, Outcome, Reason, Record, Scope, Seal, SlotId, State, Timestamp};

mod bytes_io;

use bytes_io::{Reader, Writer};

/// The newest version of the layout. A record is written in the oldest that can hold it, so that
/// an earlier program beside this one reads all that it knows the meaning of.
pub const VERSION: u8 = 2;

/// How many bytes the clear head takes.
pub const HEAD_LEN: usize = 1 + 1 + 16 + 8;

/// What a store may read of a record without decoding it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The name of the state.
    pub state: StateName,
    /// The fence of the last write.
    pub fence: Fence,
    /// How long after its last write the record comes due.
    pub due_after: Duration,
}

/// Why bytes are not a record that this version can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A newer Onceward wrote the record.
    #[error(
        "the record has format version {found}, this program reads up to {VERSION}: upgrade it"
    )]
    Newer {
        /// The version found.
        found: u8,
    },

    /// The bytes end too early.
    #[error("the record is cut off at byte {at}")]
    Cut {
        /// Where more bytes were expected.
        at: usize,
    },

    /// The checksum does not match.
    #[error("the record's checksum does not match its bytes")]
    Checksum,

    /// A field has a value that no version writes.
    #[error("the record's {field} is invalid")]
    Invalid {
        /// The field.
        field: &'static str,
    },
}

/// Returns the bytes of `record`, without its stamp.
pub fn encode(record: &Record) -> Vec<u8> {
    let mut out = Writer::with_capacity(256 + record.outcome().map_or(0, Outcome::kept_len));
    out.u8(version_of(record));
    out.u8(record.state.name() as u8);
    out.fence(record.fence);
    out.span(record.due_after());
    out.u8(effect_number(record.effect));
    out.optional(record.mark, Writer::fence);
    out.fence(record.generation);
    out.u32(record.attempt);
    out.span(record.retention);
    out.span(record.unknown_retention.unwrap_or(Duration::MAX));
    out.u64(record.began.unwrap_or(Timestamp::NEVER).as_micros());
    out.u16(record.seal.rules);
    out.raw(&record.seal.digest);
    out.text(record.scope.tenant());
    out.text(record.scope.operation());
    encode_state(&mut out, &record.state);
    out.optional(record.point.as_deref(), |out, point| {
        out.text(&point.name);
        out.bytes(&point.data);
    });
    out.u8(u8::try_from(record.audit.len()).expect("notes are limited where they are made"));
    for note in &record.audit {
        out.u8(note.deed as u8);
        out.text(&note.who);
        out.text(&note.why);
        out.u64(note.at.as_micros());
    }
    out.finish()
}

/// Reads the record in `bytes`, which a store stamped with `written`.
///
/// Bodies share the memory of `bytes`. Nothing is allocated from a length that was not checked
/// against the bytes that are there.
pub fn decode(bytes: &Bytes, written: Timestamp) -> Result<Record, Error> {
    head(bytes)?;
    let mut from = Reader::checked(bytes)?;
    let version = from.u8()?;
    let name = state_name(from.u8()?)?;
    let fence = from.fence()?;
    let due_after = from.span()?;
    let effect = effect_of(from.u8()?)?;
    let mark = from.optional(Reader::fence)?;
    let generation = from.fence()?;
    let attempt = from.u32()?;
    let retention = from.span()?;
    let unknown_retention = Some(from.span()?).filter(|span| *span != Duration::MAX);
    let began = Some(Timestamp::from_micros(from.u64()?)).filter(|at| *at != Timestamp::NEVER);
    let seal = Seal {
        rules: from.u16()?,
        digest: from.array()?,
    };
    let scope = Scope::parse(&from.text()?, &from.text()?)
        .map_err(|_| Error::Invalid { field: "scope" })?;
    let state = decode_state(&mut from, name, due_after)?;
    let point = from.optional(|from| {
        let name = from.text()?;
        let data = from.bytes()?;
        Ok(Box::new(Point { name, data }))
    })?;
    let audit = (0..from.u8()?)
        .map(|_| decode_note(&mut from))
        .collect::<Result<_, _>>()?;
    from.end()?;
    let record = Record {
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
        point,
        audit,
    };
    // One record has one spelling, in the oldest version that can hold it.
    if version != version_of(&record) {
        return Err(Error::Invalid { field: "version" });
    }
    // Stores go by the head: one that says something else than the rest would expire wrongly.
    match record.due_after() == due_after && record.state.name() == name {
        true => Ok(record),
        false => Err(Error::Invalid { field: "due time" }),
    }
}

/// Reads the clear head of a record and nothing else; the checksum is not looked at.
pub fn head(bytes: &[u8]) -> Result<Head, Error> {
    let mut from = Reader::unchecked(bytes);
    let found = match from.u8()? {
        0 => return Err(Error::Invalid { field: "version" }),
        found @ 1..=VERSION => found,
        found => return Err(Error::Newer { found }),
    };
    let state = state_name(from.u8()?)?;
    if found < version(state) {
        return Err(Error::Invalid { field: "version" });
    }
    Ok(Head {
        state,
        fence: from.fence()?,
        due_after: from.span()?,
    })
}

/// The oldest version that can hold `record`.
fn version_of(record: &Record) -> u8 {
    let is_suspected = record.audit.iter().any(|it| it.deed == Deed::Suspected);
    version(record.state.name()).max(1 + u8::from(is_suspected))
}

/// The oldest version that can hold a record in this state.
fn version(state: StateName) -> u8 {
    match state {
        StateName::Claimed | StateName::Completed | StateName::Unknown | StateName::Open => 1,
        StateName::Reserved | StateName::Shedding => 2,
    }
}

fn encode_state(out: &mut Writer, state: &State) {
    match state {
        State::Claimed(_) | State::Open => {}
        State::Reserved(reservation) => {
            out.raw(reservation.slot.as_bytes());
            out.fence(reservation.generation);
            out.u8(reservation.lasts as u8);
        }
        State::Unknown(reason) => out.text(reason.as_str()),
        State::Completed(outcome) => {
            out.u8(match outcome.ending {
                Ending::Success => 1,
                Ending::Failure => 2,
            });
            out.bytes(&outcome.head);
            match &outcome.body {
                Body::Kept(bytes) => {
                    out.u8(1);
                    out.bytes(bytes);
                }
                Body::KeptFor { bytes, keep } => {
                    out.u8(3);
                    out.span(*keep);
                    out.bytes(bytes);
                }
                Body::NotKept { len, digest } => {
                    out.u8(2);
                    out.u64(*len);
                    out.raw(digest);
                }
            }
        }
    }
}

fn decode_state(from: &mut Reader<'_>, name: StateName, due: Duration) -> Result<State, Error> {
    Ok(match name {
        StateName::Claimed => State::Claimed(Lease { length: due }),
        StateName::Open => State::Open,
        StateName::Unknown => State::Unknown(decode_reason(&from.text()?)?),
        StateName::Reserved => State::Reserved(Reservation {
            slot: SlotId::from_bytes(from.array()?),
            generation: from.fence()?,
            lasts: match from.u8()? {
                1 => Lasts::Work,
                2 => Lasts::Window,
                _ => {
                    return Err(Error::Invalid {
                        field: "reservation",
                    });
                }
            },
        }),
        StateName::Completed | StateName::Shedding => State::Completed(Outcome {
            ending: match from.u8()? {
                1 => Ending::Success,
                2 => Ending::Failure,
                _ => return Err(Error::Invalid { field: "ending" }),
            },
            head: from.bytes()?,
            body: match from.u8()? {
                1 => Body::Kept(from.bytes()?),
                3 => Body::KeptFor {
                    keep: from.span()?,
                    bytes: from.bytes()?,
                },
                2 => Body::NotKept {
                    len: from.u64()?,
                    digest: from.array()?,
                },
                _ => return Err(Error::Invalid { field: "body" }),
            },
        }),
    })
}

fn decode_reason(text: &str) -> Result<Reason, Error> {
    match text.len() {
        0..=Reason::LEN_MAX => Ok(Reason::new(text.to_owned())),
        _ => Err(Error::Invalid { field: "reason" }),
    }
}

fn decode_note(from: &mut Reader<'_>) -> Result<Note, Error> {
    let deed = match from.u8()? {
        1 => Deed::Completed,
        2 => Deed::NotExecuted,
        3 => Deed::Extended,
        4 => Deed::Suspected,
        _ => return Err(Error::Invalid { field: "note" }),
    };
    Ok(Note {
        deed,
        who: from.text()?,
        why: from.text()?,
        at: Timestamp::from_micros(from.u64()?),
    })
}

fn state_name(number: u8) -> Result<StateName, Error> {
    let all = StateName::ALL.into_iter();
    let named = all.into_iter().find(|state| *state as u8 == number);
    named.ok_or(Error::Invalid { field: "state" })
}

fn effect_number(effect: Effect) -> u8 {
    match effect {
        Effect::Repeatable => 1,
        Effect::Transactional => 2,
        Effect::Keyed => 3,
        Effect::Probed => 4,
        Effect::Opaque => 5,
    }
}

fn effect_of(number: u8) -> Result<Effect, Error> {
    Ok(match number {
        1 => Effect::Repeatable,
        2 => Effect::Transactional,
        3 => Effect::Keyed,
        4 => Effect::Probed,
        5 => Effect::Opaque,
        _ => return Err(Error::Invalid { field: "effect" }),
    })
}

#[cfg(test)]
mod tests;
