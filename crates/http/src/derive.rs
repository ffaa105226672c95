//! Keys that the server infers: what a request itself says about which operation it is.

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use onceward::{Fingerprint, Key};

use crate::headers::{IDEMPOTENCY_KEY, X_IDEMPOTENCY_KEY};
use crate::problem::Problem;
use crate::{Field, Fields, KeyNeed, KeySource, MissingFields, Terms};

/// What the text of a key begins with that is made of the request.
const MADE: &str = "d-";

/// Returns the key that is made of a request, if the terms say how.
pub(crate) fn key(terms: &Terms, parts: &Parts, body: &[u8]) -> Result<Option<Key>, Problem> {
    let digest = match &terms.key_from {
        KeySource::Fields(fields) => match fields.digest(parts, body) {
            Ok(digest) => digest.to_string(),
            Err(MissingFields::Absent(_)) if terms.key == KeyNeed::Optional => return Ok(None),
            Err(missing) => return Err(unnamed(fields, &missing)),
        },
        KeySource::BodyHash if !body.is_empty() => blake3::hash(body).to_string(),
        KeySource::BodyHash if terms.key == KeyNeed::Optional => return Ok(None),
        KeySource::BodyHash => {
            return Err(Problem::MissingFields(
                "The body names this operation, and the request has none. Nothing was executed."
                    .into(),
            ));
        }
        _ => return Ok(None),
    };
    let key = Key::parse(&format!("{MADE}{digest}"));
    Ok(Some(key.expect("hex digits are printable, and few")))
}

/// Returns the fingerprint of a request whose key is made of it: nothing beyond what the key is
/// made of counts, so that two messages for one operation meet.
pub(crate) fn fingerprint(terms: &Terms, key: &Key) -> Option<Fingerprint> {
    let made = terms.key_from.is_made();
    made.then(|| Fingerprint::of(key.as_str().as_bytes()))
}

/// Says that a header which has to name the operation is missing.
pub(crate) fn no_header(names: &[HeaderName]) -> Problem {
    let names: Vec<_> = names.iter().map(HeaderName::as_str).collect();
    let names = names.join(" or ");
    let told = format!(
        "The header {names} names this operation, and the request has none. Nothing was executed: \
         send it, the same on every retry."
    );
    Problem::MissingFields(told.into())
}

/// Removes keys that count for nothing, so that nobody behind takes them for the key.
pub(crate) fn forget_sent(headers: &mut HeaderMap) {
    headers.remove(IDEMPOTENCY_KEY);
    headers.remove(X_IDEMPOTENCY_KEY);
}

/// Refuses a key that is not what `field` says.
pub(crate) fn refuse_unequal(
    field: &Field,
    key: &Key,
    parts: &Parts,
    body: &[u8],
) -> Result<(), Problem> {
    let why = match field.text(parts, body) {
        Ok(Some(text)) if text == key.as_str() => return Ok(()),
        Ok(Some(_)) => format!("The idempotency key has to be equal to {field}, and is not."),
        Ok(None) => format!(
            "The idempotency key has to be equal to {field}, which is neither a text nor an \
             integer here."
        ),
        Err(missing) => format!("The idempotency key has to be equal to {field}, but {missing}."),
    };
    let told = format!("{why} Nothing was executed.");
    Err(Problem::InvalidKey(told.into()))
}

/// Says that the fields which name the operation cannot be told.
fn unnamed(fields: &Fields, missing: &MissingFields) -> Problem {
    let told = format!("This operation is named by {fields}, but {missing}. Nothing was executed.");
    match missing {
        MissingFields::Absent(_) => Problem::MissingFields(told.into()),
        MissingFields::NotJson | MissingFields::NotOne(_) => Problem::InvalidKey(told.into()),
    }
}
