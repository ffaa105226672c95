//! The service that the layer makes.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use onceward::BoxError;
use onceward::bugs::{Bug, seeded};
use tower_service::Service;

use crate::problem::Problem;
use crate::{AnswerBody, Execute, Guard, RequestBody};

/// A service that is safe to retry; made by [`IdempotentLayer`](crate::IdempotentLayer).
#[derive(Clone, Debug)]
pub struct Idempotent<S, C> {
    inner: S,
    guard: Guard,
    caller_of: C,
}

/// The future of an answer.
pub struct ResponseFuture<R, E> {
    answer: BoxFuture<'static, Result<Response<AnswerBody<Boxed<R>>>, E>>,
}

/// The body of the inner service's answers, which need not be movable.
pub type Boxed<R> = Pin<Box<R>>;

/// The error of a service that provably did nothing: the key is free again.
///
/// A service whose error is this, or a boxed one, says so; any other error leaves the outcome
/// unknown. A handler that answers instead of failing can put [`Fate::Release`](crate::Fate) into
/// the extensions of its response.
#[derive(Debug, thiserror::Error)]
#[error("nothing was executed")]
pub struct NotExecuted(#[source] pub BoxError);

/// The inner service, for one request.
struct Inner<S>(S);

/// Why an inner service has no answer.
enum Failed<E> {
    /// It was not even called.
    NotReady(E),
    Called(E),
}

// === impl Idempotent ===

impl<S, C> Idempotent<S, C> {
    pub(crate) fn new(inner: S, guard: Guard, caller_of: C) -> Self {
        Self {
            inner,
            guard,
            caller_of,
        }
    }
}

impl<S, C, B, R> Service<Request<B>> for Idempotent<S, C>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    C: Fn(&Parts) -> Option<String> + Clone + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<AnswerBody<Boxed<R>>>;
    type Error = S::Error;
    type Future = ResponseFuture<R, S::Error>;

    /// Always ready: the inner service is asked when there is something to execute. A duplicate
    /// that waits, or is replayed, must not take a place that an execution needs.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = Inner(self.inner.clone());
        let (guard, caller_of) = (self.guard.clone(), self.caller_of.clone());
        ResponseFuture {
            answer: Box::pin(answer(guard, caller_of, inner, request)),
        }
    }
}

async fn answer<S, C, B, R>(
    guard: Guard,
    caller_of: C,
    inner: Inner<S>,
    request: Request<B>,
) -> Result<Response<AnswerBody<Boxed<R>>>, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    C: Fn(&Parts) -> Option<String>,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let caller = move |parts: &Parts| match caller_of(parts) {
        Some(caller) => Ok(Arc::from(caller)),
        None if seeded(Bug::AnonymousBucket) => Ok(Arc::from("anonymous")),
        None => Err(Problem::UnidentifiedCaller {
            why: "A request with an Idempotency-Key needs an authenticated caller.".into(),
            challenge: None,
        }),
    };
    let (parts, body) = request.into_parts();
    if guard.terms().status_resource
        && let Some(id) = Guard::operation_in(&parts)
    {
        return Ok(guard.operation(&parts, id, caller(&parts)).await);
    }
    let request = Request::from_parts(parts, body);
    let answered = guard.handle(request, caller, inner).await;
    answered.map_err(|failed| match failed {
        Failed::NotReady(error) | Failed::Called(error) => error,
    })
}

// === impl Inner ===

impl<S, B, R> Execute<B> for Inner<S>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    B: Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Body = Boxed<R>;
    type Error = Failed<S::Error>;

    async fn execute(
        mut self,
        request: Request<RequestBody<B>>,
    ) -> Result<Response<Boxed<R>>, Failed<S::Error>> {
        let ready = poll_fn(|cx| self.0.poll_ready(cx)).await;
        ready.map_err(Failed::NotReady)?;
        let answered = self.0.call(request).await.map_err(Failed::Called);
        answered.map(|response| response.map(Box::pin))
    }

    fn is_unsent(error: &Failed<S::Error>) -> bool {
        let Failed::Called(error) = error else {
            return true;
        };
        let error = error as &dyn Any;
        let boxed = error.downcast_ref::<BoxError>();
        error.is::<NotExecuted>() || boxed.is_some_and(|error| error.is::<NotExecuted>())
    }
}

// === impl Failed ===

impl<E: Into<BoxError>> From<Failed<E>> for BoxError {
    fn from(failed: Failed<E>) -> Self {
        match failed {
            Failed::NotReady(error) | Failed::Called(error) => error.into(),
        }
    }
}

// === impl ResponseFuture ===

impl<R, E> Future for ResponseFuture<R, E> {
    type Output = Result<Response<AnswerBody<Boxed<R>>>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(cx)
    }
}

impl<R, E> fmt::Debug for ResponseFuture<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
