//! Callers told apart by their credential, unverified.
//!
//! The service behind decides whether the credential is worth anything; here it only keeps
//! callers apart, so that a key of one never finds the answer of another.

use std::sync::LazyLock;

use blake3::hazmat::{ContextKey, HasherExt as _, hash_derive_key_context};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};

use super::{Caller, Unidentified};

/// How the schemes begin whose credential is computed for each attempt anew. So are all with an
/// `hmac` in them.
const PER_ATTEMPT: [&str; 9] = [
    "aws",
    "goog4-",
    "dpop",
    "digest",
    "signature",
    "hawk",
    "sharedkey",
    "ntlm",
    "negotiate",
];

/// What makes digests here differ from those anybody makes of the same credential elsewhere.
const CONTEXT: &str = "onceward 2026-01 caller by credential";

/// The key that [`CONTEXT`] stands for: deriving it takes as long as the rest of a digest.
static CONTEXT_KEY: LazyLock<ContextKey> = LazyLock::new(|| hash_derive_key_context(CONTEXT));

/// Who sent a request with these headers; one of those without a credential, if they are
/// `shared`.
pub(super) fn caller(headers: &HeaderMap, shared: bool) -> Result<Caller, Unidentified> {
    if let Some(value) = only(headers.get_all(AUTHORIZATION).iter())? {
        if changes_with_attempts(value) {
            return Err(Unidentified::PerAttempt);
        }
        return Ok(digested("authorization", value));
    }
    match only(headers.get_all("x-api-key").iter())? {
        Some(value) => Ok(digested("api-key", value)),
        None if shared => Ok(Caller::shared()),
        None => Err(Unidentified::Missing { scheme: None }),
    }
}

/// The one value there is, if there is one.
pub(super) fn only<'v>(
    mut values: impl Iterator<Item = &'v HeaderValue>,
) -> Result<Option<&'v HeaderValue>, Unidentified> {
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) if !value.as_bytes().trim_ascii().is_empty() => Ok(Some(value)),
        _ => Err(Unidentified::Ambiguous),
    }
}

fn changes_with_attempts(value: &HeaderValue) -> bool {
    let is = |scheme: &[u8]| {
        let start = value.as_bytes().get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    // What nearly everybody sends, and none of them.
    if is(b"bearer ") || is(b"basic ") {
        return false;
    }
    let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    let text = text.trim_start();
    // A lone word is a key without a scheme, whatever it begins with.
    let Some((scheme, rest)) = text.split_once([' ', '\t']) else {
        return false;
    };
    match scheme {
        // The name stands for a signature in version 1, and for a plain token elsewhere.
        "oauth" => rest.contains("oauth_"),
        _ => scheme.contains("hmac") || PER_ATTEMPT.iter().any(|with| scheme.starts_with(with)),
    }
}

/// A digest instead of the credential, for it is kept in the store. Half of BLAKE3 is enough to
/// tell callers apart. Whoever has the store and guesses a password could confirm the guess:
/// basic credentials of people are better replaced by a configured identity.
fn digested(by: &str, value: &HeaderValue) -> Caller {
    let text = [by.as_bytes(), b"\0", value.as_bytes().trim_ascii()].concat();
    let digest = blake3::Hasher::new_from_context_key(&CONTEXT_KEY)
        .update(&text)
        .finalize();
    Caller::named(by, &digest.to_hex()[..32]).expect("32 digits are a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records are filed under it.
    #[test]
    fn a_digest_is_what_its_context_makes_of_the_credential() {
        let digest = blake3::derive_key(CONTEXT, b"authorization\0Bearer x");
        let value = HeaderValue::from_static(" Bearer x ");
        let caller = digested("authorization", &value);
        let digits = blake3::Hash::from(digest).to_hex();
        assert_eq!(
            &*caller.into_tenant(),
            format!("authorization:{}", &digits[..32])
        );
    }
}
