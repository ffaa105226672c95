//! Arriving: from a request to what it asks of the engine.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, header};
use http_body::Body;
use onceward::clock::{Clock as _, SystemClock};
use onceward::{Arrival, BoxError, Key, Scope, Slot};

use crate::guard::{Inner, unavailable};
use crate::headers::{strip_hop_by_hop, strip_ours};
use crate::prefer::Prefer;
use crate::problem::Problem;
use crate::read::{self, Received};
use crate::{KeyNeed, OnBusy, derive, rules};

/// What the head of a request says about a key.
pub(crate) enum Look {
    /// There is none, or none counts: the request is none of our business.
    Pass,
    Found(Key),
    InBody,
}

/// A request that is read in full.
pub(crate) enum Read {
    Keyed(Asked),
    Unkeyed(Received),
}

/// What a request with a key asks for.
pub(crate) struct Asked {
    key: Key,
    caller: Arc<str>,
    pub(crate) received: Received,
}

// === impl Inner ===

impl Inner {
    /// The longest anybody waits, whatever it prefers.
    const WAIT_MAX: Duration = Duration::from_secs(30);

    /// Looks for a key before the body is read, so that a request without one streams through
    /// untouched.
    pub(crate) fn look(&self, parts: &Parts) -> Result<Look, Problem> {
        let terms = &self.terms;
        if terms.key == KeyNeed::Off || is_safe(&parts.method) {
            return Ok(Look::Pass);
        }
        if terms.key_from.needs_body() {
            return Ok(Look::InBody);
        }
        match (read::key_in_head(terms, parts)?, terms.key) {
            (Some(key), _) => {
                refuse_tunnels(parts)?;
                Ok(Look::Found(key))
            }
            (None, KeyNeed::Required | KeyNeed::Derived) => Err(read::missing(terms)),
            (None, _) => Ok(Look::Pass),
        }
    }

    /// Receives the whole body: a cut upload executes nothing, a slow sender holds no key.
    pub(crate) async fn receive<B>(
        &self,
        parts: &Parts,
        body: B,
        look: Look,
        caller: Result<Arc<str>, Problem>,
    ) -> Result<Read, Problem>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>>,
    {
        let terms = &self.terms;
        // Who may not ask is told before anything is read.
        let needs_key = matches!(terms.key, KeyNeed::Required | KeyNeed::Derived);
        if matches!(look, Look::Found(_)) || needs_key {
            caller.as_ref().map_err(Clone::clone)?;
        }
        let mut received = read::body(body, terms.request_max).await?;
        if let Some(trailers) = &mut received.trailers {
            // Many servers merge them into the headers.
            strip_hop_by_hop(trailers);
            strip_ours(trailers);
            if terms.key == KeyNeed::Derived {
                derive::forget_sent(trailers);
            }
            rules::forget_confirmation(trailers);
        }
        let key = match look {
            Look::Found(key) => key,
            _ => match (read::key_in_body(terms, parts, &received.data)?, terms.key) {
                (Some(key), _) => key,
                (None, _) if needs_key => return Err(read::missing(terms)),
                (None, _) => return Ok(Read::Unkeyed(received)),
            },
        };
        refuse_tunnels(parts)?;
        let caller = caller?;
        read::refuse_too_old(terms, parts, &key, SystemClock.wall())?;
        if let Some(field) = &terms.key_equals {
            derive::refuse_unequal(field, &key, parts, &received.data)?;
        }
        Ok(Read::Keyed(Asked {
            key,
            caller,
            received,
        }))
    }

    pub(crate) async fn arrival(
        &self,
        parts: &Parts,
        asked: &Asked,
        prefer: Prefer,
    ) -> Result<Arrival, Problem> {
        let terms = &self.terms;
        let scope = match &terms.operation {
            Some(name) => Scope::parse(&asked.caller, name),
            None => {
                let operation = [parts.method.as_str(), " ", parts.uri.path()].concat();
                Scope::parse(&asked.caller, &operation)
            }
        };
        let scope = scope.map_err(|_| Problem::TargetTooLong)?;
        let slot = Slot::new(scope, asked.key.clone());
        let Received { data, trailers } = &asked.received;
        let made = derive::fingerprint(terms, &asked.key);
        let fingerprint =
            made.unwrap_or_else(|| terms.fingerprint.of(parts, data, trailers.as_ref()));
        let engine = &self.engine;
        let mut arrival = match engine.prepared(&slot, &fingerprint) {
            Some(arrival) => arrival,
            None => Box::pin(engine.prepare(&slot, &fingerprint))
                .await
                .map_err(|error| unavailable(&error))?,
        };
        let previous = terms.previous_fingerprint.as_ref();
        if let Some(previous) = previous.filter(|_| made.is_none()) {
            let secret = Box::pin(engine.secret()).await;
            let secret = secret.map_err(|error| unavailable(&error))?;
            arrival = arrival.or(&previous.of(parts, data, trailers.as_ref()), secret);
        }
        Ok(match self.waits(prefer) {
            Some(on_busy) => arrival.on_busy(on_busy),
            None => arrival,
        })
    }

    /// Binds the work to what the rules say names it besides its key.
    pub(crate) async fn bound(
        &self,
        arrival: Arrival,
        parts: &Parts,
        received: &Received,
    ) -> Result<Arrival, Problem> {
        if !rules::apply(&self.terms) {
            return Ok(arrival);
        }
        let secret = Box::pin(self.engine.secret()).await;
        let secret = secret.map_err(|error| unavailable(&error))?;
        rules::bind(arrival, &self.terms, parts, &received.data, secret)
    }

    /// What this caller wants while the first is running, if not what the terms say.
    fn waits(&self, prefer: Prefer) -> Option<onceward::OnBusy> {
        let most = match self.terms.on_busy {
            OnBusy::Wait(limit) => limit,
            OnBusy::Accept => prefer.wait?.min(Self::WAIT_MAX),
            OnBusy::Refuse => return None,
        };
        match prefer.wait {
            Some(wait) => Some(onceward::OnBusy::Wait(wait.min(most))),
            None => (prefer.respond_async && self.terms.status_resource)
                .then_some(onceward::OnBusy::Refuse),
        }
    }
}

/// Refuses what cannot be replayed under a key: a connection that goes on as something else.
fn refuse_tunnels(parts: &Parts) -> Result<(), Problem> {
    if parts.headers.contains_key(header::UPGRADE) {
        return Err(Problem::UpgradeRefused);
    }
    match parts.method {
        Method::CONNECT => Err(Problem::MethodRefused),
        _ => Ok(()),
    }
}

/// Methods that change nothing need no protection.
fn is_safe(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE
    )
}
