//! Who executes requests, and who can be asked about them.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use onceward::{Attempt, BoxError};

use crate::body::RequestBody;

/// Whatever executes a request: a service, or a connection to one.
pub trait Execute<B>: Send + 'static {
    /// The body of its answers.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;
    /// Why it has no answer.
    type Error: Into<BoxError> + Send + 'static;

    /// Whether it gives up by itself when the head of the answer takes longer than
    /// [`Terms::within`](crate::Terms::within), so that nobody else has to watch the time.
    const KEEPS_TIME: bool = false;

    /// Executes the request.
    ///
    /// A request with a key has an [`Attempt`] in its extensions; look at
    /// [`is_held`](Attempt::is_held) right before the first byte of the work leaves.
    fn execute(
        self,
        request: Request<RequestBody<B>>,
    ) -> impl Future<Output = Result<Response<Self::Body>, Self::Error>> + Send;

    /// Whether `error` proves that nothing was executed. When in doubt: no.
    fn is_unsent(error: &Self::Error) -> bool;
}

/// Asks a service whether a piece of work happened, for [`Effect::Probed`](onceward::Effect).
pub trait Probe: fmt::Debug + Send + Sync + 'static {
    /// Asks about an earlier attempt, telling the service the fence of this one.
    fn probe<'a>(&'a self, attempt: &'a Attempt, request: &'a Parts) -> BoxFuture<'a, Probed>;
}

/// What a service says about an earlier attempt.
#[derive(Debug)]
pub enum Probed {
    /// It happened, and this is its answer.
    Done(Response<Bytes>),
    /// It did not happen, and no request with an older fence will make it happen.
    NotDone,
    /// Nobody can say, for this reason.
    CannotSay(String),
}
