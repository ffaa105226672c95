//! The stack: what a request passes through, outermost first.
//!
//! 1. framing: a request that could be read in two ways is refused, whatever it asks for;
//! 2. the status resource of operations, which is ours;
//! 3. the route: the most specific one that matches says which terms hold;
//! 4. the guard: key, caller, record, and then the proxy or the recorded answer;
//! 5. the tally: what became of it is counted, and told to the log.

use std::ops::Deref;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, Response};
use onceward::clock::Clock;
use onceward_http::problem::{Media, Problem};
use onceward_http::{AnswerBody, Guard};

use crate::access::{Asked, Tally};
use crate::forward::{self, Forwarding};
use crate::identity::{Caller, Identity, Unidentified};
use crate::proxy::Proxy;
use crate::route::{Pattern, Routed, Routes};
use crate::server::{Conflict, Peer, Received};
use crate::upstream::{Inbound, Upstream};

/// Everything that a request passes through.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) routes: Routes<Guarded>,
    /// What holds for requests that no route matches.
    pub(crate) rest: Ruled,
    pub(crate) identity: Identity,
    pub(crate) upstream: Upstream,
    /// The ways to other services, which are only asked about earlier attempts.
    pub(crate) probed: Vec<Upstream>,
    pub(crate) forwarding: Arc<Forwarding>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) target_max: usize,
    pub(crate) access_log: bool,
}

/// A guard and what it counts.
#[derive(Debug)]
pub(crate) struct Ruled {
    pub(crate) guard: Guard,
    pub(crate) tally: Tally,
    /// What names parts of the path, if the terms need them.
    pub(crate) names: Option<Pattern>,
}

/// What holds for the requests that a pattern matches.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) pattern: Pattern,
    pub(crate) ruled: Ruled,
}

/// The stack in the hands of one request.
///
/// Were these counted where all requests count, every lane would wait for the others at each of
/// them. So each connection counts its own.
#[derive(Clone, Debug)]
pub(crate) struct Held(Arc<Hold>);

/// The stack in the hands of one connection. Clones are for other connections.
#[derive(Debug)]
pub(crate) struct Holder(Held);

#[derive(Debug)]
struct Hold(Arc<Stack>);

type Answer = Response<AnswerBody<Inbound>>;

// === impl Holder ===

impl Holder {
    pub(crate) fn new(stack: Arc<Stack>) -> Self {
        Self(Held(Arc::new(Hold(stack))))
    }

    /// The stack for a request of this connection.
    pub(crate) fn hold(&self) -> Held {
        self.0.clone()
    }
}

impl Clone for Holder {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0.0.0))
    }
}

// === impl Held ===

impl Deref for Held {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        &self.0.0
    }
}

impl Held {
    /// Answers a request.
    pub(crate) async fn answer(self, request: Request<Received>) -> Answer {
        let began = self.clock.stopwatch();
        let peer = *request
            .extensions()
            .get()
            .expect("the server names the peer");
        let ruled = self.ruled(request.method(), request.uri().path());
        let asked = self.access_log.then(|| asked(&request, peer));
        // Boxed, because the server moves the future of every request more than once.
        let response = Box::pin(self.handle(request, ruled, peer)).await;
        let took = self.clock.stopwatch().saturating_sub(began);
        ruled.tally.count(&response, took);
        if let Some(asked) = asked {
            ruled.tally.tell(&asked, &response, took);
        }
        response
    }

    async fn handle(&self, request: Request<Received>, ruled: &Ruled, peer: Peer) -> Answer {
        let guard = &ruled.guard;
        let (mut parts, body) = request.into_parts();
        if let Some(problem) = self.unfit(&parts) {
            return guard.refuse(&problem, Media::of(&parts.headers), None);
        }
        if let Some(id) = Guard::operation_in(&parts) {
            return guard.operation(&parts, id, self.caller(&parts, peer)).await;
        }
        // Copies of our own headers are nobody's to send.
        onceward_http::headers::strip_ours(&mut parts.headers);
        forward::decline_upgrades(&mut parts.headers);
        if let Some(pattern) = &ruled.names {
            let named = pattern.path_fields(parts.uri.path());
            parts.extensions.insert(named);
        }
        let media = Media::of(&parts.headers);
        let terms = guard.terms();
        let proxy = Proxy {
            stack: self.clone(),
            peer,
            effect: terms.policy.effect,
            within: terms.within.unwrap_or(Proxy::WITHIN_MAX),
        };
        let caller = |parts: &Parts| self.caller(parts, peer);
        let request = Request::from_parts(parts, body);
        guard
            .handle(request, caller, proxy)
            .await
            .unwrap_or_else(|error| {
                let cause: &dyn std::error::Error = &error;
                tracing::warn!(error = cause, "a request without a key has no answer");
                let problem = match error.is_unsent() {
                    true => Problem::UpstreamUnreachable,
                    false => Problem::UpstreamFailed,
                };
                guard.refuse(&problem, media, None)
            })
    }
}

// === impl Stack ===

impl Stack {
    /// Closes the connections that have rested for too long. Call it now and then: without requests
    /// nobody else does.
    pub(crate) fn reap(&self) {
        self.upstream.reap();
        self.probed.iter().for_each(Upstream::reap);
    }

    fn ruled(&self, method: &Method, path: &str) -> &Ruled {
        let found = self.routes.find(method, path);
        found.map_or(&self.rest, |found| &found.ruled)
    }

    /// Why a request is refused whatever it asks for.
    fn unfit(&self, parts: &Parts) -> Option<Problem> {
        if parts.method == Method::CONNECT {
            return Some(Problem::MethodRefused);
        }
        if let Some(conflict) = parts.extensions.get::<Conflict>() {
            return Some(Problem::InvalidRequest(conflict.to_string().into()));
        }
        let target = parts
            .uri
            .path_and_query()
            .map_or(0, |target| target.as_str().len());
        (target > self.target_max).then_some(Problem::TargetTooLong)
    }

    fn caller(&self, parts: &Parts, peer: Peer) -> Result<Arc<str>, Problem> {
        let found = self.identity.caller(parts, peer.addr, self.clock.wall());
        found
            .map(Caller::into_tenant)
            .map_err(|unidentified| match unidentified {
                Unidentified::PerAttempt => Problem::UnstableCredential,
                other => Problem::UnidentifiedCaller {
                    why: other.to_string().into(),
                    challenge: other.challenge(),
                },
            })
    }
}

fn asked(request: &Request<Received>, peer: Peer) -> Asked {
    Asked {
        method: request.method().clone(),
        path: request.uri().path().into(),
        peer: peer.addr,
    }
}

// === impl Guarded ===

impl Routed for Guarded {
    fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}
