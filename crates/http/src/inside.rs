//! What tests from outside have to reach and nobody else may rely on: the readers of what
//! strangers send, and of what a store gives back.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body_util::Full;
use onceward::{Key, Outcome, Replay, SlotId, Timestamp};

use crate::snapshot::{self, Keeping, Snapshot};
use crate::{Profile, answer, key};

/// Reads the key from the headers of these names, as a route does that looks for it there.
pub fn key_of(
    names: &[HeaderName],
    headers: &HeaderMap,
    strict: bool,
) -> Result<Option<Key>, String> {
    key::from_headers(names, headers, strict).map_err(|error| error.to_string())
}

/// Reads the head of a stored answer: its status, its headers and its trailers.
pub fn answer_of(head: &[u8]) -> Result<(StatusCode, HeaderMap, Option<HeaderMap>), String> {
    let Snapshot {
        status,
        headers,
        trailers,
    } = snapshot::read(head).map_err(|error| error.to_string())?;
    Ok((status, headers, trailers))
}

/// Returns the answer that a retry gets from this outcome, without its body; `None` if it gets
/// a refusal.
pub fn replayed(outcome: Outcome) -> Option<Response<()>> {
    let replay = Replay {
        outcome,
        completed: Timestamp::ZERO,
        expires: Timestamp::NEVER,
        copied: false,
    };
    let response = answer::replay::<Full<Bytes>>(&replay, Profile::Ietf, SlotId::RESERVED).ok()?;
    Some(response.map(drop))
}

/// Returns the head of an answer as a record keeps it, cookies included.
pub fn head_of(status: StatusCode, headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Bytes {
    let rules = Keeping {
        cookies: true,
        only: None,
    };
    snapshot::record(status, headers, trailers, &rules)
}
