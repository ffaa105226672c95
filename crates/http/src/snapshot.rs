//! Snapshots: an answer as a record keeps it, and back.
//!
//! This is the head of an outcome; the body stands beside it. Integers are little-endian.
//!
//! ```text
//! version 1 | status 2 | fields | 0, or 1 and the fields of the trailers
//! fields      count 2, then for each line: name 2+n | value 4+n
//! ```

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, header};
use onceward::bugs::{Bug, seeded};
use onceward::{Body, Ending, Outcome};

use crate::headers::{is_hop_by_hop, is_ours, nominated};

/// The version of the layout that is written, and the only one there has been.
const VERSION: u8 = 1;

/// How many fields a replay adds as a rule: that it is one, and until when it is kept.
const ADDED: usize = 2;

/// The fewest bytes of a line: both lengths and a name of one byte.
const LINE_LEN_MIN: usize = 2 + 1 + 4;

/// An answer without its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Snapshot {
    /// The status.
    pub(crate) status: StatusCode,
    /// The headers that were kept.
    pub(crate) headers: HeaderMap,
    /// The trailers that were kept, if the answer had any.
    pub(crate) trailers: Option<HeaderMap>,
}

/// Which fields of an answer are kept.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Keeping<'a> {
    /// Whether `Set-Cookie` is among them.
    pub(crate) cookies: bool,
    /// The only ones that may be, trailers included; `None` for all but those that never are.
    pub(crate) only: Option<&'a [HeaderName]>,
}

/// Why bytes are not an answer that this version can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// A newer Onceward wrote it, or nobody did.
    #[error("the answer has format version {found}, this program reads {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },

    /// The bytes end too early.
    #[error("the answer is cut off")]
    Cut,

    /// Something follows the end.
    #[error("the answer goes on after its end")]
    TooLong,

    /// A part has a value that no version writes.
    #[error("the answer's {part} is invalid")]
    Invalid {
        /// The part.
        part: &'static str,
    },
}

/// Bytes that are still to be read.
struct Reader<'a>(&'a [u8]);

/// Returns an answer as a record keeps it: without what holds for one connection or one moment
/// only, or is nobody's but the first caller's.
pub(crate) fn record(
    status: StatusCode,
    headers: &HeaderMap,
    trailers: Option<&HeaderMap>,
    rules: &Keeping<'_>,
) -> Bytes {
    let named: Vec<HeaderName> = nominated(headers).collect();
    let keeps = |name: &HeaderName| rules.keep(name) && !named.contains(name);
    let mut out = Vec::with_capacity(512);
    out.push(VERSION);
    out.extend(status.as_u16().to_le_bytes());
    put_fields(&mut out, headers, keeps);
    out.push(u8::from(trailers.is_some()));
    if let Some(trailers) = trailers {
        put_fields(&mut out, trailers, keeps);
    }
    out.into()
}

/// Returns the outcome that a record keeps of an answer: what an operator settles it with.
///
/// ```
/// use http::{HeaderMap, StatusCode};
///
/// let outcome = onceward_http::outcome(StatusCode::CREATED, &HeaderMap::new(), "{}");
/// assert_eq!(outcome.body().unwrap(), "{}");
/// ```
pub fn outcome(status: StatusCode, headers: &HeaderMap, body: impl Into<Bytes>) -> Outcome {
    let failed = status.is_client_error() || status.is_server_error();
    Outcome {
        ending: if failed {
            Ending::Failure
        } else {
            Ending::Success
        },
        head: record(status, headers, None, &Keeping::default()),
        body: Body::Kept(body.into()),
    }
}

/// Reads an answer back.
///
/// Whoever can write to the store may have written it, so everything is checked again as if it
/// came from the wire, and nothing is allocated for bytes that are not there.
pub(crate) fn read(head: &[u8]) -> Result<Snapshot, Unreadable> {
    if head.is_empty() {
        // Whoever settled or completed it knew of no head: the body is the answer.
        return Ok(Snapshot {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            trailers: None,
        });
    }
    let mut from = Reader(head);
    match from.array()? {
        [VERSION] => {}
        [found] => return Err(Unreadable::Version { found }),
    }
    let status = StatusCode::from_u16(u16::from_le_bytes(from.array()?))
        .map_err(|_| Unreadable::Invalid { part: "status" })?;
    let headers = from.fields()?;
    let trailers = match from.array()? {
        [0] => None,
        [1] => Some(from.fields()?),
        _ => return Err(Unreadable::Invalid { part: "trailers" }),
    };
    match from.0 {
        [] => Ok(Snapshot {
            status,
            headers,
            trailers,
        }),
        _ => Err(Unreadable::TooLong),
    }
}

// === impl Keeping ===

impl Keeping<'_> {
    fn keep(&self, name: &HeaderName) -> bool {
        let cookie = *name == header::SET_COOKIE || name.as_str() == "set-cookie2";
        !is_never_kept(name)
            && (self.cookies || !cookie || seeded(Bug::CookieReplayed))
            && (is_always_kept(name) || self.only.is_none_or(|only| only.contains(name)))
    }
}

/// Whether no rule keeps a field: it holds for one connection or one moment, frames the body, or
/// is said by us alone.
fn is_never_kept(name: &HeaderName) -> bool {
    let of_the_moment = matches!(
        *name,
        header::AGE | header::AUTHORIZATION | header::CONTENT_LENGTH | header::DATE
    );
    let of_the_connection = is_hop_by_hop(name) && !seeded(Bug::HopByHopReplayed);
    of_the_moment || of_the_connection || is_ours(name)
}

/// Without these the body means something else, or the caller cannot find what was made when no body
/// is there any more.
fn is_always_kept(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONTENT_TYPE | header::CONTENT_ENCODING | header::LOCATION
    )
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Unreadable> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Unreadable::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Unreadable::Cut)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn fields(&mut self) -> Result<HeaderMap, Unreadable> {
        let invalid = |part| Unreadable::Invalid { part };
        let count = usize::from(u16::from_le_bytes(self.array()?));
        if count > self.0.len() / LINE_LEN_MIN {
            return Err(Unreadable::Cut);
        }
        let mut map =
            HeaderMap::try_with_capacity(count + ADDED).map_err(|_| invalid("number of fields"))?;
        for _ in 0..count {
            let len = u16::from_le_bytes(self.array()?);
            let name = HeaderName::from_bytes(self.take(len.into())?)
                .ok()
                // Replayed, it would cut the answer short or make two of it.
                .filter(|name| !is_never_kept(name))
                .ok_or(invalid("field name"))?;
            let len = u32::from_le_bytes(self.array()?);
            let value = HeaderValue::from_bytes(self.take(len as usize)?)
                .map_err(|_| invalid("field value"))?;
            map.try_append(name, value)
                .map_err(|_| invalid("number of fields"))?;
        }
        Ok(map)
    }
}

/// Appends the lines of the fields that are kept.
fn put_fields(out: &mut Vec<u8>, headers: &HeaderMap, keeps: impl Fn(&HeaderName) -> bool) {
    let start = out.len();
    let mut count: u16 = 0;
    out.extend(count.to_le_bytes());
    for (name, value) in headers.iter().filter(|(name, _)| keeps(name)) {
        let name = name.as_str().as_bytes();
        let name_len = u16::try_from(name.len()).expect("a header name is shorter than 64 KiB");
        let value_len = u32::try_from(value.len()).expect("a header value is shorter than 4 GiB");
        out.extend(name_len.to_le_bytes());
        out.extend(name);
        out.extend(value_len.to_le_bytes());
        out.extend(value.as_bytes());
        count += 1;
    }
    out[start..start + 2].copy_from_slice(&count.to_le_bytes());
}

#[cfg(test)]
mod tests;
