//! The status resource: where a caller that was sent away finds its answer.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};
use onceward::{Engine, Replay, SlotId, State};

use crate::body::AnswerBody;
use crate::guard::{Guard, unavailable};
use crate::problem::{Media, Problem};
use crate::{Profile, answer};

/// Where operations stand: the id follows.
pub const OPERATIONS: &str = "/.well-known/onceward/operations/";

// === impl Guard ===

impl Guard {
    /// Returns the id of the operation that a request asks for, if it asks for one.
    pub fn operation_in(request: &Parts) -> Option<&str> {
        let reads = matches!(request.method, Method::GET | Method::HEAD);
        let id = request.uri.path().strip_prefix(OPERATIONS)?;
        reads.then_some(id)
    }

    /// Answers a request for the operation with this id, for the caller that began it.
    ///
    /// While the work runs this is 202; then it is the answer itself, marked as a replay. For
    /// another caller there is no such operation.
    pub async fn operation<B>(
        &self,
        request: &Parts,
        id: &str,
        caller: Result<Arc<str>, Problem>,
    ) -> Response<AnswerBody<B>> {
        let slot = SlotId::from_hex(id);
        let found = match (caller, slot) {
            (Ok(caller), Some(slot)) => look(self.engine(), slot, &caller).await,
            (Ok(_), None) => Err(Problem::NoSuchOperation),
            (Err(problem), _) => Err(problem),
        };
        let media = Media::of(&request.headers);
        found.unwrap_or_else(|problem| self.refuse(&problem, media, slot))
    }
}

async fn look<B>(
    engine: &Engine,
    slot: SlotId,
    caller: &str,
) -> Result<Response<AnswerBody<B>>, Problem> {
    let found = engine.inspect(slot).await;
    let found = found.map_err(|error| unavailable(&error))?;
    let found = found.ok_or(Problem::NoSuchOperation)?;
    let record = &found.record;
    // Another caller learns nothing, not even that there is one.
    if record.scope.tenant() != caller || record.has_expired(found.now) {
        return Err(Problem::NoSuchOperation);
    }
    match &record.state {
        State::Completed(outcome) => {
            let replay = Replay {
                outcome: outcome.told(record.due() <= found.now),
                completed: record.written,
                expires: record.expires(),
                copied: false,
            };
            answer::replay(&replay, Profile::Ietf, slot)
        }
        State::Claimed(_) if !found.is_unsettled() => Ok(answer::accepted(slot, false)),
        State::Claimed(_) | State::Unknown(_) => Err(Problem::OutcomeUnknown { settles: false }),
        State::Open | State::Reserved(_) => Err(Problem::NoSuchOperation),
    }
}
