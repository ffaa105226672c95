//! What became of requests: counted for each route, and told to the log if that is wanted.

use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, Response, StatusCode};
use metrics::{Counter, Histogram, counter, histogram};
use onceward_http::Handled;

/// What is counted about the requests of one route.
pub(crate) struct Tally {
    route: Box<str>,
    seconds: Histogram,
    /// By outcome, made before they are needed: looking one up costs more than a replay.
    outcomes: Box<[(&'static str, Counter)]>,
}

/// What a log line tells about a request. Never its query, which may hold a key.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: Box<str>,
    pub(crate) peer: SocketAddr,
}

/// The outcomes that are frequent enough to have their counters at hand.
const OUTCOMES: [&str; 8] = [
    "passed",
    "original",
    "replay",
    "not-stored",
    "accepted",
    "in-progress",
    "key-reused",
    "outcome-unknown",
];

// === impl Tally ===

impl Tally {
    pub(crate) fn new(route: &str) -> Self {
        Self {
            route: route.into(),
            seconds: histogram!("onceward_request_seconds", "route" => route.to_owned()),
            outcomes: OUTCOMES
                .map(|outcome| (outcome, requests(route, outcome)))
                .into(),
        }
    }

    /// Counts a request that was answered after `took`.
    pub(crate) fn count<B>(&self, response: &Response<B>, took: Duration) {
        self.seconds.record(took.as_secs_f64());
        let outcome = handled(response).outcome;
        match self.outcomes.iter().find(|(name, _)| *name == outcome) {
            Some((_, counter)) => counter.increment(1),
            None => requests(&self.route, outcome).increment(1),
        }
    }

    /// Tells the log about a request.
    pub(crate) fn tell<B>(&self, asked: &Asked, response: &Response<B>, took: Duration) {
        let Handled {
            outcome,
            slot,
            attempt,
        } = handled(response);
        // Eight hex digits of the slot: a keyed digest of caller, operation and key.
        let slot = slot.map(|slot| format!("{slot:?}"));
        tracing::info!(
            target: "onceward::access",
            method = %asked.method,
            path = &*asked.path,
            status = response.status().as_u16(),
            outcome,
            route = &*self.route,
            slot,
            attempt = (attempt > 0).then_some(attempt),
            peer = %asked.peer.ip(),
            ms = took.as_micros() as f64 / 1e3,
            "request"
        );
    }
}

fn requests(route: &str, outcome: &'static str) -> Counter {
    counter!("onceward_requests_total", "route" => route.to_owned(), "outcome" => outcome)
}

fn handled<B>(response: &Response<B>) -> Handled {
    let unhandled = Handled {
        outcome: match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => "tunnel",
            _ => "refused",
        },
        slot: None,
        attempt: 0,
    };
    response.extensions().get().copied().unwrap_or(unhandled)
}

impl std::fmt::Debug for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tally").field(&self.route).finish()
    }
}
