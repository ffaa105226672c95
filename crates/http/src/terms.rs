//! Terms: what holds for the requests of one route.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use onceward::Policy;

use crate::{
    Field, FingerprintRules, KeySource, Profile, Statuses, SuspectRule, UniqueRule, rules,
};

/// Whether a request needs a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum KeyNeed {
    /// A request without a key is refused.
    Required,
    /// A request without a key is passed through, unprotected.
    #[default]
    Optional,
    /// The server infers the key, as [`Terms::key_from`] says: from fields, from the body, or from
    /// a header that names a delivery. A request from which it cannot is refused. An
    /// `Idempotency-Key` that is sent besides counts for nothing, and goes no further.
    Derived,
    /// Keys mean nothing here: every request is passed through.
    Off,
}

/// What a duplicate gets while the first is still running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OnBusy {
    /// It waits for the answer, this long at the most, and is then refused.
    Wait(Duration),
    /// It is refused at once.
    Refuse,
    /// It gets 202 at once, and where to look for the answer.
    Accept,
}

/// What holds for the requests of one route.
///
/// ```
/// use onceward_http::{KeyNeed, Terms};
///
/// let terms = Terms::default().key(KeyNeed::Required).operation("pay");
/// assert_eq!(terms.request_max, 8 << 20);
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Terms {
    /// How long things last and what is known about the effect. Its `on_busy` is not used:
    /// [`Terms::on_busy`] is.
    pub policy: Policy,
    /// Whether a request needs a key. Default: [`KeyNeed::Optional`].
    pub key: KeyNeed,
    /// Where the key is looked for. Default: the headers `Idempotency-Key` and
    /// `X-Idempotency-Key`.
    pub key_from: KeySource,
    /// The field that a key has to be equal to: a text, or an integer by its digits. Default: none.
    pub key_equals: Option<Field>,
    /// The operation's name, if requests to several paths are to meet in one slot. Default: method
    /// and path as received.
    pub operation: Option<Arc<str>>,
    /// What makes a request the same request. Default: its bytes. Not used where the key is made
    /// of fields or of the body: what it is made of is then all that counts.
    pub fingerprint: FingerprintRules,
    /// What did so before, for as long as records from then are kept. Default: nothing.
    pub previous_fingerprint: Option<FingerprintRules>,
    /// What an answer's status says about the work. Default: that of the profile.
    pub statuses: Statuses,
    /// Whose habits are followed. Default: [`Profile::Ietf`].
    pub profile: Profile,
    /// What a duplicate gets while the first is running. Default: it waits 10 s.
    pub on_busy: OnBusy,
    /// The largest request body. Default: 8 MiB. A larger one is refused, never passed on
    /// unprotected.
    pub request_max: usize,
    /// How long the work may take until the outcome counts as unknown. Default: no limit.
    pub within: Option<Duration>,
    /// Whether every answer is passed on as it comes. Default: only `text/event-stream` is.
    pub stream: bool,
    /// Whether `Set-Cookie` is replayed. Default: no, for a cookie may be a session.
    pub replay_cookies: bool,
    /// The only headers that are kept for replay. Default: all but those that never are.
    pub store_headers: Option<Vec<HeaderName>>,
    /// Whether callers that do not want to wait are sent to the status resource of their
    /// operation ([`OPERATIONS`](crate::OPERATIONS)). Default: no, for a layer around one route
    /// does not see requests for that path.
    pub status_resource: bool,
    /// How old a key that tells its age (UUIDv7) may be. Default: any age.
    pub key_age_max: Option<Duration>,
    /// What succeeds once, whatever the key. Default: nothing. With such a rule an optional key is
    /// required: nobody else would find the work by its identity.
    pub unique: Vec<UniqueRule>,
    /// What is hardly meant twice in a row, whatever the keys. Default: nothing.
    pub suspect: Option<SuspectRule>,
}

// === impl Terms ===

impl Terms {
    /// Sets how long things last and what is known about the effect.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets whether a request needs a key.
    #[must_use]
    pub fn key(mut self, key: KeyNeed) -> Self {
        self.key = key;
        self
    }

    /// Sets where the key is looked for.
    #[must_use]
    pub fn key_from(mut self, source: KeySource) -> Self {
        self.key_from = source;
        self
    }

    /// Demands that a key is equal to what stands in `field`, so that no caller names one order and
    /// sends the key of another.
    #[must_use]
    pub fn key_equals(mut self, field: Field) -> Self {
        self.key_equals = Some(field);
        self
    }

    /// Also lets work succeed once by what `rule` finds in its request, whatever the key. An
    /// optional key is then required.
    #[must_use]
    pub fn unique(mut self, rule: UniqueRule) -> Self {
        self.unique.push(rule);
        self
    }

    /// Suspects work that looks like other work, whatever the keys.
    #[must_use]
    pub fn suspect(mut self, rule: SuspectRule) -> Self {
        self.suspect = Some(rule);
        self
    }

    /// Whether these terms name parts of the path, which whoever routes the request has to tell
    /// ([`PathFields`](crate::PathFields)).
    pub fn needs_path(&self) -> bool {
        let derived = match &self.key_from {
            KeySource::Fields(fields) => fields.path_names().next().is_some(),
            _ => false,
        };
        let equal = self.key_equals.as_ref();
        derived || equal.is_some_and(|field| field.path_name().is_some()) || rules::need_path(self)
    }

    /// Names the operation, so that requests to several paths meet in one slot.
    #[must_use]
    pub fn operation(mut self, name: impl Into<Arc<str>>) -> Self {
        self.operation = Some(name.into());
        self
    }

    /// Sets what makes a request the same request.
    #[must_use]
    pub fn fingerprint(mut self, rules: FingerprintRules) -> Self {
        self.fingerprint = rules;
        self
    }

    /// Sets whose habits are followed, with that profile's statuses and key headers.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self.statuses = profile.statuses();
        self.key_from = KeySource::of(profile);
        self
    }

    /// Sets what an answer's status says about the work.
    #[must_use]
    pub fn statuses(mut self, statuses: Statuses) -> Self {
        self.statuses = statuses;
        self
    }

    /// Sets what a duplicate gets while the first is running.
    #[must_use]
    pub fn on_busy(mut self, on_busy: OnBusy) -> Self {
        self.on_busy = on_busy;
        self
    }

    /// Sets the largest request body, in bytes.
    #[must_use]
    pub fn request_max(mut self, bytes: usize) -> Self {
        self.request_max = bytes;
        self
    }

    /// Sets how long the work may take until the outcome counts as unknown.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// Sends callers that do not want to wait to the status resource of their operation. Requests
    /// for [`OPERATIONS`](crate::OPERATIONS) have to reach the layer, or
    /// [`Guard::operation`](crate::Guard::operation).
    #[must_use]
    pub fn status_resource(mut self, offered: bool) -> Self {
        self.status_resource = offered;
        self
    }

    /// Passes every answer on as it comes, or only event streams.
    #[must_use]
    pub fn stream(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }
}

impl Default for Terms {
    fn default() -> Self {
        let profile = Profile::default();
        Self {
            policy: Policy::default(),
            key: KeyNeed::default(),
            key_from: KeySource::of(profile),
            key_equals: None,
            operation: None,
            fingerprint: FingerprintRules::default(),
            previous_fingerprint: None,
            statuses: profile.statuses(),
            profile,
            on_busy: OnBusy::Wait(Duration::from_secs(10)),
            request_max: 8 << 20,
            within: None,
            stream: false,
            replay_cookies: false,
            store_headers: None,
            status_resource: false,
            key_age_max: None,
            unique: Vec::new(),
            suspect: None,
        }
    }
}
