//! Fields: names for parts of a request, and a digest of what stands there.
//!
//! They know nothing of keys: whatever has to tell whether two requests are about the same thing
//! can ask for the [`FieldsDigest`] of each.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use http::request::Parts;

use crate::Pointer;
use crate::fingerprint::json::{self, Scalar};
use crate::fingerprint::{is_form, is_json, media_type};

mod path;

pub use path::PathFields;

/// The name of a part of a request: `/order/id` or `{account}`.
///
/// A JSON pointer stands for a member of a JSON body or, where it has one step, for the field of
/// that name in a form. A name in braces stands for a part of the path ([`PathFields`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field(Place);

/// Where a field is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Body(Pointer),
    /// The name without its braces.
    Path(Box<str>),
}

/// Parts of a request that together say what it is about.
///
/// Two requests are about the same thing if their values are, one by one in the order in which
/// the fields are named. What the fields are called does not count: two messages may call one
/// thing differently.
///
/// ```
/// use http::Request;
/// use onceward_http::Fields;
///
/// let settled = Fields::parse(["/payment_id", "/status"])?;
/// let (parts, ()) = Request::post("/settle").body(()).unwrap().into_parts();
/// let one = settled.digest(&parts, br#"{"payment_id": 100, "status": "settled"}"#)?;
/// let two = settled.digest(&parts, br#"{"note": "again", "status": "settled", "payment_id": "100"}"#)?;
/// assert_eq!(one, two);
///
/// let corrected = Fields::parse(["/id", "/new_status"])?;
/// let three = corrected.digest(&parts, br#"{"new_status": "settled", "id": 1e2}"#)?;
/// assert_eq!(one, three);
///
/// let missing = settled.digest(&parts, br#"{"payment_id": 100}"#).unwrap_err();
/// assert_eq!(missing.to_string(), "the request has no /status");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fields {
    all: Vec<Field>,
    /// Those of the body once more, in the same order: a body is read once for all of them.
    body: Vec<Pointer>,
}

/// A digest of the values of [`Fields`]: equal for equal values, however they are spelled, and
/// different for different ones.
///
/// It is not keyed, so a value of which there are few can be guessed from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FieldsDigest([u8; 32]);

/// Why a text, or a list of them, does not name fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidField {
    /// There is none.
    #[error("no field is named")]
    None,

    /// It is empty, which as a JSON pointer would be the whole body.
    #[error("is empty, which names no part of the request")]
    Empty,

    /// It begins like neither kind.
    #[error("is neither a JSON pointer nor a name in braces")]
    Unknown,

    /// It begins with a slash and is no JSON pointer.
    #[error("is not a JSON pointer: a ~ stands there that begins neither ~0 nor ~1")]
    Pointer,

    /// The braces do not hold one name.
    #[error("is not one name in braces")]
    Braces,

    /// One name stands there twice.
    #[error("names {0} twice")]
    Twice(Box<str>),
}

/// Why what fields name cannot be told from a request. The texts name fields, and never what
/// stands there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingFields {
    /// These are not there, or `null`.
    #[error("the request has no {}", .0.join(" and no "))]
    Absent(Vec<Box<str>>),

    /// The body is JSON that readers could take for different things, or not JSON.
    #[error(
        "the body is not JSON that has one meaning, so its fields cannot be read; send valid \
         JSON in UTF-8 without repeated members"
    )]
    NotJson,

    /// This field of a form is there more than once, or is not UTF-8.
    #[error("the form has more than one reading of {0}; send it once, in UTF-8")]
    NotOne(Box<str>),
}

/// A digest that is never that of something else.
const CONTEXT: &str = "onceward 2026-11 values of a request";

// === impl Field ===

impl Field {
    /// Returns the field that `name` names, or why it names none.
    pub fn parse(name: &str) -> Result<Self, InvalidField> {
        match name.as_bytes() {
            [] => Err(InvalidField::Empty),
            [b'/', ..] => match Pointer::parse(name) {
                Ok(pointer) => Ok(Self(Place::Body(pointer))),
                Err(_) => Err(InvalidField::Pointer),
            },
            [b'{', inner @ .., b'}'] if is_name(inner) => {
                Ok(Self(Place::Path(name[1..name.len() - 1].into())))
            }
            [b'{', ..] => Err(InvalidField::Braces),
            _ => Err(InvalidField::Unknown),
        }
    }

    /// Returns the part of the path that the field names, if it names one.
    pub fn path_name(&self) -> Option<&str> {
        match &self.0 {
            Place::Path(name) => Some(name),
            Place::Body(_) => None,
        }
    }

    /// Returns what stands in the field, if it is a text or an integer.
    pub(crate) fn text<'a>(
        &self,
        parts: &'a Parts,
        body: &'a [u8],
    ) -> Result<Option<Cow<'a, str>>, MissingFields> {
        let absent = || MissingFields::Absent(vec![self.to_string().into()]);
        let pointer = match &self.0 {
            Place::Path(name) => {
                let found = PathFields::of(parts).and_then(|path| path.get(name));
                return Ok(Some(found.ok_or_else(absent)?.into()));
            }
            Place::Body(pointer) => pointer,
        };
        let found = match Kind::of(parts, body) {
            Kind::Form => return Ok(Some(in_form(pointer, body)?.ok_or_else(absent)?.into())),
            Kind::Json => json::find(body, pointer).ok_or(MissingFields::NotJson)?,
            Kind::Maybe => json::find(body, pointer).ok_or_else(absent)?,
        };
        match found {
            Scalar::Absent | Scalar::Null => Err(absent()),
            Scalar::Text(text) => Ok(Some(text.into())),
            Scalar::Integer(digits) => Ok(Some(digits.into())),
            Scalar::Other => Ok(None),
        }
    }
}

fn is_name(bytes: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !bytes.is_empty() && bytes.iter().all(fits)
}

impl FromStr for Field {
    type Err = InvalidField;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Body(pointer) => pointer.fmt(f),
            Place::Path(name) => write!(f, "{{{name}}}"),
        }
    }
}

// === impl Fields ===

impl Fields {
    /// Returns the fields of these names, in this order, or why they name none.
    pub fn parse<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Self, InvalidField> {
        let fields = names.into_iter().map(|name| Field::parse(name.as_ref()));
        Self::new(fields.collect::<Result<Vec<_>, _>>()?)
    }

    /// Returns these fields, in this order: at least one, and none twice.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Result<Self, InvalidField> {
        let all: Vec<_> = fields.into_iter().collect();
        let twice = (1..all.len()).find(|at| all[..*at].contains(&all[*at]));
        match twice {
            _ if all.is_empty() => return Err(InvalidField::None),
            Some(at) => return Err(InvalidField::Twice(all[at].to_string().into())),
            None => {}
        }
        let body = all.iter().filter_map(|field| match &field.0 {
            Place::Body(pointer) => Some(pointer.clone()),
            Place::Path(_) => None,
        });
        let body = body.collect();
        Ok(Self { all, body })
    }

    /// Returns the fields in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.all.iter()
    }

    /// Returns the parts of the path among them, without braces.
    pub fn path_names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().filter_map(Field::path_name)
    }

    /// Returns the digest of what stands in the fields of a request with this whole body.
    ///
    /// Values are compared by what they mean: `100`, `100.0` and `1e2` are one number, and so is
    /// the text `"100"`, because in a form and in a path there are only texts. `"0100"` is
    /// another text. `null` counts as missing, an empty text does not.
    pub fn digest(&self, parts: &Parts, body: &[u8]) -> Result<FieldsDigest, MissingFields> {
        let path = PathFields::of(parts);
        let mut in_body = self.in_body(parts, body)?.into_iter();
        let (mut absent, mut hasher) = (Vec::new(), blake3::Hasher::new_derive_key(CONTEXT));
        for field in &self.all {
            let found = match &field.0 {
                Place::Body(_) => in_body.next().flatten(),
                Place::Path(name) => path.and_then(|path| path.get(name)).map(json::text),
            };
            match found.map(json::whole) {
                Some(value) => {
                    hasher.update(&(value.len() as u64).to_le_bytes());
                    hasher.update(&value);
                }
                None => absent.push(field.to_string().into()),
            }
        }
        match absent.is_empty() {
            true => Ok(FieldsDigest(*hasher.finalize().as_bytes())),
            false => Err(MissingFields::Absent(absent)),
        }
    }

    /// What stands in each of the body's fields, in the one spelling of its value.
    fn in_body(&self, parts: &Parts, body: &[u8]) -> Result<Vec<Option<Vec<u8>>>, MissingFields> {
        if self.body.is_empty() {
            return Ok(Vec::new());
        }
        match Kind::of(parts, body) {
            Kind::Json => json::pick(body, &self.body).ok_or(MissingFields::NotJson),
            Kind::Maybe => {
                let none = || self.body.iter().map(|_| None).collect();
                Ok(json::pick(body, &self.body).unwrap_or_else(none))
            }
            Kind::Form => {
                let fields = self.body.iter().map(|pointer| in_form(pointer, body));
                let spelled = fields.map(|found| Ok(found?.as_deref().map(json::text)));
                spelled.collect()
            }
        }
    }
}

impl fmt::Display for Fields {
    /// The names, as a sentence lists them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.all.iter().map(Field::to_string).collect();
        match names.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{} and {last}", others.join(", ")),
            None => Ok(()),
        }
    }
}

// === impl FieldsDigest ===

impl FieldsDigest {
    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for FieldsDigest {
    /// 64 hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

/// What the fields of a body are read from.
enum Kind {
    Json,
    Form,
    /// Whatever it says to be: if it is not JSON, it has no fields.
    Maybe,
}

// === impl Kind ===

impl Kind {
    fn of(parts: &Parts, body: &[u8]) -> Self {
        match media_type(&parts.headers) {
            Some(media) if is_form(media) => Self::Form,
            Some(media) if !is_json(media) => Self::Maybe,
            // No body at all is told by the names that are missing.
            _ if body.is_empty() => Self::Maybe,
            _ => Self::Json,
        }
    }
}

/// Returns the field of a form that a pointer of one step names.
fn in_form(pointer: &Pointer, body: &[u8]) -> Result<Option<String>, MissingFields> {
    let [name] = pointer.tokens() else {
        return Ok(None);
    };
    let mut values = form_urlencoded::parse(body).filter(|(found, _)| *found == **name);
    let Some((_, value)) = values.next() else {
        return Ok(None);
    };
    // Bytes that are not UTF-8 would all decode alike.
    if values.next().is_some() || value.contains(char::REPLACEMENT_CHARACTER) {
        return Err(MissingFields::NotOne(pointer.as_str().into()));
    }
    Ok(Some(value.into_owned()))
}

#[cfg(test)]
mod tests;
