//! For axum: what a handler knows about its request.

use std::convert::Infallible;
use std::ops::Deref;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use onceward::{Fence, Key};

/// The attempt that a handler is part of: its key, number and fence.
///
/// `Option<Attempt>` is `None` for a request without a key.
///
/// ```
/// use onceward_http::axum::Attempt;
///
/// async fn pay(attempt: Option<Attempt>) -> String {
///     match attempt {
///         // Forward the key to services that deduplicate on it.
///         Some(attempt) => format!("attempt {} of {}", attempt.number(), attempt.key().as_str()),
///         None => "not protected".into(),
///     }
/// }
/// # let _: axum::Router = axum::Router::new().route("/payments", axum::routing::post(pay));
/// ```
#[derive(Clone, Debug)]
pub struct Attempt(pub onceward::Attempt);

/// The key of a request.
#[derive(Clone, Debug)]
pub struct IdempotencyKey(pub Key);

/// The fence of the attempt: greater than that of any earlier one.
#[derive(Clone, Copy, Debug)]
pub struct IdempotencyFence(pub Fence);

/// A handler needs a key, and the request has none or did not pass an
/// [`IdempotentLayer`](crate::IdempotentLayer).
#[derive(Clone, Copy, Debug)]
pub struct NoAttempt;

// === impl Attempt ===

impl Deref for Attempt {
    type Target = onceward::Attempt;

    fn deref(&self) -> &onceward::Attempt {
        &self.0
    }
}

fn attempt(parts: &Parts) -> Option<onceward::Attempt> {
    parts.extensions.get().cloned()
}

impl<S: Sync> FromRequestParts<S> for Attempt {
    type Rejection = NoAttempt;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoAttempt> {
        attempt(parts).map(Self).ok_or(NoAttempt)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Attempt {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(attempt(parts).map(Self))
    }
}

// === impl IdempotencyKey ===

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = NoAttempt;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoAttempt> {
        let attempt = attempt(parts).ok_or(NoAttempt)?;
        Ok(Self(attempt.key().clone()))
    }
}

// === impl IdempotencyFence ===

impl<S: Sync> FromRequestParts<S> for IdempotencyFence {
    type Rejection = NoAttempt;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoAttempt> {
        let attempt = attempt(parts).ok_or(NoAttempt)?;
        Ok(Self(attempt.fence()))
    }
}

// === impl NoAttempt ===

/// 500, for it is the service that is put together wrongly: a layer whose terms require a key
/// lets no request without one through.
impl IntoResponse for NoAttempt {
    fn into_response(self) -> Response {
        let text = "this handler needs an IdempotentLayer that requires a key";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }
}
