//! Holders: whoever has a claim ends it, and then answers the caller.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, Response, response};
use http_body::Body;
use onceward::bugs::{Bug, seeded};
use onceward::{
    BoxError, Claim, Effect, EndError, Ending, Outcome, Reason, Replay, SlotId, Verdict,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::body::AnswerBody;
use crate::execute::Came;
use crate::flow::{self, Flow};
use crate::guard::Inner;
use crate::problem::{Media, Problem};
use crate::quota::Ticket;
use crate::read::Pieces;
use crate::snapshot::{self, Keeping};
use crate::{Execute, Fate, Handled, Probed, answer};

/// Who holds the claim, and answers the caller when the claim has ended.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) guard: Arc<Inner>,
    pub(crate) claim: Claim,
    pub(crate) media: Media,
    /// What it took of its caller's quotas.
    pub(crate) ticket: Option<Box<Ticket>>,
    /// Its place among the executions under way.
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
}

// === impl Holder ===

impl Holder {
    /// Ends the claim as what came of the request says.
    pub(crate) async fn end<B, X>(
        self,
        came: Came<X::Body, X::Error>,
    ) -> Response<AnswerBody<X::Body>>
    where
        X: Execute<B>,
    {
        match came {
            Came::Whole(head, data, trailers) => self.whole(head, data, trailers).await,
            Came::Flowing(head, pieces, body) => self.flow(head, pieces, body),
            Came::Passed(Fate::Release, response) => self.released(response).await,
            Came::Passed(_, response) => {
                let status = response.status().as_u16();
                self.unsettled(
                    Reason::new(format!("the origin answered {status}")),
                    response,
                )
                .await
            }
            Came::Failed(error) => {
                let unsent = X::is_unsent(&error);
                tell(self.claim.id(), &error.into(), unsent, "no answer");
                match unsent {
                    true => self.not_executed(&Problem::UpstreamUnreachable).await,
                    false => self.abandon(Reason::new("no answer from the origin")).await,
                }
            }
            Came::Cut(error) => {
                tell(self.claim.id(), &error, false, "the answer was cut");
                self.abandon(Reason::new("the origin's answer was cut"))
                    .await
            }
        }
    }

    /// Records an answer that is all there, then gives it.
    async fn whole<B>(
        self,
        head: response::Parts,
        data: Bytes,
        trailers: Option<HeaderMap>,
    ) -> Response<AnswerBody<B>> {
        let kept = onceward::Body::Kept(data.clone());
        let outcome = self.outcome(&head, trailers.as_ref(), kept);
        let (guard, media, slot) = (self.guard, self.media, self.claim.id());
        let attempt = self.claim.attempt();
        let len = outcome.kept_len();
        match self.claim.complete(outcome).await {
            Ok(kept) => {
                stored(self.ticket.as_deref(), len, attempt);
                let mut head = head;
                if let Some(trailers) = &trailers {
                    answer::announce(&mut head.headers, trailers);
                }
                answer::mark_kept(&mut head.headers, kept.expires, guard.terms.profile);
                head.extensions.insert(Handled::original(slot, attempt));
                Response::from_parts(head, AnswerBody::whole(data, trailers))
            }
            Err(EndError::Pending { .. }) if seeded(Bug::AnswersUnstored) => {
                Response::from_parts(head, AnswerBody::whole(data, trailers))
            }
            Err(error) => guard.instead(error, media, slot),
        }
    }

    /// Passes an answer on as it comes, and records it in a task of its own.
    fn flow<B>(self, mut head: response::Parts, first: Pieces, body: B) -> Response<AnswerBody<B>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let terms = &self.guard.terms;
        answer::mark_accepted(&mut head.headers, terms.profile);
        let announced = flow::announced(first.len(), &head.headers, &body);
        let (flow, flowing) =
            Flow::new(first, body, announced, terms.policy.body_max, terms.within);
        head.extensions
            .insert(Handled::original(self.claim.id(), self.claim.attempt()));
        let recorded = head.clone();
        tokio::spawn(self.record(recorded, flow));
        Response::from_parts(head, AnswerBody::flowing(flowing))
    }

    async fn record<B>(self, head: response::Parts, mut flow: Flow<B>)
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        let slot = self.claim.id();
        let cut = match AssertUnwindSafe(flow.run()).catch_unwind().await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                tell(slot, &error, false, "the answer was cut");
                Some(Reason::new("the origin's answer was cut"))
            }
            Err(_) => Some(Reason::PANICKED),
        };
        let attempt = self.claim.attempt();
        if let Some(reason) = cut {
            unknown(self.ticket.as_deref(), attempt);
            return drop(self.claim.abandon(reason).await);
        }
        let (body, trailers) = flow.recorded();
        let outcome = self.outcome(&head, trailers.as_ref(), body);
        let len = outcome.kept_len();
        match self.claim.complete(outcome).await {
            Ok(_) => {
                stored(self.ticket.as_deref(), len, attempt);
                flow.end();
            }
            // The message is cut: its reader finds out what is recorded by a retry.
            Err(error) => tracing::warn!(?slot, %error, "a passed answer is not stored"),
        }
    }

    fn outcome(
        &self,
        head: &response::Parts,
        trailers: Option<&HeaderMap>,
        body: onceward::Body,
    ) -> Outcome {
        let terms = &self.guard.terms;
        let keeping = Keeping {
            cookies: terms.replay_cookies,
            only: terms.store_headers.as_deref(),
        };
        Outcome {
            ending: match head.status.is_client_error() || head.status.is_server_error() {
                true => Ending::Failure,
                false => Ending::Success,
            },
            head: snapshot::record(head.status, &head.headers, trailers, &keeping),
            body,
        }
    }

    /// Passes on an answer that says that nothing happened.
    async fn released<B>(self, response: Response<B>) -> Response<AnswerBody<B>> {
        let (guard, media, slot) = (self.guard, self.media, self.claim.id());
        let attempt = self.claim.attempt();
        match self.claim.release().await {
            // A release that the store has not taken yet is repeated in the background.
            Ok(()) | Err(EndError::Pending { .. }) => passed(response, slot, attempt),
            Err(error) => guard.instead(error, media, slot),
        }
    }

    /// Passes on an answer that leaves open what happened.
    async fn unsettled<B>(self, reason: Reason, response: Response<B>) -> Response<AnswerBody<B>> {
        let (guard, media, slot) = (self.guard, self.media, self.claim.id());
        let attempt = self.claim.attempt();
        unknown(self.ticket.as_deref(), attempt);
        match self.claim.abandon(reason).await {
            Ok(()) | Err(EndError::Pending { .. }) => passed(response, slot, attempt),
            Err(error) => guard.instead(error, media, slot),
        }
    }

    /// Says that nothing happened, unless an earlier attempt may have done something.
    pub(crate) async fn not_executed<B>(self, problem: &Problem) -> Response<AnswerBody<B>> {
        let (guard, media, slot) = (self.guard, self.media, self.claim.id());
        let whole = self.claim.is_whole();
        match self.claim.release().await {
            Ok(()) | Err(EndError::Pending { .. }) if whole => {
                guard.refuse(problem, media, Some(slot))
            }
            Ok(()) | Err(EndError::Pending { .. }) => {
                guard.refuse(&guard.unknown(), media, Some(slot))
            }
            Err(error) => guard.instead(error, media, slot),
        }
    }

    /// Says that nobody knows.
    pub(crate) async fn abandon<B>(self, reason: Reason) -> Response<AnswerBody<B>> {
        let (guard, media, slot) = (self.guard, self.media, self.claim.id());
        unknown(self.ticket.as_deref(), self.claim.attempt());
        match self.claim.abandon(reason).await {
            Ok(()) | Err(EndError::Pending { .. }) => {
                guard.refuse(&guard.unknown(), media, Some(slot))
            }
            Err(error) => guard.instead(error, media, slot),
        }
    }

    /// Asks whether an earlier attempt happened. Returns itself if it did not.
    pub(crate) async fn probe<B>(
        self,
        request: &Parts,
    ) -> Result<Self, Box<Response<AnswerBody<B>>>> {
        let attempt = self.claim.as_attempt();
        let probed = match &self.guard.probe {
            Some(probe) => {
                // Within the future, so that a panic of the call itself is caught as well.
                let asked = async { probe.probe(&attempt, request).await };
                let asked = AssertUnwindSafe(asked);
                let panicked = |_| Probed::CannotSay("the probe panicked".into());
                asked.catch_unwind().await.unwrap_or_else(panicked)
            }
            None => Probed::CannotSay("there is nobody to ask".into()),
        };
        match probed {
            Probed::NotDone => Ok(self),
            Probed::Done(response) => {
                let (head, data) = response.into_parts();
                Err(Box::new(self.found_done(head, data).await))
            }
            Probed::CannotSay(why) => {
                tracing::warn!(slot = ?self.claim.id(), why, "the probe cannot say");
                let reason = Reason::new(format!("the probe cannot say: {why}"));
                Err(Box::new(self.abandon(reason).await))
            }
        }
    }

    /// Records the answer of an earlier attempt, and replays it.
    async fn found_done<B>(self, head: response::Parts, data: Bytes) -> Response<AnswerBody<B>> {
        let outcome = self.outcome(&head, None, onceward::Body::Kept(data));
        let (guard, media, slot) = (self.guard, self.media, self.claim.id());
        let attempt = self.claim.attempt();
        match self.claim.complete(outcome.clone()).await {
            Ok(kept) => {
                stored(self.ticket.as_deref(), outcome.kept_len(), attempt);
                let replay = Replay {
                    outcome,
                    completed: kept.expires,
                    expires: kept.expires,
                    copied: false,
                };
                guard.answer(Verdict::Replay(replay), media, slot)
            }
            Err(error) => guard.instead(error, media, slot),
        }
    }
}

// === impl Inner ===

impl Inner {
    /// What the caller is told whose request may have been executed: a retry finds out where the
    /// service behind can tell.
    fn unknown(&self) -> Problem {
        Problem::OutcomeUnknown {
            settles: self.terms.policy.effect != Effect::Opaque,
        }
    }

    /// What to say instead of one's own result.
    fn instead<B>(&self, error: EndError, media: Media, slot: SlotId) -> Response<AnswerBody<B>> {
        match error {
            EndError::Lost { verdict } => self.answer(*verdict, media, slot),
            error => {
                tracing::error!(?slot, %error, "an answer is not stored");
                self.refuse(&Problem::StoreUnavailable, media, Some(slot))
            }
        }
    }
}

/// Adds an outcome of this many bytes to what its caller has.
fn stored(ticket: Option<&Ticket>, len: usize, attempt: u32) {
    if let Some(ticket) = ticket {
        ticket.stored(len, attempt > 1);
    }
}

/// Adds an unknown record to what its caller has.
fn unknown(ticket: Option<&Ticket>, attempt: u32) {
    if let Some(ticket) = ticket {
        ticket.unknown(attempt > 1);
    }
}

/// Tells the log why there is no answer, with all causes.
fn tell(slot: SlotId, error: &BoxError, unsent: bool, what: &'static str) {
    let error: &(dyn std::error::Error + 'static) = &**error;
    tracing::warn!(?slot, error, unsent, "{what}");
}

fn passed<B>(response: Response<B>, slot: SlotId, attempt: u32) -> Response<AnswerBody<B>> {
    let mut response = response.map(AnswerBody::passed);
    response.extensions_mut().insert(Handled {
        outcome: "not-stored",
        slot: Some(slot),
        attempt,
    });
    response
}
