//! Replies: what the scripts answered.

use std::sync::Arc;

use bytes::Bytes;
use onceward::store::Error;
use onceward::{Record, SlotId, Timestamp, codec};
use redis::Value;

use super::KIND;
use super::ask::Times;
use super::script::{HEAD, answer};

/// What a script answered.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) what: i64,
    /// The time that counted.
    pub(super) now: i64,
    /// The server's clock.
    pub(super) raw: i64,
    /// What is in the slot, where that was asked.
    pub(super) found: Option<Bytes>,
}

/// What became of a write.
#[derive(Debug)]
pub(super) enum Became {
    Done,
    Late,
    /// Nothing was written: this is there.
    Found(Option<Bytes>),
}

/// Why the bytes in a slot are no record of ours.
#[derive(Debug, thiserror::Error)]
#[error("it does not begin as a record does")]
struct NoRecord;

// === impl Said ===

impl Said {
    /// Reads an answer: what, the time, the server's clock, and perhaps what is there.
    pub(super) fn read(value: Value) -> Result<Self, Error> {
        let Value::Array(parts) = value else {
            return Err(strange());
        };
        let mut parts = parts.into_iter();
        let mut number = || match parts.next() {
            Some(Value::Int(number)) => Ok(number),
            _ => Err(strange()),
        };
        let (what, now, raw) = (number()?, number()?, number()?);
        let found = match parts.next() {
            Some(Value::BulkString(bytes)) => Some(Bytes::from(bytes)),
            _ => None,
        };
        Ok(Self {
            what,
            now,
            raw,
            found,
        })
    }

    /// Reads what a script answered to one of many writes.
    pub(super) fn of_many(value: Value, times: Option<Times>) -> Result<Self, Error> {
        let (Some(Times { now, raw }), Some((what, more))) = (times, split(value)) else {
            return Err(strange());
        };
        let (now, found) = match (what, more) {
            // It had happened before, and this is when.
            (answer::DONE, Some(Value::Int(at))) => (at, None),
            (answer::FOUND, Some(Value::BulkString(bytes))) => (now, Some(Bytes::from(bytes))),
            _ => (now, None),
        };
        Ok(Self {
            what,
            now,
            raw,
            found,
        })
    }

    /// What became of a write; `None` if it has to be sent again, for the server's clock is ahead
    /// of what was believed.
    pub(super) fn became(self) -> Option<Became> {
        match self.what {
            answer::DONE => Some(Became::Done),
            answer::LATE => Some(Became::Late),
            answer::FOUND => Some(Became::Found(self.found)),
            _ => None,
        }
    }
}

/// What is said of an answer that no script of ours gives.
pub(super) fn strange() -> Error {
    Error::unavailable(KIND, "a script gave an answer of another kind")
}

/// Splits an answer into its number and what belongs to that.
fn split(value: Value) -> Option<(i64, Option<Value>)> {
    match value {
        Value::Int(what) => Some((what, None)),
        Value::Array(parts) => {
            let mut parts = parts.into_iter();
            match parts.next() {
                Some(Value::Int(what)) => Some((what, parts.next())),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Reads what a slot holds, if it holds something.
pub(super) fn read(slot: SlotId, found: Option<Bytes>) -> Result<Option<Arc<Record>>, Error> {
    found.map(|bytes| record(slot, &bytes)).transpose()
}

/// Reads a record as the scripts write it.
pub(super) fn record(slot: SlotId, bytes: &Bytes) -> Result<Arc<Record>, Error> {
    let written = bytes
        .get(HEAD - 16..HEAD)
        .and_then(|digits| str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .map(Timestamp::from_micros);
    let Some(written) = written else {
        return Err(Error::Unreadable {
            slot,
            source: NoRecord.into(),
        });
    };
    let record = codec::decode(&bytes.slice(HEAD..), written);
    let unreadable = |source: codec::Error| Error::Unreadable {
        slot,
        source: source.into(),
    };
    record.map(Arc::new).map_err(unreadable)
}
