//! The guard: one request's way from its arrival to its answer.
//!
//! [`Guard::handle`] is the whole behaviour on the wire. The tower layer calls it with the inner
//! service, the gateway with its upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use onceward::{Arrival, BoxError, Engine, Error, Sight, SlotId, Verdict};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::admit::Admission;
use crate::arrive::{Asked, Look, Read};
use crate::body::{AnswerBody, RequestBody};
use crate::detach::Detach;
use crate::execute::Execution;
use crate::prefer::Prefer;
use crate::problem::{Media, Naming, Problem};
use crate::quota::Quotas;
use crate::read::Received;
use crate::{Execute, Handled, KeyNeed, OnBusy, Probe, Terms, answer, derive, rules};

/// Makes the requests of one route safe to retry. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) terms: Terms,
    pub(crate) naming: Naming,
    pub(crate) probe: Option<Arc<dyn Probe>>,
    /// How many executions may be under way at a time, of this route and of those it shares with.
    pub(crate) executions: Option<Arc<Semaphore>>,
    /// What callers may take, and have taken.
    pub(crate) quotas: Option<Arc<Quotas>>,
}
// === impl Guard ===

impl Guard {
    /// Returns a guard that keeps its records with `engine`, under `terms`.
    pub fn new(engine: &Engine, mut terms: Terms) -> Self {
        if !terms.unique.is_empty() && terms.key == KeyNeed::Optional {
            terms.key = KeyNeed::Required;
        }
        let mut policy = terms.policy.clone();
        policy.on_busy = match terms.on_busy {
            OnBusy::Wait(limit) => onceward::OnBusy::Wait(limit),
            OnBusy::Refuse | OnBusy::Accept => onceward::OnBusy::Refuse,
        };
        Self(Arc::new(Inner {
            engine: engine.with_policy(policy),
            terms,
            naming: Naming::default(),
            probe: None,
            executions: None,
            quotas: None,
        }))
    }

    /// Sets how problems are named.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        self.with(|inner| inner.naming = naming)
    }

    /// Sets whom to ask about work whose holder fell silent. Without it, probed work whose holder
    /// fell silent stays unknown.
    #[must_use]
    pub fn probe(self, probe: Arc<dyn Probe>) -> Self {
        self.with(|inner| inner.probe = Some(probe))
    }

    /// Begins nothing new while as many executions are under way as `permits` has permits. Guards
    /// may share them. Replays and duplicates that wait are never refused for it.
    #[must_use]
    pub fn executions(self, permits: Arc<Semaphore>) -> Self {
        self.with(|inner| inner.executions = Some(permits))
    }

    /// Sets what one caller may take. Guards may share it. Replays and duplicates that wait are
    /// never refused for it.
    #[must_use]
    pub fn quotas(self, quotas: Arc<Quotas>) -> Self {
        self.with(|inner| inner.quotas = Some(quotas))
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::try_unwrap(self.0).unwrap_or_else(|shared| Inner {
            engine: shared.engine.clone(),
            terms: shared.terms.clone(),
            naming: shared.naming.clone(),
            probe: shared.probe.clone(),
            executions: shared.executions.clone(),
            quotas: shared.quotas.clone(),
        });
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// The terms of the route.
    pub fn terms(&self) -> &Terms {
        &self.0.terms
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns the answer that tells a caller about `problem`.
    pub fn refuse<B>(
        &self,
        problem: &Problem,
        media: Media,
        slot: Option<SlotId>,
    ) -> Response<AnswerBody<B>> {
        self.0.refuse(problem, media, slot)
    }

    /// Answers a request: by executing it, by the answer it had before, or by a refusal.
    ///
    /// `caller` says who asks, and is called only if that matters. An error of `execute` is
    /// returned for requests without a key; for others it decides what becomes of the record.
    ///
    /// Cancel safe: an execution that has begun goes on in a task of its own.
    pub async fn handle<B, C, X>(
        &self,
        request: Request<B>,
        caller: C,
        execute: X,
    ) -> Result<Response<AnswerBody<X::Body>>, X::Error>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
        C: FnOnce(&Parts) -> Result<Arc<str>, Problem>,
        X: Execute<B>,
    {
        let (mut parts, body) = request.into_parts();
        rules::take_confirmation(&mut parts);
        let inner = &self.0;
        let look = match inner.look(&parts) {
            // Boxed, like every execution: a replay shall not carry the room that one takes.
            Ok(Look::Pass) => {
                return Box::pin(pass(Request::from_parts(parts, body), execute)).await;
            }
            Ok(look) => look,
            // Who may not ask is told that first.
            Err(missing @ (Problem::MissingKey | Problem::MissingFields(_))) => {
                let problem = caller(&parts).err().unwrap_or(missing);
                return Ok(inner.refuse(&problem, Media::of(&parts.headers), None));
            }
            Err(problem) => return Ok(inner.refuse(&problem, Media::of(&parts.headers), None)),
        };
        let caller = caller(&parts);
        if inner.terms.key == KeyNeed::Derived {
            derive::forget_sent(&mut parts.headers);
        }
        match inner.receive(&parts, body, look, caller).await {
            Ok(Read::Keyed(asked)) => Ok(self.ask(parts, asked, execute).await),
            Ok(Read::Unkeyed(Received { data, trailers })) => {
                let body = RequestBody::whole(data, trailers);
                Box::pin(pass_body(Request::from_parts(parts, body), execute)).await
            }
            Err(problem) => Ok(inner.refuse(&problem, Media::of(&parts.headers), None)),
        }
    }

    /// Asks the engine about a request with a key, and does what it says.
    async fn ask<B, X>(
        &self,
        parts: Parts,
        asked: Asked,
        execute: X,
    ) -> Response<AnswerBody<X::Body>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
        X: Execute<B>,
    {
        let inner = &self.0;
        let prefer = Prefer::of(&parts.headers);
        let arrival = match inner.arrival(&parts, &asked, prefer).await {
            Ok(arrival) => arrival,
            Err(problem) => return inner.refuse(&problem, Media::of(&parts.headers), None),
        };
        match inner.engine.recall(&arrival) {
            Some(Verdict::Mismatch) => {
                let (problem, media) =
                    (inner.mismatch(&parts, &arrival), Media::of(&parts.headers));
                inner.refuse(&problem, media, Some(arrival.id()))
            }
            Some(verdict) => inner.answer(verdict, Media::of(&parts.headers), arrival.id()),
            None => {
                let received = asked.received;
                // Only here: what was answered before costs nothing more.
                let bound = inner.bound(arrival.clone(), &parts, &received).await;
                let arrival = match bound {
                    Ok(arrival) => arrival,
                    Err(problem) => {
                        return inner.unbound(&parts, &arrival, &problem).await;
                    }
                };
                let work = self.execute(parts, received, arrival, prefer, execute);
                Box::pin(work).await
            }
        }
    }

    /// Asks for the right to execute, and executes.
    async fn execute<B, X>(
        &self,
        parts: Parts,
        received: Received,
        arrival: Arrival,
        prefer: Prefer,
        execute: X,
    ) -> Response<AnswerBody<X::Body>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
        X: Execute<B>,
    {
        let (inner, slot) = (&self.0, arrival.id());
        let (claim, mut ticket) = match inner.admit(&parts, &arrival).await {
            Ok(Admission::Granted(claim, ticket)) => (claim, ticket),
            Ok(Admission::Verdict(Verdict::Busy(busy))) if inner.accepts(prefer) => {
                // The same work under another key is the same caller's.
                return answer::accepted(busy.twin.unwrap_or(slot), prefer.respond_async);
            }
            Ok(Admission::Verdict(verdict)) => {
                return inner.answer(verdict, Media::of(&parts.headers), slot);
            }
            Ok(Admission::Over(over)) => {
                let media = Media::of(&parts.headers);
                return inner.refuse(&inner.over(over), media, Some(slot));
            }
            Err(error) => {
                let media = Media::of(&parts.headers);
                return inner.refuse(&unavailable(&error), media, Some(slot));
            }
        };
        let Ok(permit) = inner.permit() else {
            // A release that the store has not taken yet is repeated in the background.
            let _ = claim.release().await;
            let media = Media::of(&parts.headers);
            return inner.refuse(&Problem::TooManyClaims, media, Some(slot));
        };
        let left = ticket.as_mut().and_then(|ticket| ticket.use_up());
        let execution = Execution::new(inner.clone(), claim, permit, ticket, parts, received);
        let work = Detach::new(execution.run(execute));
        if !(prefer.respond_async && inner.terms.status_resource) {
            let mut response = work.await;
            if let Some(left) = left {
                left.mark(response.headers_mut());
            }
            return response;
        }
        // The caller asked not to wait for longer than this.
        let limit = prefer.wait.unwrap_or(Duration::ZERO);
        match Box::pin(tokio::time::timeout(limit, work)).await {
            Ok(response) => response,
            Err(_) => answer::accepted(slot, true),
        }
    }
}

// === impl Inner ===

impl Inner {
    /// A place among the executions under way, if there is a limit to them.
    fn permit(&self) -> Result<Option<OwnedSemaphorePermit>, TryAcquireError> {
        let permits = self.executions.clone();
        permits.map(Semaphore::try_acquire_owned).transpose()
    }

    /// Whether a duplicate of running work is told where to look instead of being refused.
    fn accepts(&self, prefer: Prefer) -> bool {
        let accepts = self.terms.on_busy == OnBusy::Accept;
        self.terms.status_resource && (accepts || prefer.respond_async)
    }

    /// The answer to a request that lacks what a rule needs. What was done before the rule came, or
    /// by another message, is answered all the same.
    async fn unbound<B>(
        &self,
        parts: &Parts,
        arrival: &Arrival,
        problem: &Problem,
    ) -> Response<AnswerBody<B>> {
        let media = Media::of(&parts.headers);
        match self.engine.look(arrival).await {
            Ok(Sight::Verdict(Verdict::Mismatch)) => {
                self.refuse(&self.mismatch(parts, arrival), media, Some(arrival.id()))
            }
            Ok(Sight::Verdict(verdict)) => self.answer(verdict, media, arrival.id()),
            Ok(Sight::New | Sight::Resumed | Sight::Held) => self.refuse(problem, media, None),
            Err(error) => self.refuse(&unavailable(&error), media, Some(arrival.id())),
        }
    }

    /// The answer to a request that is not executed.
    pub(crate) fn answer<B>(
        &self,
        verdict: Verdict,
        media: Media,
        slot: SlotId,
    ) -> Response<AnswerBody<B>> {
        let problem = match verdict {
            Verdict::Replay(replay) => match answer::replay(&replay, self.terms.profile, slot) {
                Ok(response) => return response,
                Err(problem) => problem,
            },
            Verdict::Busy(busy) => Problem::InProgress {
                retry_after: busy.retry_after,
            },
            Verdict::Mismatch => Problem::KeyReused,
            Verdict::Unknown(_) => Problem::OutcomeUnknown { settles: false },
            Verdict::Elsewhere(elsewhere) => answer::elsewhere(&elsewhere, slot),
            Verdict::Execute(_) => unreachable!("a claim is executed, not answered"),
        };
        self.refuse(&problem, media, Some(slot))
    }

    pub(crate) fn refuse<B>(
        &self,
        problem: &Problem,
        media: Media,
        slot: Option<SlotId>,
    ) -> Response<AnswerBody<B>> {
        let answer = problem.answer(&self.naming, self.terms.profile, media);
        let mut response = answer.map(AnswerBody::from);
        response.extensions_mut().insert(Handled {
            outcome: problem.name(),
            slot,
            attempt: 0,
        });
        response
    }
}

/// What a caller is told when the engine has no verdict; the log tells more.
pub(crate) fn unavailable(error: &Error) -> Problem {
    match error {
        Error::Closing => tracing::debug!("refused: shutting down"),
        error => tracing::warn!(%error, "no verdict"),
    }
    Problem::StoreUnavailable
}

async fn pass<B, X: Execute<B>>(
    request: Request<B>,
    execute: X,
) -> Result<Response<AnswerBody<X::Body>>, X::Error> {
    pass_body(request.map(RequestBody::passed), execute).await
}

async fn pass_body<B, X: Execute<B>>(
    request: Request<RequestBody<B>>,
    execute: X,
) -> Result<Response<AnswerBody<X::Body>>, X::Error> {
    let mut response = execute.execute(request).await?.map(AnswerBody::passed);
    response.extensions_mut().insert(Handled {
        outcome: "passed",
        slot: None,
        attempt: 0,
    });
    Ok(response)
}
