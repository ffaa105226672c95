//! Problems: every refusal of ours, and the only place that knows their statuses.
//!
//! One body that every measured client survives: RFC 9457 with an `error` member, because one
//! popular SDK takes JSON without `error` for a success, and without a string `detail`, because
//! another crashes on it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Profile;
use crate::headers::{
    RATELIMIT, RATELIMIT_POLICY, REPEATABILITY_RESULT, STRIPE_SHOULD_RETRY, X_SHOULD_RETRY,
};
use crate::quota::{Over, whole_secs};

mod kind;

use kind::Kind;

/// Why a request is not answered by the service.
///
/// Its texts are for callers and say nothing about another caller's request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The route needs a key and there is none.
    MissingKey,
    /// The key is made of the request, which lacks what it is made of, as this says.
    MissingFields(Cow<'static, str>),
    /// What was sent is not a key, for this reason.
    InvalidKey(Cow<'static, str>),
    /// The key was used for another request.
    KeyReused,
    /// The first request with this key is still running.
    InProgress {
        /// How long it may at the least be worth waiting.
        retry_after: Duration,
    },
    /// Nobody knows whether the work happened.
    OutcomeUnknown {
        /// Whether a retry finds out, because the service behind recognises the key or can be
        /// asked.
        settles: bool,
    },
    /// The work is done, but its answer was too large to keep.
    AnswerNotKept {
        /// The status that the first caller got.
        status: StatusCode,
        /// Where the result is, if the answer said so.
        location: Option<HeaderValue>,
    },
    /// The same was done under another key, and is done once.
    AlreadyDone {
        /// The name of the rule that says so.
        rule: Arc<str>,
        /// The status of the answer to that.
        status: StatusCode,
        /// Where the result is, if the answer said so.
        location: Option<HeaderValue>,
    },
    /// The same was asked for under another key a short while ago.
    SuspectedDuplicate {
        /// The name of the rule that says so.
        rule: Arc<str>,
    },
    /// The key, or the first attempt, is older than answers are kept.
    Expired,
    /// The request is larger than can be protected.
    BodyTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Too much is under way already, and this was not begun.
    TooManyClaims,
    /// The caller has taken what it may, and this was not begun.
    OverQuota(Box<Over>),
    /// The record of this key cannot be reached, so nothing is executed.
    StoreUnavailable,
    /// Nothing was sent to the service, so nothing happened.
    UpstreamUnreachable,
    /// The service did not answer in full. Only for requests without a key.
    UpstreamFailed,
    /// It is not known who asks.
    UnidentifiedCaller {
        /// Why not.
        why: Cow<'static, str>,
        /// What to authenticate with, for `WWW-Authenticate`.
        challenge: Option<&'static str>,
    },
    /// The credential changes with every attempt, so it cannot tell callers apart.
    UnstableCredential,
    /// A connection upgrade cannot be replayed.
    UpgradeRefused,
    /// The method is never served.
    MethodRefused,
    /// There is no such operation, or it is another caller's.
    NoSuchOperation,
    /// The body came too slowly, or not to its end.
    RequestCut,
    /// The request is not well-formed.
    InvalidRequest(Cow<'static, str>),
    /// The target is too long.
    TargetTooLong,
    /// The head is too long, or has too many lines.
    HeadTooLarge,
}

/// How problems are told to callers of one deployment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naming {
    /// What stands before a problem's name in its `type`. Default: `urn:onceward:problem:`.
    pub types: Arc<str>,
    /// Where a problem has its page; `{name}` stands for the problem's name, or else it follows.
    pub pages: Arc<str>,
}

/// The media type in which a caller reads problems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Media(&'static str);

// === impl Problem ===

impl Problem {
    /// The name of the problem, as in its `type`.
    pub fn name(&self) -> &'static str {
        Kind::of(self, Profile::Ietf).name
    }

    /// Returns the answer that tells a caller.
    pub fn answer(&self, naming: &Naming, profile: Profile, media: Media) -> Response<Bytes> {
        let kind = Kind::of(self, profile);
        let body = self.body(&kind, naming);
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = kind.status;
        let headers = response.headers_mut();
        let media_type = HeaderValue::from_static(media.0);
        headers.insert(header::CONTENT_TYPE, media_type);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let link = format!("<{}>; rel=\"describedby\"", naming.page(kind.name));
        if let Ok(link) = HeaderValue::from_str(&link) {
            headers.insert(header::LINK, link);
        }
        set_should_retry(headers, kind.retryable);
        if kind.retryable {
            headers.insert(header::RETRY_AFTER, self.retry_after());
        }
        self.set_own_headers(headers, profile);
        response
    }

    fn set_own_headers(&self, headers: &mut HeaderMap, profile: Profile) {
        match self {
            Self::UnidentifiedCaller {
                challenge: Some(challenge),
                ..
            } => {
                let challenge = HeaderValue::from_static(challenge);
                headers.insert(header::WWW_AUTHENTICATE, challenge);
            }
            Self::AnswerNotKept {
                location: Some(location),
                ..
            }
            | Self::AlreadyDone {
                location: Some(location),
                ..
            } => {
                headers.insert(header::LOCATION, location.clone());
            }
            Self::OverQuota(over) => {
                let told = [
                    (RATELIMIT, over.remaining()),
                    (RATELIMIT_POLICY, over.policy.clone()),
                ];
                for (name, value) in told {
                    headers.extend(value.map(|value| (name, value)));
                }
            }
            _ => {}
        }
        if profile == Profile::Oasis
            && let Some(result) = self.repeatability()
        {
            headers.insert(REPEATABILITY_RESULT, HeaderValue::from_static(result));
        }
    }

    /// What OASIS clients are told about the request: nothing where it may have been executed.
    fn repeatability(&self) -> Option<&'static str> {
        match self {
            Self::OutcomeUnknown { .. } | Self::InProgress { .. } | Self::StoreUnavailable => None,
            Self::AnswerNotKept { .. } => Some("accepted"),
            _ => Some("rejected"),
        }
    }

    fn body(&self, kind: &Kind, naming: &Naming) -> Value {
        let mut body = json!({
            "type": format!("{}{}", naming.types, kind.name),
            "title": kind.title,
            "status": kind.status.as_u16(),
            "instance": Uuid::new_v4().urn().to_string(),
            "retryable": kind.retryable,
            "error": {
                "type": kind.error,
                "code": kind.name,
                "message": self.message(),
            },
        });
        if let Self::AnswerNotKept { status, location }
        | Self::AlreadyDone {
            status, location, ..
        } = self
        {
            body["original_status"] = status.as_u16().into();
            let location = location.as_ref().and_then(|value| value.to_str().ok());
            body["location"] = location.into();
        }
        if let Self::AlreadyDone { rule, .. } | Self::SuspectedDuplicate { rule } = self {
            body["rule"] = (**rule).into();
        }
        if let Self::OverQuota(over) = self {
            body["limit"] = over.limit.name().into();
        }
        body
    }

    /// What happened and what to do, for whoever reads the caller's log.
    fn message(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::MissingKey => {
                "This operation needs an idempotency key, in the Idempotency-Key header unless its \
                 documentation names another place: one unique value per operation, and the same \
                 value on every retry of it."
            }
            Self::MissingFields(why) | Self::InvalidKey(why) | Self::InvalidRequest(why) => {
                return why.clone();
            }
            Self::KeyReused => {
                "This key was already used for a different request. Use a new key for a new \
                 operation, and the same key only for retries of the same request."
            }
            Self::InProgress { .. } => {
                "The first request with this key is still running. Retry with the same key."
            }
            Self::OutcomeUnknown { settles: true } => {
                "It is not known yet whether this operation happened. Retry with the same key to \
                 find out: it will not happen twice."
            }
            Self::OutcomeUnknown { settles: false } => {
                "It is not known whether this operation happened, so it is not tried again. Do \
                 not retry with a new key: look the operation up, or ask the operator to settle \
                 this one."
            }
            Self::AnswerNotKept { .. } => {
                "The operation is done, but its answer was too large to be kept, is not kept any \
                 longer, or cannot be repeated on another connection. It was not executed again."
            }
            Self::AlreadyDone { .. } => {
                "The same operation was done under another key, and is done once. It was not \
                 executed again: the location, where there is one, leads to its result."
            }
            Self::SuspectedDuplicate { .. } => {
                "An operation with the same facts came under another key a short while ago, so \
                 this one was not executed. A retry has to carry the key of the first attempt; if \
                 it is meant a second time, send it again with the header \
                 Idempotency-Confirm: intended."
            }
            Self::Expired => {
                "This key is older than answers are kept, so a retry cannot be told from a new \
                 operation. Look the operation up before you use a new key."
            }
            Self::BodyTooLarge { limit } => {
                return format!("The request body is larger than the limit of {limit} bytes.")
                    .into();
            }
            Self::TooManyClaims => {
                "Too many operations are under way. This one was not begun: retry with the same \
                 key."
            }
            Self::OverQuota(over) => over.limit.message(),
            Self::StoreUnavailable => {
                "The record of this key cannot be reached, so nothing more was executed. Retry \
                 with the same key."
            }
            Self::UpstreamUnreachable => {
                "The service could not be reached and nothing was sent to it, so a retry is safe."
            }
            Self::UpstreamFailed => "The service did not answer this request in full.",
            Self::UnidentifiedCaller { why, .. } => return why.clone(),
            Self::UnstableCredential => {
                "This credential is signed anew for every attempt, so it cannot tell a retry from \
                 another caller. The operator has to configure who the callers are."
            }
            Self::UpgradeRefused => {
                "A connection upgrade cannot be replayed: send it without an Idempotency-Key."
            }
            Self::MethodRefused => "This method is not served here.",
            Self::NoSuchOperation => {
                "There is no such operation: it is no longer kept, or the service refused it and \
                 nothing was executed. To send it again with its key is safe."
            }
            Self::RequestCut => {
                "The request body did not arrive in full, so nothing was executed. Retry with the \
                 same key."
            }
            Self::TargetTooLong => "The request target is too long.",
            Self::HeadTooLarge => "The head of the request is too long, or has too many lines.",
        })
    }

    /// How long to wait before a retry: spread, so that many callers do not come back at once.
    fn retry_after(&self) -> HeaderValue {
        let least = match self {
            Self::InProgress { retry_after } => retry_after.as_secs().clamp(1, 5),
            Self::OverQuota(over) => whole_secs(over.retry_after).max(1),
            _ => 1,
        };
        // The bits of a fresh UUID are as random as any.
        let spread = u64::from(Uuid::new_v4().as_bytes()[0] % 2);
        HeaderValue::from(least + spread)
    }
}

/// Says in the headers that clients obey whether to retry.
pub(crate) fn set_should_retry(headers: &mut HeaderMap, retry: bool) {
    let value = HeaderValue::from_static(if retry { "true" } else { "false" });
    headers.insert(X_SHOULD_RETRY, value.clone());
    headers.insert(STRIPE_SHOULD_RETRY, value);
}

// === impl Naming ===

impl Naming {
    fn page(&self, name: &str) -> String {
        match self.pages.contains("{name}") {
            true => self.pages.replace("{name}", name),
            false => format!("{}{name}", self.pages),
        }
    }
}

impl Default for Naming {
    fn default() -> Self {
        Self {
            types: "urn:onceward:problem:".into(),
            pages: "https://github.com/onceward/onceward/blob/main/docs/problems/{name}.md".into(),
        }
    }
}

// === impl Media ===

impl Media {
    /// Returns what a caller with these request headers reads: problems, unless it names
    /// `application/json` and not `application/problem+json`.
    pub fn of(request: &HeaderMap) -> Self {
        let accepts = |name: &str| accepts(request, name);
        match accepts("application/json") && !accepts("application/problem+json") {
            true => Self("application/json"),
            false => Self::default(),
        }
    }
}

impl Default for Media {
    /// What is said to a caller of whom nothing could be read.
    fn default() -> Self {
        Self("application/problem+json")
    }
}

fn accepts(request: &HeaderMap, name: &str) -> bool {
    let lines = request.get_all(header::ACCEPT).iter();
    let texts = lines.filter_map(|line| line.to_str().ok());
    let mut ranges = texts.flat_map(|text| text.split(','));
    ranges.any(|range| {
        let media_type = range.split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case(name)
    })
}

#[cfg(test)]
mod tests;
