//! Executing a request under a claim, and recording what comes of it.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header, response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use onceward::bugs::{Bug, seeded};
use onceward::{BoxError, Claim, Duty, Reason};

use tokio::sync::OwnedSemaphorePermit;

use crate::body::{AnswerBody, RequestBody};
use crate::flow;
use crate::guard::Inner;
use crate::headers::strip_ours;
use crate::holder::Holder;
use crate::problem::{Media, Problem};
use crate::quota::Ticket;
use crate::read::{Pieces, Received};
use crate::{Execute, Fate, Terms};

/// One execution of one request.
#[derive(Debug)]
pub(crate) struct Execution {
    holder: Holder,
    parts: Parts,
    received: Received,
}

/// What came of a request.
pub(crate) enum Came<B, E> {
    Failed(E),
    /// An answer whose body is not recorded.
    Passed(Fate, Response<B>),
    /// An answer that is all there.
    Whole(response::Parts, Bytes, Option<HeaderMap>),
    /// An answer that is passed on while it is recorded: this much of it was read.
    Flowing(response::Parts, Pieces, B),
    /// Part of an answer.
    Cut(BoxError),
}

/// What an execution has to know about its request.
#[derive(Clone, Copy, Debug)]
struct About {
    /// Whether the answer may be passed on before it is recorded, if it streams.
    may_flow: bool,
    /// Whether an earlier attempt may be under way still.
    is_repeat: bool,
}

// === impl About ===

impl About {
    fn fate(self, terms: &Terms, status: StatusCode) -> Fate {
        match terms.statuses.fate(status) {
            // The service may mean that the earlier attempt is still running, which is no outcome.
            Fate::Store if self.is_repeat && status == StatusCode::CONFLICT => Fate::Unknown,
            Fate::Unknown if seeded(Bug::BadGatewayReleases) => Fate::Release,
            fate => fate,
        }
    }
}

// === impl Execution ===

impl Execution {
    pub(crate) fn new(
        guard: Arc<Inner>,
        claim: Claim,
        permit: Option<OwnedSemaphorePermit>,
        ticket: Option<Box<Ticket>>,
        parts: Parts,
        received: Received,
    ) -> Self {
        let media = Media::of(&parts.headers);
        Self {
            holder: Holder {
                guard,
                claim,
                media,
                ticket,
                _permit: permit,
            },
            parts,
            received,
        }
    }

    /// Executes the request, ends the claim and returns the answer, in this order.
    pub(crate) async fn run<B, X>(self, execute: X) -> Response<AnswerBody<X::Body>>
    where
        X: Execute<B>,
    {
        let Self {
            holder,
            parts,
            received,
        } = self;
        let holder = match holder.claim.duty() {
            Duty::Probe => match holder.probe(&parts).await {
                Ok(holder) => holder,
                Err(response) => return *response,
            },
            Duty::Execute | Duty::Repeat => holder,
        };
        if !holder.claim.is_held() {
            // Paused for a whole lease: somebody may be told by now that nobody knows, so the
            // work must not start.
            return holder.not_executed(&Problem::StoreUnavailable).await;
        }
        let mut parts = parts;
        parts.extensions.insert(holder.claim.as_attempt());
        // A retry may accept other codings than the first caller, and want another part or all.
        let identity = HeaderValue::from_static("identity");
        parts.headers.insert(header::ACCEPT_ENCODING, identity);
        parts.headers.remove(header::RANGE);
        let terms = &holder.guard.terms;
        let about = About {
            // Its end would be the end of the connection, which nothing can withhold.
            may_flow: parts.version != Version::HTTP_10,
            is_repeat: holder.claim.attempt() > 1,
        };
        let body = RequestBody::whole(received.data, received.trailers);
        let request = Request::from_parts(parts, body);
        let within = terms.within.filter(|_| !X::KEEPS_TIME);
        let came = {
            let work = pin!(produce(terms, about, execute, request));
            let work = AssertUnwindSafe(limited(within, work));
            work.catch_unwind().await
        };
        match came {
            Ok(Some(came)) => holder.end::<B, X>(came).await,
            Ok(None) => holder.abandon(Reason::new("no answer in time")).await,
            Err(_) => holder.abandon(Reason::PANICKED).await,
        }
    }
}

/// Waits for `work`, `limit` at the most.
///
/// Whoever calls pins the work: taken by value it would stand twice in this future, and be moved
/// with all the futures around it. The timer is made when there is something to wait for. It is
/// boxed, because it is aligned to cache lines, and so would be every future around it.
async fn limited<T>(
    limit: Option<Duration>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let mut timer = None;
    poll_fn(|cx| match (work.as_mut().poll(cx), limit) {
        (Poll::Ready(done), _) => Poll::Ready(Some(done)),
        (Poll::Pending, None) => Poll::Pending,
        (Poll::Pending, Some(limit)) => {
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
            timer.as_mut().poll(cx).map(|()| None)
        }
    })
    .await
}

/// Sends the request and reads its answer, as far as it is recorded before it is passed on.
async fn produce<B, X: Execute<B>>(
    terms: &Terms,
    about: About,
    execute: X,
    request: Request<RequestBody<B>>,
) -> Came<X::Body, X::Error> {
    let mut response = match execute.execute(request).await {
        Ok(response) => response,
        Err(error) => return Came::Failed(error),
    };
    if !seeded(Bug::ForeignMarksPassed) {
        strip_ours(response.headers_mut());
    }
    // A handler knows better than its status what it did.
    let said = response.extensions().get::<Fate>().copied();
    let fate = said.unwrap_or_else(|| about.fate(terms, response.status()));
    if fate != Fate::Store {
        return Came::Passed(fate, response);
    }
    let (head, body) = response.into_parts();
    let limit = terms.policy.body_max;
    let streams = about.may_flow && (terms.stream || is_event_stream(&head.headers));
    let large = body.size_hint().lower() > limit as u64;
    if (streams && !is_over_with_its_head(&head, &body)) || large {
        return Came::Flowing(head, Pieces::default(), body);
    }
    let collected = limited(terms.within, pin!(collect(head, body, limit))).await;
    collected.unwrap_or_else(|| Came::Cut("the answer did not end in time".into()))
}

/// Whether the end of the head is the end of the message, so that nothing is left to withhold.
fn is_over_with_its_head(head: &response::Parts, body: &impl Body) -> bool {
    let bodiless = matches!(
        head.status,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    bodiless || body.is_end_stream() || flow::announced(0, &head.headers, body) == Some(0)
}

async fn collect<B, E>(head: response::Parts, mut body: B, limit: usize) -> Came<B, E>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let mut pieces = Pieces::default();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => pieces.push(data),
            Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
            Err(_) if seeded(Bug::TruncatedStored) => break,
            Err(error) => return Came::Cut(error.into()),
        }
        if pieces.len() > limit {
            return Came::Flowing(head, pieces, body);
        }
    }
    Came::Whole(head, pieces.join(), trailers)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let name = b"text/event-stream";
    media_type.is_some_and(|text| {
        text.get(..name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name))
    })
}
