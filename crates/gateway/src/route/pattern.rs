//! Patterns: a method and a path, with names for the parts that vary.

use std::fmt;

use http::Method;
use onceward_http::PathFields;
use percent_encoding::percent_decode_str;

/// Which requests a route is for: `POST /payments/{id}/refunds`.
///
/// ```
/// use onceward_gateway::route::Pattern;
///
/// let pattern = Pattern::parse("POST /payments/{id}").unwrap();
/// assert_eq!(pattern.to_string(), "POST /payments/{id}");
/// assert!(Pattern::parse("POST payments").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// No method is any method.
    method: Option<Method>,
    /// What stands between the slashes, the first of which begins the path.
    segments: Vec<Segment>,
}

/// What stands between two slashes of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Segment {
    /// Exactly this text; nothing at all after a trailing slash.
    Literal(Box<str>),
    /// Any segment of at least one byte.
    Name(Box<str>),
    /// Everything that is left, at least one byte.
    Rest(Box<str>),
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPattern {
    /// There is not one method and one path.
    #[error("is not a method and a path")]
    Shape,

    /// The method is not one.
    #[error("begins with {0:?}, which is not a method")]
    Method(String),

    /// The path does not begin with a slash.
    #[error("has a path that does not begin with a slash")]
    Relative,

    /// The path has a character that no path on the wire has.
    #[error("has {0:?} in its path, which no request has there")]
    Character(char),

    /// Braces stand in a segment beside something else, or hold no name.
    #[error("has {0:?} between two slashes, which is neither a text nor a name in braces")]
    Braces(String),

    /// Something follows the rest.
    #[error("goes on after {0:?}")]
    AfterRest(String),

    /// One name stands for two parts.
    #[error("has the name {0:?} twice")]
    Twice(String),
}

// === impl Pattern ===

impl Pattern {
    /// Returns the pattern that `text` says, or why it is none.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let mut words = text.split(' ');
        let (Some(method), Some(path), None) = (words.next(), words.next(), words.next()) else {
            return Err(InvalidPattern::Shape);
        };
        let segments = segments(path)?;
        Ok(Self {
            method: parse_method(method)?,
            segments,
        })
    }

    /// The method, or `None` for any.
    pub fn method(&self) -> Option<&Method> {
        self.method.as_ref()
    }

    /// The path, as written.
    pub fn path(&self) -> String {
        let parts = self.segments.iter().map(|segment| format!("/{segment}"));
        parts.collect()
    }

    /// The names of the parts that vary, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Name(name) | Segment::Rest(name) => Some(&**name),
        })
    }

    /// Whether every request that `other` matches is taken by `self`, so that a route with `other`
    /// is never used.
    ///
    /// The most specific pattern wins and a wider one never does, so this takes two patterns that
    /// match the very same requests: those that differ in nothing but names.
    pub fn shadows(&self, other: &Self) -> bool {
        let same = |(one, two): (&Segment, &Segment)| match (one, two) {
            (Segment::Literal(one), Segment::Literal(two)) => one == two,
            (Segment::Name(_), Segment::Name(_)) | (Segment::Rest(_), Segment::Rest(_)) => true,
            _ => false,
        };
        self.method == other.method
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(same)
    }

    /// Returns the parts of `path` that the pattern names, if the pattern matches it.
    pub fn captures<'p>(&self, path: &'p str) -> Option<Vec<(&str, &'p str)>> {
        let mut left = Some(path.strip_prefix('/')?);
        let mut found = Vec::new();
        for segment in &self.segments {
            let here = left?;
            let (part, after) = match here.split_once('/') {
                Some((part, after)) => (part, Some(after)),
                None => (here, None),
            };
            left = after;
            match segment {
                Segment::Literal(text) if **text == *part => {}
                Segment::Name(name) if !part.is_empty() => found.push((&**name, part)),
                Segment::Rest(name) if !here.is_empty() => {
                    found.push((&**name, here));
                    left = None;
                }
                _ => return None,
            }
        }
        left.is_none().then_some(found)
    }

    /// Returns the parts of `path` that the pattern names, decoded. One that cannot be decoded is
    /// left out.
    pub(crate) fn path_fields(&self, path: &str) -> PathFields {
        let captured = self.captures(path).unwrap_or_default();
        let rest = self
            .segments
            .last()
            .filter(|last| matches!(last, Segment::Rest(_)));
        let rest = rest.and_then(Segment::name);
        let decoded = captured.into_iter().filter_map(|(name, part)| {
            let part = match rest == Some(name) {
                true => decoded_rest(part),
                false => decoded(part),
            };
            Some((name, part?))
        });
        decoded.collect()
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

/// A segment without its escapes; `None` if that is not text, or a `%` begins none, for then two
/// segments would decode alike.
fn decoded(segment: &str) -> Option<String> {
    let is_escape = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let decoded = percent_decode_str(segment).decode_utf8().ok()?;
    let escaped = segment.split('%').skip(1).all(is_escape);
    escaped.then(|| decoded.into_owned())
}

/// Segments without their escapes, but for those of the slash: one in a segment separates nothing.
fn decoded_rest(segments: &str) -> Option<String> {
    let escaped = |segment| Some(decoded(segment)?.replace('%', "%25").replace('/', "%2F"));
    let segments: Option<Vec<_>> = segments.split('/').map(escaped).collect();
    Some(segments?.join("/"))
}

fn parse_method(text: &str) -> Result<Option<Method>, InvalidPattern> {
    if text == "*" {
        return Ok(None);
    }
    // Methods are case-sensitive, and all that are in use are in capitals: `post` is a slip.
    let capitals = text.bytes().all(|byte| !byte.is_ascii_lowercase());
    match Method::from_bytes(text.as_bytes()) {
        Ok(method) if capitals => Ok(Some(method)),
        _ => Err(InvalidPattern::Method(text.to_owned())),
    }
}

fn segments(path: &str) -> Result<Vec<Segment>, InvalidPattern> {
    let path = path.strip_prefix('/').ok_or(InvalidPattern::Relative)?;
    let strange = |c: &char| !c.is_ascii_graphic() || matches!(c, '?' | '#');
    if let Some(strange) = path.chars().find(strange) {
        return Err(InvalidPattern::Character(strange));
    }
    let mut segments: Vec<Segment> = Vec::new();
    for text in path.split('/') {
        if let Some(rest @ Segment::Rest(_)) = segments.last() {
            return Err(InvalidPattern::AfterRest(rest.to_string()));
        }
        let segment = Segment::parse(text)?;
        if let Some(name) = segment.name()
            && segments.iter().any(|known| known.name() == Some(name))
        {
            return Err(InvalidPattern::Twice(name.to_owned()));
        }
        segments.push(segment);
    }
    Ok(segments)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.method.as_ref().map_or("*", Method::as_str);
        write!(f, "{method} {}", self.path())
    }
}

// === impl Segment ===

impl Segment {
    fn parse(text: &str) -> Result<Self, InvalidPattern> {
        if !text.contains(['{', '}']) {
            return Ok(Self::Literal(text.into()));
        }
        let inner = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        let (name, rest) = match inner.map(|inner| (inner, inner.strip_prefix('*'))) {
            Some((_, Some(name))) => (name, true),
            Some((name, None)) => (name, false),
            None => return Err(InvalidPattern::Braces(text.to_owned())),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(InvalidPattern::Braces(text.to_owned()));
        }
        Ok(match rest {
            true => Self::Rest(name.into()),
            false => Self::Name(name.into()),
        })
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::Name(name) | Self::Rest(name) => Some(name),
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Name(name) => write!(f, "{{{name}}}"),
            Self::Rest(name) => write!(f, "{{*{name}}}"),
        }
    }
}

// === impl InvalidPattern ===

impl InvalidPattern {
    /// What to write instead.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Shape | Self::Relative => {
                "write a method, one space and a path, such as \"POST /payments\""
            }
            Self::Method(_) => "write a method in capitals, such as POST, or * for any",
            Self::Character(_) => {
                "write the path as it is on the wire, percent-encoded and without a query"
            }
            Self::Braces(_) => {
                "a name fills a whole segment, such as /payments/{id}, and has letters, digits, _ \
                 and - only"
            }
            Self::AfterRest(_) => "the rest can only stand at the end",
            Self::Twice(_) => "give each part its own name",
        }
    }
}
