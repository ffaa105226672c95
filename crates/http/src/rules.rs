//! Rules: what names work besides its key.
//!
//! Callers get keys wrong: they make a new one for every retry, or pay one order from two tabs. A
//! [`UniqueRule`] says what succeeds once whatever the key, a [`SuspectRule`] what is hardly meant
//! twice in a row.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use onceward::{Arrival, Identity, Secret, Suspicion, Then};

use crate::headers::IDEMPOTENCY_CONFIRM;
use crate::problem::Problem;
use crate::{Fields, Terms};

/// What succeeds once per caller, whatever the key: the payment of an order, the cancellation of
/// a subscription.
///
/// Rules of one name stand for one identity, on whatever route: they meet where the values of
/// their fields are equal, one by one in the order in which they are listed. A request without
/// one of the fields is refused.
///
/// ```
/// use onceward::Then;
/// use onceward_http::{Fields, Terms, UniqueRule};
///
/// let paid = UniqueRule::new("paid-order", Fields::parse(["/order_id"])?);
/// let terms = Terms::default().unique(paid.then(Then::Refuse));
/// # Ok::<(), onceward_http::InvalidField>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UniqueRule {
    /// The name of the rule.
    pub name: Arc<str>,
    /// What tells one from another.
    pub on: Fields,
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
/// use onceward_http::{Fields, SuspectRule, Terms};
///
/// let facts = Fields::parse(["/user_id", "/order_id", "/amount"])?;
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
    pub same: Fields,
    /// For how long it is compared.
    pub within: Duration,
    /// What a caller gets whose work looks like that under another key. Default: it passes, and
    /// its record says so.
    pub then: Suspicion,
}

/// In the extensions of a request: its caller says that it is meant.
#[derive(Clone, Copy, Debug)]
struct Confirmed;

// === impl UniqueRule ===

impl UniqueRule {
    /// Returns the rule that work of which `on` is the same succeeds once.
    pub fn new(name: impl Into<Arc<str>>, on: Fields) -> Self {
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
        let value = self.on.digest(parts, body).map_err(|missing| {
            let told = format!(
                "This operation is done once for each {}, but {missing}. Nothing was executed.",
                self.on
            );
            Problem::InvalidRequest(told.into())
        })?;
        Ok(Identity::unique(
            self.name.clone(),
            *value.as_bytes(),
            self.then,
        ))
    }
}

// === impl SuspectRule ===

impl SuspectRule {
    /// Returns the rule that work of which all of `same` are the same is hardly meant twice
    /// `within` that time.
    pub fn new(name: impl Into<Arc<str>>, same: Fields, within: Duration) -> Self {
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
        let value = self.same.digest(parts, body).ok()?;
        let name = self.name.clone();
        let identity = Identity::suspect(name, *value.as_bytes(), self.within, self.then);
        let meant = parts.extensions.get::<Confirmed>().is_some();
        Some(match meant {
            true => identity.confirmed(),
            false => identity,
        })
    }
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
