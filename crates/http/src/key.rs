//! Reading keys: where callers put them, and what is accepted there.

use std::borrow::Cow;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use onceward::bugs::{Bug, seeded};
use onceward::{InvalidKey, Key, Timestamp};
use uuid::{Uuid, Variant};

use crate::fingerprint::json::{self, Scalar};
use crate::fingerprint::{is_form, is_json, media_type};
use crate::headers;
use crate::{Fields, Pointer, Profile};

mod structured;

/// Where a key is looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeySource {
    /// In a header of one of these names; two that differ are refused.
    Headers(Vec<HeaderName>),
    /// In a member of the JSON body.
    Json(Pointer),
    /// In a field of the form body.
    Form(Box<str>),
    /// In a parameter of the query.
    Query(Box<str>),
    /// Nowhere: it is made of these fields, which name the operation by themselves. Goes with
    /// [`KeyNeed::Derived`](crate::KeyNeed::Derived).
    Fields(Fields),
    /// Nowhere: it is made of the bytes of the body. Goes with
    /// [`KeyNeed::Derived`](crate::KeyNeed::Derived).
    BodyHash,
}

/// Why what stands in a key's place is not a key. Callers read these texts, which therefore say
/// what to send instead and never repeat what was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    /// Several, where one belongs.
    #[error("more than one idempotency key was sent; send exactly one")]
    Twice,

    /// Two headers disagree.
    #[error("two headers carry different idempotency keys; send one of them, or the same in both")]
    Differ,

    /// Bare, under a profile that wants quotes.
    #[error("the idempotency key is not quoted; send it between double quotes: \"...\"")]
    NotQuoted,

    /// A byte that cannot stand where it does.
    #[error(
        "the idempotency key cannot be read at byte {at}; send 1 to 255 printable ASCII \
         characters, bare (without spaces, quotes or commas) or as one string between double \
         quotes"
    )]
    Malformed {
        /// Where the byte stands in the field, counted from 0.
        at: usize,
    },

    /// Bytes beyond ASCII.
    #[error("the idempotency key is not ASCII text; send 1 to 255 printable ASCII characters")]
    NotText,

    /// Neither a string nor an integer.
    #[error("the body's idempotency key is neither a string nor an integer; send one of the two")]
    NotScalar,

    /// A body in which no key can be found.
    #[error(
        "the body is not JSON that has one meaning, so its idempotency key cannot be read; send \
         valid JSON without repeated members"
    )]
    NotJson,

    /// Text that is no key.
    #[error("{0}; send 1 to 255 printable ASCII characters as the idempotency key")]
    Core(InvalidKey),
}

// === impl KeySource ===

impl KeySource {
    /// Where a profile looks for keys.
    pub fn of(profile: Profile) -> Self {
        Self::Headers(match profile {
            Profile::Oasis => vec![headers::REPEATABILITY_REQUEST_ID],
            Profile::Ietf | Profile::IetfStrict | Profile::Stripe | Profile::SuccessOnly => {
                vec![headers::IDEMPOTENCY_KEY, headers::X_IDEMPOTENCY_KEY]
            }
        })
    }

    /// Whether the key can be told only once the body is there.
    pub fn needs_body(&self) -> bool {
        match self {
            Self::Json(_) | Self::Form(_) | Self::Fields(_) | Self::BodyHash => true,
            Self::Headers(_) | Self::Query(_) => false,
        }
    }

    /// Whether the key is made of the request, so that it says itself what the request is.
    pub fn is_made(&self) -> bool {
        matches!(self, Self::Fields(_) | Self::BodyHash)
    }
}

/// Reads the key from the headers of these names. Under `strict` it must be quoted.
pub(crate) fn from_headers(
    names: &[HeaderName],
    headers: &HeaderMap,
    strict: bool,
) -> Result<Option<Key>, KeyError> {
    let mut found: Option<Key> = None;
    for name in names {
        let mut lines = headers.get_all(name).iter();
        let Some(line) = lines.next() else { continue };
        if let Some(second) = lines.next() {
            if seeded(Bug::TwoKeysJoined) {
                return parse(&format!("{line:?},{second:?}")).map(Some);
            }
            return Err(KeyError::Twice);
        }
        let key = from_field(line, strict)?;
        if found.as_ref().is_some_and(|found| *found != key) {
            return Err(KeyError::Differ);
        }
        found = Some(key);
    }
    Ok(found)
}

/// Reads the key from the query or the body, whichever `source` names; from anything else it reads
/// none.
pub(crate) fn from_body(
    source: &KeySource,
    parts: &Parts,
    body: &[u8],
) -> Result<Option<Key>, KeyError> {
    match source {
        KeySource::Headers(_) | KeySource::Fields(_) | KeySource::BodyHash => Ok(None),
        KeySource::Json(pointer) => from_json(pointer, parts, body),
        KeySource::Query(name) => from_pairs(name, parts.uri.query().unwrap_or("").as_bytes()),
        KeySource::Form(name) => match media_type(&parts.headers) {
            Some(media) if !is_form(media) => Ok(None),
            _ => from_pairs(name, body),
        },
    }
}

/// How old a key is that tells its age: a UUIDv7 in the form with hyphens. One from the future
/// has no age yet.
pub(crate) fn age(key: &Key, now: Timestamp) -> Option<Duration> {
    let text = key.as_str();
    // The parser also reads forms without hyphens and with braces, which nobody mints.
    let uuid = Some(text)
        .filter(|text| text.len() == 36)
        .and_then(|text| Uuid::try_parse(text).ok())
        .filter(|uuid| uuid.get_version_num() == 7 && uuid.get_variant() == Variant::RFC4122)?;
    let millis = u64::try_from(uuid.as_u128() >> 80).expect("forty-eight bits are left");
    Some(now.since(Timestamp::from_micros(millis * 1_000)))
}

fn from_field(line: &HeaderValue, strict: bool) -> Result<Key, KeyError> {
    let bytes = line.as_bytes();
    let field = bytes.trim_ascii_start();
    let trimmed = bytes.len() - field.len();
    let field = field.trim_ascii_end();
    if field.is_empty() {
        return Err(KeyError::Core(InvalidKey::Empty));
    }
    let malformed = |at| KeyError::Malformed { at: trimmed + at };
    let text = if field[0] == b'"' {
        structured::string(field).map_err(malformed)?
    } else if strict {
        return Err(KeyError::NotQuoted);
    } else {
        let stranger = |byte: &u8| !matches!(byte, 0x21..=0x7e) || matches!(byte, b'"' | b',');
        if let Some(at) = field.iter().position(stranger) {
            return Err(match field[at].is_ascii() {
                true => malformed(at),
                false => KeyError::NotText,
            });
        }
        Cow::Borrowed(str::from_utf8(field).expect("printable ASCII is text"))
    };
    parse(&text)
}

fn parse(text: &str) -> Result<Key, KeyError> {
    Key::parse(text).map_err(KeyError::Core)
}

fn from_json(pointer: &Pointer, parts: &Parts, body: &[u8]) -> Result<Option<Key>, KeyError> {
    if body.is_empty() {
        return Ok(None);
    }
    let Some(found) = json::find(body, pointer) else {
        // A body of another kind carries no key; a JSON body with two readings might carry two.
        return match media_type(&parts.headers) {
            Some(media) if !is_json(media) => Ok(None),
            _ => Err(KeyError::NotJson),
        };
    };
    match found {
        Scalar::Absent | Scalar::Null => Ok(None),
        Scalar::Text(text) => parse(&text).map(Some),
        Scalar::Integer(digits) => parse(digits).map(Some),
        Scalar::Other => Err(KeyError::NotScalar),
    }
}

fn from_pairs(name: &str, encoded: &[u8]) -> Result<Option<Key>, KeyError> {
    let mut values = form_urlencoded::parse(encoded)
        .filter(|(found, _)| found == name)
        .map(|(_, value)| value);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match values.next() {
        Some(_) => Err(KeyError::Twice),
        None => parse(&value).map(Some),
    }
}

#[cfg(test)]
mod tests;
