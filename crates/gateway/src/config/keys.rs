//! What a table says about keys: where they are, what they are made of, and what they have to be.

use onceward_http::{Field, Fields, InvalidField, KeyNeed, KeySource, Profile};

use super::fields::Part;
use super::problem::{At, Source, Span};
use super::reader::Section;
use super::written::{Rules, Written, header_name, pointer};
use crate::route::Route;
use crate::units::Invalid;

/// The places that a key can come from.
const PLACES: [&str; 6] = ["header", "json", "form", "query", "fields", "body"];

/// What a table takes over from the one below it that belongs to its kind of key.
pub(super) struct Inherited {
    pub(super) key_from: Option<At<KeySource>>,
    pub(super) key_equals: Option<At<Field>>,
    pub(super) fingerprint: Option<At<Rules>>,
}

/// Reads where keys come from.
pub(super) fn key_from(source: &Source<'_>, table: &Section<'_>) -> Option<At<KeySource>> {
    let At { value: inner, span } = table.table("key_from", Part::KeyFrom)?;
    let name = |text: &str| match text {
        "" => Err(Invalid::new("is empty", "write the name of the field")),
        text => Ok(Box::from(text)),
    };
    let headers = inner.texts("header", header_name);
    let headers = headers.map(|list| list.value.into_iter().map(|one| one.value).collect());
    let found = [
        headers.map(KeySource::Headers),
        inner
            .parsed("json", pointer)
            .map(|at| KeySource::Json(at.value)),
        inner
            .parsed("form", name)
            .map(|at| KeySource::Form(at.value)),
        inner
            .parsed("query", name)
            .map(|at| KeySource::Query(at.value)),
        fields(source, &inner, "fields").map(KeySource::Fields),
        inner
            .word("body", &[("hash", KeySource::BodyHash)], &[])
            .map(|at| at.value),
    ];
    let count = PLACES.iter().filter(|place| inner.has(place)).count();
    if count != 1 || inner.is_empty("header") {
        source.refuse(
            &span,
            "key_from does not name one place",
            "write one of header, json, form, query, fields and body, such as { header = \
             \"Idempotency-Key\" }",
        );
        return unread(table, span);
    }
    match found.into_iter().flatten().next() {
        Some(value) => Some(At { value, span }),
        None => unread(table, span),
    }
}

/// What stands in for a place that was refused, so that nobody is told that there is none.
fn unread(table: &Section<'_>, span: Span) -> Option<At<KeySource>> {
    let derived = table.text("key").is_some_and(|key| key.value == "derived");
    let value = KeySource::BodyHash;
    derived.then_some(At { value, span })
}

/// Reads a list of fields of a request.
pub(super) fn fields(source: &Source<'_>, table: &Section<'_>, name: &str) -> Option<Fields> {
    let At { value: list, span } = table.texts(name, field)?;
    if list.is_empty() && !table.is_empty(name) {
        // Each was refused by itself.
        return None;
    }
    let made = Fields::new(list.into_iter().map(|one| one.value));
    let refused = made.map_err(|invalid| {
        let message = match invalid {
            InvalidField::None => format!("{name} names nothing"),
            other => format!("{name} {other}"),
        };
        let hint = format!("name each field once, such as {name} = [\"/order_id\"]");
        source.refuse(&span, message, hint);
    });
    refused.ok()
}

/// Refuses parts of the path that `what` names and that are not among `names`.
pub(super) fn check_parts<'n>(
    source: &Source<'_>,
    span: &Span,
    what: &str,
    named: impl Iterator<Item = &'n str>,
    names: &[&str],
) {
    for name in named.filter(|name| !names.contains(name)) {
        let known = match names {
            [] => "no part of this path has a name: write one into the match, such as {id}".into(),
            names => format!("known here: {{{}}}", names.join("}, {")),
        };
        let message = format!("{what} names {{{name}}}, which is no part of the match");
        source.refuse(span, message, known);
    }
}

/// Returns the name of a field of a request.
pub(super) fn field(text: &str) -> Result<Field, Invalid> {
    Field::parse(text).map_err(|invalid| {
        let hint = match invalid {
            InvalidField::Braces => "write the name of a part of the match, such as {id}",
            _ => "write a JSON pointer, such as /order/id, or a part of the match, such as {id}",
        };
        Invalid::new(invalid.to_string(), hint)
    })
}

/// Warns where routes share an operation, and their keys can never be equal.
pub(super) fn warn_apart(
    source: &Source<'_>,
    routes: &[Route],
    route: &Route,
    operation: &At<String>,
) {
    let made = |route: &Route| route.terms.key_from.is_made();
    let apart = |other: &&Route| {
        let same = other.terms.operation == route.terms.operation;
        let differ = match (&other.terms.key_from, &route.terms.key_from) {
            (KeySource::Fields(one), KeySource::Fields(two)) => {
                one.iter().len() != two.iter().len()
            }
            (one, two) => one != two,
        };
        same && differ && (made(route) || made(other)) && other.terms.key != KeyNeed::Off
    };
    if let Some(other) = routes
        .iter()
        .find(apart)
        .filter(|_| route.terms.key != KeyNeed::Off)
    {
        source.warn(
            &operation.span,
            format!(
                "operation {:?} is also that of line {}, where keys are made of something else: \
                 the two never meet",
                operation.value, other.line
            ),
            "make both keys of the same, with as many fields, or let their operations differ",
        );
    }
}

// === impl Written ===

impl Written {
    /// Returns what this table and the one below it say together about keys. What belongs to
    /// another kind of key is left out: a route that asks for keys has no use for fields, and one
    /// whose keys are made of fields has none for a fingerprint.
    pub(super) fn keys_over(&self, below: &Self) -> Inherited {
        let key = self.key.as_ref().or(below.key.as_ref()).map(|at| at.value);
        let derived = key == Some(KeyNeed::Derived);
        let fits = |from: &At<KeySource>| derived || !from.value.is_made();
        let below_from = || below.key_from.clone().filter(fits);
        let key_from = self.key_from.clone().or_else(below_from);
        let made = key_from.as_ref().is_some_and(|from| from.value.is_made());
        let sent = !derived && key != Some(KeyNeed::Off);
        let below_equals = || below.key_equals.clone().filter(|_| sent);
        let below_print = || below.fingerprint.clone().filter(|_| !made);
        Inherited {
            key_equals: self.key_equals.clone().or_else(below_equals),
            fingerprint: self.fingerprint.clone().or_else(below_print),
            key_from,
        }
    }

    /// Refuses what does not fit together, with `names` for the parts of the path that there are.
    pub(super) fn check_keys(&self, source: &Source<'_>, names: &[&str]) {
        let need = self.key.as_ref();
        match (
            need.filter(|key| key.value == KeyNeed::Derived),
            &self.key_from,
        ) {
            (Some(key), None) => source.refuse(
                &key.span,
                "key = \"derived\" needs a key_from",
                "add key_from = { fields = [\"/order_id\"] }, or { body = \"hash\" } or \
                 { header = \"X-Delivery-Id\" } for webhooks",
            ),
            (Some(_), Some(from)) => check_derived(source, from),
            (None, Some(from)) if from.value.is_made() => source.refuse(
                &from.span,
                "key_from makes keys of the request, which is for key = \"derived\" only",
                "add key = \"derived\", or say where callers put their key",
            ),
            (None, _) => {}
        }
        if let Some(At { value, .. }) = &self.key_from
            && let (true, Some(At { span, .. })) = (value.is_made(), &self.fingerprint)
        {
            source.refuse(
                span,
                "fingerprint is not used with this key_from: what the key is made of is all that \
                 counts",
                "remove the fingerprint",
            );
        }
        if let (Some(At { span, .. }), Some(KeyNeed::Derived | KeyNeed::Off)) =
            (&self.key_equals, need.map(|key| key.value))
        {
            source.refuse(
                span,
                "key_equals is for keys that callers send",
                "remove it, or write key = \"required\" or \"optional\"",
            );
        }
        self.check_path(source, names);
    }

    /// Refuses names of parts that the path does not have.
    fn check_path(&self, source: &Source<'_>, names: &[&str]) {
        if let Some(At { value, span }) = &self.key_from
            && let KeySource::Fields(fields) = value
        {
            check_parts(source, span, "key_from", fields.path_names(), names);
        }
        if let Some(At { value, span }) = &self.key_equals {
            let named = value.path_name().into_iter();
            check_parts(source, span, "key_equals", named, names);
        }
    }
}

/// Refuses a place in which callers put a key of their own.
fn check_derived(source: &Source<'_>, from: &At<KeySource>) {
    let of_callers = |name| {
        Profile::ALL
            .iter()
            .any(|profile| match KeySource::of(*profile) {
                KeySource::Headers(names) => names.contains(name),
                _ => false,
            })
    };
    let sent = match &from.value {
        KeySource::Headers(names) => names.iter().any(of_callers),
        other => !other.is_made(),
    };
    if sent {
        source.refuse(
            &from.span,
            "key = \"derived\" is for keys that callers do not choose, and here they do",
            "write key = \"required\", or derive it from { fields = [\"/order_id\"] }, { body = \
             \"hash\" } or the header of a delivery",
        );
    }
}
