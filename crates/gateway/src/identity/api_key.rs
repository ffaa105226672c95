//! Callers by keys that are known here, of which the file has only digests.

use std::fs;
use std::path::Path;

use http::{HeaderMap, HeaderName};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::credential::only;
use super::{ApiKeySettings, Caller, SetupError, Unidentified};

/// The keys of a file.
#[derive(Debug)]
pub(super) struct ApiKeys {
    header: HeaderName,
    keys: Vec<([u8; 32], Caller)>,
}

const HINT: &str = "write id = \"sha256:..\" in each line, with the 64 digits that printf %s KEY | sha256sum \
     prints";

// === impl ApiKeys ===

impl ApiKeys {
    /// Reads the file that `settings` name.
    pub(super) fn new(settings: &ApiKeySettings) -> Result<Self, SetupError> {
        let path = &settings.keys;
        let text = fs::read_to_string(path).map_err(|source| SetupError::Unreadable {
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            header: settings.header.clone(),
            keys: keys(path, &text)?,
        })
    }

    /// Who sent a request with these headers. Looks at every key, so that the time tells nothing.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Unidentified> {
        let value = only(headers.get_all(&self.header).iter())?;
        let value = value.ok_or(Unidentified::Missing { scheme: None })?;
        let digest: [u8; 32] = Sha256::digest(value.as_bytes().trim_ascii()).into();
        let (mut found, mut place) = (Choice::from(0), 0);
        for (at, (known, _)) in (0u64..).zip(&self.keys) {
            let same = known.ct_eq(&digest);
            place.conditional_assign(&at, same);
            found |= same;
        }
        match bool::from(found) {
            true => Ok(self.keys[place as usize].1.clone()),
            false => Err(Unidentified::Wrong { scheme: None }),
        }
    }
}

fn keys(path: &Path, text: &str) -> Result<Vec<([u8; 32], Caller)>, SetupError> {
    let invalid = |problem: String| SetupError::Invalid {
        path: path.to_owned(),
        problem,
        hint: HINT,
    };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.get(..start).unwrap_or(text).matches('\n').count() + 1;
        invalid(format!("line {line}: {}", error.message()))
    })?;
    if table.is_empty() {
        return Err(invalid("there is no key in it".into()));
    }
    let mut keys: Vec<([u8; 32], Caller)> = Vec::with_capacity(table.len());
    for (id, value) in &table {
        // What is not a digest may be a key, and is not shown.
        let digest = value.as_str().and_then(|text| text.strip_prefix("sha256:"));
        let Some(digest) = digest.and_then(unhex) else {
            return Err(invalid(format!("the value of {id:?} is not a digest")));
        };
        let Some(caller) = Caller::named("key", id) else {
            return Err(invalid(format!("{id:?} is not an id")));
        };
        if keys.iter().any(|(known, _)| *known == digest) {
            return Err(invalid(format!("the key of {id:?} has another id as well")));
        }
        keys.push((digest, caller));
    }
    Ok(keys)
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}
