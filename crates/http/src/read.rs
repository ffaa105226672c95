//! Reading a request: its key, and its body to the end.

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::request::Parts;
use http_body::Body;
use http_body_util::BodyExt as _;
use onceward::bugs::{Bug, seeded};
use onceward::{BoxError, Key, Timestamp};

use crate::headers::REPEATABILITY_FIRST_SENT;
use crate::key::{self, KeyError};
use crate::problem::Problem;
use crate::{KeyNeed, KeySource, Profile, Terms, derive};

/// A body that was received in full.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) data: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Returns the key in the head of a request, if that is where keys are.
pub(crate) fn key_in_head(terms: &Terms, parts: &Parts) -> Result<Option<Key>, Problem> {
    let found = match &terms.key_from {
        KeySource::Headers(names) => {
            // The names of deliveries are nobody's structured fields.
            let strict = terms.profile == Profile::IetfStrict && terms.key != KeyNeed::Derived;
            key::from_headers(names, &parts.headers, strict)
        }
        source => key::from_body(source, parts, b""),
    };
    found.map_err(|error| invalid(&error))
}

/// Returns the key in the body of a request, or made of it.
pub(crate) fn key_in_body(
    terms: &Terms,
    parts: &Parts,
    body: &[u8],
) -> Result<Option<Key>, Problem> {
    match terms.key_from.is_made() {
        true => derive::key(terms, parts, body),
        false => key::from_body(&terms.key_from, parts, body).map_err(|error| invalid(&error)),
    }
}

fn invalid(error: &KeyError) -> Problem {
    Problem::InvalidKey(error.to_string().into())
}

/// Says that a key is missing which the terms cannot do without.
pub(crate) fn missing(terms: &Terms) -> Problem {
    match (&terms.key_from, terms.key) {
        (KeySource::Headers(names), KeyNeed::Derived) => derive::no_header(names),
        _ => Problem::MissingKey,
    }
}

/// Receives a body to its end, `limit` bytes at the most.
pub(crate) async fn body<B>(body: B, limit: usize) -> Result<Received, Problem>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let too_large = Problem::BodyTooLarge { limit };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large);
    }
    let mut body = pin!(body);
    let mut pieces = Pieces::default();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        if frame.is_err() && seeded(Bug::CutRequestExecutes) {
            break;
        }
        let frame = frame.map_err(|_| Problem::RequestCut)?;
        match frame.into_data() {
            Ok(data) if pieces.len() + data.len() > limit => return Err(too_large),
            Ok(data) => pieces.push(data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if seeded(Bug::ClaimBeforeBody) {
            break;
        }
    }
    Ok(Received {
        data: pieces.join(),
        trailers,
    })
}

/// Refuses a request that is older than its answer would be kept.
pub(crate) fn refuse_too_old(
    terms: &Terms,
    parts: &Parts,
    key: &Key,
    now: Timestamp,
) -> Result<(), Problem> {
    if let Some(limit) = terms.key_age_max
        && key::age(key, now).is_some_and(|age| age > limit)
    {
        return Err(Problem::Expired);
    }
    // Who is not asked for a key is not asked for its date.
    if terms.profile != Profile::Oasis || terms.key == KeyNeed::Derived {
        return Ok(());
    }
    let sent = first_sent(&parts.headers).ok_or(Problem::InvalidKey(
        "Repeatability-Request-ID needs Repeatability-First-Sent beside it, an HTTP date.".into(),
    ))?;
    match now.since(sent) > terms.policy.retention {
        true => Err(Problem::Expired),
        false => Ok(()),
    }
}

fn first_sent(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(REPEATABILITY_FIRST_SENT)?.to_str().ok()?;
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp::ZERO + since)
}

/// Pieces of a body. A large one that comes alone is not copied; a small one is, because it would
/// keep the whole of the buffer that it was read into.
#[derive(Default, Debug)]
pub(crate) struct Pieces {
    first: Bytes,
    rest: BytesMut,
}

// === impl Pieces ===

impl Pieces {
    /// The largest piece that is copied although it is alone.
    const COPIED_MAX: usize = 4096;

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        match self.first.is_empty() {
            true if data.len() <= Self::COPIED_MAX => self.first = Bytes::copy_from_slice(&data),
            true => self.first = data,
            false => self.rest.extend_from_slice(&data),
        }
    }

    pub(crate) fn join(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut whole = BytesMut::with_capacity(self.len());
        whole.extend_from_slice(&self.first);
        whole.extend_from_slice(&self.rest);
        whole.freeze()
    }
}
