//! Fingerprints: what makes a request the same request.

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use onceward::Fingerprint;
use onceward::bugs::{Bug, seeded};

mod form;
pub(crate) mod json;
mod multipart;
mod pointer;

pub use pointer::{InvalidPointer, Pointer};

/// Which parts of a request its fingerprint covers.
///
/// Always method, path, query, media type without parameters and content coding; beyond that the
/// body as `body` says, the `headers` that carry meaning, and the trailers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FingerprintRules {
    /// How the body counts. Default: byte by byte.
    pub body: BodyRule,
    /// Headers that carry meaning, such as `If-Match`. Default: none, for most change between
    /// attempts of one call.
    pub headers: Vec<HeaderName>,
}

/// How a body counts.
///
/// One that is not what the rule says counts byte by byte.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum BodyRule {
    /// Byte by byte.
    #[default]
    Bytes,
    /// As a JSON value: order of members, white space and spelling of numbers do not count.
    Json {
        /// What is left out. Not together with `only`.
        ignore: Vec<Pointer>,
        /// What alone counts; empty is everything.
        only: Vec<Pointer>,
    },
    /// As a form: decoded, in the order of the names.
    Form,
    /// As parts: names, file names, media types and contents.
    Multipart,
    /// Not at all.
    None,
}

/// How a body was read, which is part of what is hashed: a body read in one way is never equal
/// to one read in another.
#[derive(Clone, Copy)]
enum Reading {
    Bytes = 1,
    Json = 2,
    NotJson = 3,
    Form = 4,
    NotForm = 5,
    Multipart = 6,
    NotMultipart = 7,
    Nothing = 8,
}

/// A 64-bit FNV-1a digest: enough to tell configurations apart, and cheap enough to be computed
/// for every request.
#[derive(Clone, Copy)]
struct Fnv(u64);

// === impl FingerprintRules ===

impl FingerprintRules {
    /// The version of the way in which parts are laid out for hashing.
    const LAYOUT: u8 = 1;

    /// Returns the fingerprint of a request with its whole body, and with the trailers that came
    /// after it.
    pub fn of(&self, parts: &Parts, body: &[u8], trailers: Option<&HeaderMap>) -> Fingerprint {
        let mut head = Vec::with_capacity(256);
        put(&mut head, parts.method.as_str().as_bytes());
        put(&mut head, parts.uri.path().as_bytes());
        let query = parts.uri.query();
        let query = query.filter(|_| !seeded(Bug::FingerprintIgnoresQuery));
        put_optional(&mut head, query.map(str::as_bytes));
        put_lower(&mut head, &parts.headers, &header::CONTENT_TYPE, essence);
        put_lower(
            &mut head,
            &parts.headers,
            &header::CONTENT_ENCODING,
            <[u8]>::trim_ascii,
        );

        let (reading, read) = self.body.read(&parts.headers, body);
        head.push(reading as u8);
        let body = read.as_deref().unwrap_or(body);

        let trailers = trailers.filter(|trailers| !trailers.is_empty());
        if self.headers.is_empty() && trailers.is_none() {
            return Fingerprint::of_parts(self.version(), &[&head, body]);
        }
        let mut tail = Vec::new();
        put_fields(&mut tail, &parts.headers, self.headers.iter().collect());
        if let Some(trailers) = trailers {
            put_fields(&mut tail, trailers, trailers.keys().collect());
        }
        Fingerprint::of_parts(self.version(), &[&head, body, &tail])
    }

    /// A number for these rules, which records keep beside the digest: rules that say something
    /// else have another one. The order of lists does not count.
    pub fn version(&self) -> u16 {
        let mut sum = Fnv::START.add(&[Self::LAYOUT]);
        sum = match &self.body {
            BodyRule::Bytes => sum.add(b"b"),
            BodyRule::Form => sum.add(b"f"),
            BodyRule::Multipart => sum.add(b"m"),
            BodyRule::None => sum.add(b"n"),
            BodyRule::Json { ignore, only } => sum
                .add(b"j")
                .add_set(ignore, |pointer| pointer.as_str().as_bytes())
                .add_set(only, |pointer| pointer.as_str().as_bytes()),
        };
        sum = sum.add_set(&self.headers, |name| name.as_str().as_bytes());
        // Version 0 is that of fingerprints made without any rules.
        sum.fold().max(1)
    }
}

// === impl BodyRule ===

impl BodyRule {
    /// Reads a body: in which way, and what that gives unless it is the bytes as they are.
    fn read(&self, headers: &HeaderMap, body: &[u8]) -> (Reading, Option<Vec<u8>>) {
        let read = |made: Option<Vec<u8>>, is, is_not| match made {
            Some(made) => (is, Some(made)),
            None => (is_not, None),
        };
        match self {
            Self::Bytes => (Reading::Bytes, None),
            Self::None => (Reading::Nothing, Some(Vec::new())),
            Self::Json { ignore, only } => {
                let made = json::canonical(body, ignore, only);
                read(made, Reading::Json, Reading::NotJson)
            }
            Self::Form => {
                let made = media_type(headers)
                    .filter(|media| is_form(media))
                    .and_then(|_| form::canonical(body));
                read(made, Reading::Form, Reading::NotForm)
            }
            Self::Multipart => {
                let made = only_line(headers, &header::CONTENT_TYPE)
                    .and_then(|line| str::from_utf8(line).ok())
                    .and_then(|media| multipart::canonical(media, body));
                read(made, Reading::Multipart, Reading::NotMultipart)
            }
        }
    }
}

// === impl Fnv ===

impl Fnv {
    const START: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        }))
    }

    /// Adds a list whose order and repetitions do not count: the sum of its items' digests.
    fn add_set<T: PartialEq>(self, items: &[T], bytes: impl Fn(&T) -> &[u8]) -> Self {
        let distinct = items
            .iter()
            .enumerate()
            .filter(|(at, item)| !items[..*at].contains(item))
            .map(|(_, item)| Self::START.add(bytes(item)).0);
        let (count, sum) = distinct.fold((0_u64, 0_u64), |(count, sum), item| {
            (count + 1, sum.wrapping_add(item))
        });
        self.add(&count.to_le_bytes()).add(&sum.to_le_bytes())
    }

    fn fold(self) -> u16 {
        let [a, b, c, d, e, f, g, h] = self.0.to_le_bytes();
        u16::from_le_bytes([a ^ c ^ e ^ g, b ^ d ^ f ^ h])
    }
}

/// The media type of a request, as written but without parameters; `None` if it has none, or
/// several.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<&[u8]> {
    only_line(headers, &header::CONTENT_TYPE).map(essence)
}

/// Whether a media type is that of a URL-encoded form.
pub(crate) fn is_form(media: &[u8]) -> bool {
    media.eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

/// Whether a media type is JSON, or built on it.
pub(crate) fn is_json(media: &[u8]) -> bool {
    let media = media.to_ascii_lowercase();
    media == b"application/json" || media == b"text/json" || media.ends_with(b"+json")
}

fn only_line<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?;
    lines.next().is_none().then(|| line.as_bytes())
}

/// A media type without parameters.
fn essence(media: &[u8]) -> &[u8] {
    let end = media.iter().position(|byte| *byte == b';');
    media[..end.unwrap_or(media.len())].trim_ascii()
}

/// Appends `bytes` with their length before them.
fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    put(out, bytes.unwrap_or_default());
}

/// Appends all lines of a field, in lower case.
fn put_lower(
    out: &mut Vec<u8>,
    headers: &HeaderMap,
    name: &HeaderName,
    part: impl Fn(&[u8]) -> &[u8],
) {
    for line in headers.get_all(name) {
        put_optional(out, Some(part(line.as_bytes())));
        let start = out.len() - part(line.as_bytes()).len();
        out[start..].make_ascii_lowercase();
    }
    out.push(0);
}

/// Appends the fields of these names, in their order, each with all its lines.
fn put_fields(out: &mut Vec<u8>, headers: &HeaderMap, mut names: Vec<&HeaderName>) {
    names.sort_unstable_by_key(|name| name.as_str());
    names.dedup();
    out.extend((names.len() as u64).to_le_bytes());
    for name in names {
        put(out, name.as_str().as_bytes());
        let lines = headers.get_all(name);
        out.extend((lines.iter().count() as u64).to_le_bytes());
        for line in lines {
            put(out, line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
