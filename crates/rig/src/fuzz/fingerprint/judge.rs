//! Bytes that may be JSON, with another parser as the judge.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::print;
use onceward_http::BodyRule;

/// A document of which nothing is kept but whether all its names are unique.
struct Unique;

struct UniqueVisitor;

/// Compares what is JSON with what the other parser takes for it, and the value with what that
/// parser makes of it where it does so exactly.
pub(super) fn check(body: &[u8]) {
    let rule = BodyRule::Json {
        ignore: Vec::new(),
        only: Vec::new(),
    };
    let of = |body: &[u8]| print(&rule, "application/json", body);
    // Only what is read as JSON does not change with white space behind it.
    let is_json = of(body) == of(&[body, b" "].concat());
    let parsed = serde_json::from_slice::<serde_json::Value>(body);
    let has_long_number = body
        .split(|byte| !byte.is_ascii_digit())
        .any(|digits| digits.len() > 18);
    match parsed {
        Err(error) => {
            let why = error.to_string();
            // Limits that only the other parser has.
            let is_limit = why.contains("number out of range") || why.contains("recursion limit");
            assert!(!is_json || is_limit, "taken for JSON: {why}");
        }
        Ok(value) => {
            let is_unique = serde_json::from_slice::<Unique>(body).is_ok();
            assert!(
                is_json == is_unique || is_unique && has_long_number,
                "{value}"
            );
            if is_json && is_exact(&value) {
                let again = serde_json::to_vec(&value).expect("a value can be written");
                assert_eq!(of(body), of(&again), "{value}");
            }
        }
    }
}

/// Whether the other parser keeps every number as it was.
fn is_exact(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.is_i64() || number.is_u64(),
        serde_json::Value::Array(values) => values.iter().all(is_exact),
        serde_json::Value::Object(members) => members.values().all(is_exact),
        _ => true,
    }
}

// === impl Unique ===

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueVisitor)
    }
}

// === impl UniqueVisitor ===

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated names")
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Unique, A::Error> {
        while from.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Unique, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, Unique)) = from.next_entry::<String, Unique>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("a name is repeated"));
            }
        }
        Ok(Unique)
    }
}
