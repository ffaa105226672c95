//! Rules: what names work besides its key.
//!
//! Callers get keys wrong: they make a new one for every retry, or pay one order from two tabs. A
//! [`UniqueRule`] says what succeeds once whatever the key, a [`SuspectRule`] what is hardly meant
//! twice in a row.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use onceward::{Arrival, Identity, Secret, Suspicion, Then};

use crate::fingerprint::json;
use crate::headers::IDEMPOTENCY_CONFIRM;
use crate::problem::Problem;
use crate::{Field, Fields, InvalidField, MissingFields, Pointer, Terms};

/// What succeeds once per caller, whatever the key: the payment of an order, the cancellation of
/// a subscription.
///
/// Rules of one name stand for one identity, on whatever route: they meet where the values of
/// their fields are equal, one by one in the order in which they are listed. A request without
/// one of the fields is refused.
///
/// ```
/// use onceward::Then;
/// use onceward_http::{Facts, Terms, UniqueRule};
///
/// let paid = UniqueRule::new("paid-order", Facts::parse(["/order_id"])?);
/// let terms = Terms::default().unique(paid.then(Then::Refuse));
/// # Ok::<(), onceward_http::InvalidField>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UniqueRule {
    /// The name of the rule.
    pub name: Arc<str>,
    /// What tells one from another.
    pub on: Facts,
    /// What a caller gets whose work has succeeded under another key. Default: its answer.
    pub then: Then,
}

/// What is hardly meant twice within a short time, under whatever keys: a guess, never a promise.
///
/// A request without one of the fields passes. So does one with the header
/// `Idempotency-Confirm: intended`.
///
/// ```
/// use std::time::Duration;
///
/// use onceward::Suspicion;
/// use onceward_http::{Facts, SuspectRule, Terms};
///
/// let facts = Facts::parse(["/user_id", "/order_id", "/amount"])?;
/// let rule = SuspectRule::new("same-payment", facts, Duration::from_secs(30));
/// let terms = Terms::default().suspect(rule.then(Suspicion::Refuse));
/// # Ok::<(), onceward_http::InvalidField>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SuspectRule {
    /// The name of the rule.
    pub name: Arc<str>,
    /// What has to be equal.
    pub same: Facts,
    /// For how long it is compared.
    pub within: Duration,
    /// What a caller gets whose work looks like that under another key. Default: it passes, and
    /// its record says so.
    pub then: Suspicion,
}

/// Parts of a request that together name something outside of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts(Vec<Fact>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Fact {
    field: Field,
    /// Where it is, unless that is in the path.
    pointer: Option<Pointer>,
}

/// In the extensions of a request: its caller says that it is meant.
#[derive(Clone, Copy, Debug)]
struct Confirmed;

// === impl UniqueRule ===

impl UniqueRule {
    /// Returns the rule that work of which `on` is the same succeeds once.
    pub fn new(name: impl Into<Arc<str>>, on: Facts) -> Self {
        Self {
            name: name.into(),
            on,
            then: Then::default(),
        }
    }

    /// Sets what a caller gets whose work has succeeded under another key.
    #[must_use]
    pub fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }

    fn identity(&self, parts: &Parts, body: &[u8]) -> Result<Identity, Problem> {
        let value = self.on.value(parts, body).map_err(|missing| {
            let told = format!(
                "This operation is done once for each {}, but {missing}. Nothing was executed.",
                self.on
            );
            Problem::InvalidRequest(told.into())
        })?;
        Ok(Identity::unique(self.name.clone(), value, self.then))
    }
}

// === impl SuspectRule ===

impl SuspectRule {
    /// Returns the rule that work of which all of `same` are the same is hardly meant twice
    /// `within` that time.
    pub fn new(name: impl Into<Arc<str>>, same: Facts, within: Duration) -> Self {
        Self {
            name: name.into(),
            same,
            within,
            then: Suspicion::default(),
        }
    }

    /// Sets what a caller gets whose work looks like that under another key.
    #[must_use]
    pub fn then(mut self, then: Suspicion) -> Self {
        self.then = then;
        self
    }

    fn identity(&self, parts: &Parts, body: &[u8]) -> Option<Identity> {
        let value = self.same.value(parts, body).ok()?;
        let identity = Identity::suspect(self.name.clone(), value, self.within, self.then);
        let meant = parts.extensions.get::<Confirmed>().is_some();
        Some(match meant {
            true => identity.confirmed(),
            false => identity,
        })
    }
}

// === impl Facts ===

impl Facts {
    /// Returns the fields of these names, in this order, or why they name none.
    pub fn parse<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Self, InvalidField> {
        let fields = names.into_iter().map(|name| Field::parse(name.as_ref()));
        Self::new(fields.collect::<Result<Vec<_>, _>>()?)
    }

    /// Returns these fields, in this order: at least one, and none twice.
    pub fn new(fields: Vec<Field>) -> Result<Self, InvalidField> {
        Fields::new(fields.iter().cloned())?;
        let facts = fields.into_iter().map(|field| Fact {
            pointer: Pointer::parse(&field.to_string()).ok(),
            field,
        });
        Ok(Self(facts.collect()))
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the parts of the path among them, without braces.
    pub fn path_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|fact| fact.field.path_name())
    }

    /// Returns what stands in the fields, for comparing: without their names, so that two routes
    /// which call one thing differently mean the same.
    fn value(&self, parts: &Parts, body: &[u8]) -> Result<Vec<u8>, MissingFields> {
        let (mut value, mut absent) = (Vec::new(), Vec::new());
        for fact in &self.0 {
            match fact.value(parts, body) {
                Ok(one) => {
                    value.extend_from_slice(&(one.len() as u64).to_le_bytes());
                    value.extend(one);
                }
                Err(MissingFields::Absent(names)) => absent.extend(names),
                Err(unreadable) => return Err(unreadable),
            }
        }
        match absent.is_empty() {
            true => Ok(value),
            false => Err(MissingFields::Absent(absent)),
        }
    }
}

impl fmt::Display for Facts {
    /// The names, as a sentence lists them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|fact| fact.field.to_string()).collect();
        match names.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{} and {last}", others.join(", ")),
            None => Ok(()),
        }
    }
}

// === impl Fact ===

impl Fact {
    /// Returns the one spelling of what stands there. A text of digits is the number that it
    /// spells: an order is 42 in a path, and may be `42` or `"42"` in a body.
    fn value(&self, parts: &Parts, body: &[u8]) -> Result<Vec<u8>, MissingFields> {
        let alone = |document: &[u8], pointer| {
            let found = json::pick(document, std::slice::from_ref(pointer));
            found.and_then(|mut found| found.pop().flatten())
        };
        match (self.field.text(parts, body)?, &self.pointer) {
            (Some(text), _) if is_whole_number(&text) => {
                let whole = Pointer::parse("").expect("the empty pointer is one");
                let spelled = alone(text.as_bytes(), &whole);
                Ok(spelled.expect("digits without a leading zero are a number"))
            }
            (Some(text), _) => Ok(json::text(&text)),
            (None, Some(pointer)) => alone(body, pointer).ok_or(MissingFields::NotJson),
            (None, None) => unreachable!("a part of the path is a text"),
        }
    }
}

/// Whether a text spells a whole number, and in the one way that does.
fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let zeros = digits.len() > 1 && digits.starts_with('0');
    !digits.is_empty() && !zeros && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `terms` bind work to anything besides its key.
pub(crate) fn apply(terms: &Terms) -> bool {
    !terms.unique.is_empty() || terms.suspect.is_some()
}

/// Whether a rule of `terms` names parts of the path.
pub(crate) fn need_path(terms: &Terms) -> bool {
    let unique = terms.unique.iter().map(|rule| &rule.on);
    let suspect = terms.suspect.iter().map(|rule| &rule.same);
    let mut all = unique.chain(suspect);
    all.any(|facts| facts.path_names().next().is_some())
}

/// Binds work to what the rules find in its request, or says what is missing there.
pub(crate) fn bind(
    mut arrival: Arrival,
    terms: &Terms,
    parts: &Parts,
    body: &[u8],
    secret: &Secret,
) -> Result<Arrival, Problem> {
    for rule in &terms.unique {
        arrival = arrival.under(rule.identity(parts, body)?, secret);
    }
    let suspect = terms.suspect.as_ref();
    Ok(match suspect.and_then(|rule| rule.identity(parts, body)) {
        Some(identity) => arrival.under(identity, secret),
        None => arrival,
    })
}

/// Takes the header away by which a caller says that a request is meant, and remembers what it
/// said.
pub(crate) fn take_confirmation(parts: &mut Parts) {
    let said = parts.headers.remove(IDEMPOTENCY_CONFIRM);
    if said.is_some_and(|line| line.as_bytes().trim_ascii() == b"intended") {
        parts.extensions.insert(Confirmed);
    }
}

/// Takes the header away that goes no further than here.
pub(crate) fn forget_confirmation(headers: &mut HeaderMap) {
    headers.remove(IDEMPOTENCY_CONFIRM);
}

#[cfg(test)]
mod tests;
