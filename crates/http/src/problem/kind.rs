//! What the name of a problem decides: its status, its title, and whether a retry is worth it.

use http::StatusCode as S;

use super::Problem;
use crate::Profile;

/// What the name of a problem decides.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) status: S,
    pub(super) title: &'static str,
    /// Whether the same request, sent again, may get another answer.
    pub(super) retryable: bool,
    /// The `type` in the `error` member.
    pub(super) error: &'static str,
}

const KEY: &str = "idempotency_error";
const REQUEST: &str = "invalid_request_error";
const CALLER: &str = "authentication_error";
const US: &str = "api_error";

const RETRY: bool = true;
const FINAL: bool = false;

// === impl Kind ===

impl Kind {
    pub(super) fn of(problem: &Problem, profile: Profile) -> Self {
        let reused = match profile {
            Profile::Stripe | Profile::Oasis => S::BAD_REQUEST,
            Profile::Ietf | Profile::IetfStrict | Profile::SuccessOnly => S::UNPROCESSABLE_ENTITY,
        };
        let expired = match profile {
            Profile::Oasis => S::PRECONDITION_FAILED,
            _ => S::GONE,
        };
        let new = Self::new;
        match problem {
            Problem::MissingKey | Problem::MissingFields(_) => {
                new("missing-key", S::BAD_REQUEST, FINAL, KEY)
            }
            Problem::InvalidKey(_) => new("invalid-key", S::BAD_REQUEST, FINAL, KEY),
            Problem::KeyReused => new("key-reused", reused, FINAL, KEY),
            Problem::InProgress { .. } => new("in-progress", S::CONFLICT, RETRY, KEY),
            Problem::OutcomeUnknown { settles } => {
                new("outcome-unknown", S::CONFLICT, *settles, KEY)
            }
            Problem::AnswerNotKept { .. } => new("answer-not-kept", S::CONFLICT, FINAL, KEY),
            Problem::AlreadyDone { .. } => new("already-done", S::CONFLICT, FINAL, KEY),
            Problem::SuspectedDuplicate { .. } => {
                new("suspected-duplicate", S::CONFLICT, FINAL, KEY)
            }
            Problem::Expired => new("expired", expired, FINAL, KEY),
            Problem::BodyTooLarge { .. } => {
                new("body-too-large", S::PAYLOAD_TOO_LARGE, FINAL, REQUEST)
            }
            Problem::TooManyClaims | Problem::OverQuota(_) => {
                new("too-many-claims", S::TOO_MANY_REQUESTS, RETRY, KEY)
            }
            Problem::StoreUnavailable => {
                new("store-unavailable", S::SERVICE_UNAVAILABLE, RETRY, US)
            }
            Problem::UpstreamUnreachable => new("upstream-unreachable", S::BAD_GATEWAY, RETRY, US),
            Problem::UpstreamFailed => new("upstream-failed", S::BAD_GATEWAY, FINAL, US),
            Problem::UnidentifiedCaller { .. } => {
                new("unidentified-caller", S::UNAUTHORIZED, FINAL, CALLER)
            }
            Problem::UnstableCredential => {
                new("unstable-credential", S::BAD_REQUEST, FINAL, CALLER)
            }
            Problem::UpgradeRefused => new("upgrade-refused", S::BAD_REQUEST, FINAL, REQUEST),
            Problem::MethodRefused => new("method-refused", S::METHOD_NOT_ALLOWED, FINAL, REQUEST),
            Problem::NoSuchOperation => new("no-such-operation", S::NOT_FOUND, FINAL, REQUEST),
            Problem::RequestCut => new("request-cut", S::REQUEST_TIMEOUT, RETRY, REQUEST),
            Problem::InvalidRequest(_) => new("invalid-request", S::BAD_REQUEST, FINAL, REQUEST),
            Problem::TargetTooLong => new("target-too-long", S::URI_TOO_LONG, FINAL, REQUEST),
            Problem::HeadTooLarge => new(
                "head-too-large",
                S::REQUEST_HEADER_FIELDS_TOO_LARGE,
                FINAL,
                REQUEST,
            ),
        }
    }

    fn new(name: &'static str, status: S, retryable: bool, error: &'static str) -> Self {
        Self {
            name,
            status,
            title: title(name),
            retryable,
            error,
        }
    }
}

fn title(name: &str) -> &'static str {
    match name {
        "missing-key" => "Idempotency-Key is missing",
        "invalid-key" => "Idempotency-Key is not valid",
        "key-reused" => "Idempotency-Key is already used",
        "in-progress" => "The operation is in progress",
        "outcome-unknown" => "The outcome of the operation is unknown",
        "answer-not-kept" => "The operation is done, its answer is not kept",
        "already-done" => "The operation was done under another key",
        "suspected-duplicate" => "The operation looks like one under another key",
        "expired" => "Idempotency-Key is too old",
        "body-too-large" => "The request body is too large",
        "too-many-claims" => "Too many operations are under way",
        "store-unavailable" => "Idempotency records are unavailable",
        "upstream-unreachable" => "The service is unreachable",
        "upstream-failed" => "The service did not answer",
        "unidentified-caller" => "The caller is not identified",
        "unstable-credential" => "The credential changes with every attempt",
        "upgrade-refused" => "An upgrade cannot carry an Idempotency-Key",
        "method-refused" => "The method is not served",
        "no-such-operation" => "There is no such operation",
        "request-cut" => "The request did not arrive in full",
        "target-too-long" => "The request target is too long",
        "head-too-large" => "The head of the request is too large",
        _ => "The request is not well-formed",
    }
}
