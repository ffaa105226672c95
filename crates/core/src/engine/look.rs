//! Looking before asking, for those who may not always begin something new.

use tracing::Instrument as _;

use super::{Engine, Error, Looked, count};
use crate::protocol::{Arrival, Step, decide};
use crate::store::Reply;
use crate::verdict::Verdict;

/// What an arrival would get, were it admitted now.
#[derive(Debug)]
pub enum Sight {
    /// A claim on work that nobody has begun.
    New,
    /// A claim on work whose holder fell silent, to go on with it.
    Resumed,
    /// No claim, but something is to be done or waited for first: [`Engine::admit`] does it.
    Held,
    /// This verdict, which is never [`Verdict::Execute`].
    Verdict(Verdict),
}

// === impl Engine ===

impl Engine {
    /// Looks what an arrival would get, without writing anything. The answer of work that bears
    /// the same business identity under another key is among it, but is not written down under
    /// this key.
    ///
    /// What is seen may have changed by the time it is acted upon: an arrival that is admitted
    /// after a look can get another verdict.
    pub async fn look(&self, arrival: &Arrival) -> Result<Sight, Error> {
        if let Some(verdict) = self.recall(arrival) {
            return Ok(Sight::Verdict(verdict));
        }
        let shared = &self.shared;
        if shared.tasks.is_closed() {
            return Err(Error::Closing);
        }
        let call = shared.reach.store.get(arrival.id());
        let Reply { value, now } = shared.reach.ask(call).await?;
        let step = decide(value.as_deref(), arrival, now);
        let sight = match Verdict::of(step, arrival.id(), now) {
            Ok(Verdict::Busy(_)) => Sight::Held,
            Ok(verdict) => Sight::Verdict(verdict),
            Err(Step::Claim { .. }) => self.glance(arrival).await?.unwrap_or(Sight::New),
            Err(Step::TakeOver { .. } | Step::Probe { .. }) => Sight::Resumed,
            Err(_) => Sight::Held,
        };
        if let Sight::Verdict(verdict) = &sight {
            count(arrival, verdict);
        }
        Ok(sight)
    }

    /// Like [`Engine::admit`], but returns `None` where that would wait or refuse because
    /// somebody else is at it: then ask again with [`Engine::admit`].
    ///
    /// Cancel safe in the same way.
    pub async fn admit_at_once(&self, arrival: &Arrival) -> Result<Option<Verdict>, Error> {
        if let Some(verdict) = self.recall(arrival) {
            return Ok(Some(verdict));
        }
        // Taken before asking, so that a shutdown either refuses this arrival or waits for it.
        let _under_way = self.shared.tasks.token();
        let span = tracing::debug_span!("begin", slot = ?arrival.id());
        let looked = match span.is_disabled() {
            true => self.ask_once(arrival).await?,
            false => Box::pin(self.ask_once(arrival).instrument(span)).await?,
        };
        let verdict = match looked {
            Looked::Verdict(verdict) => self.alone(arrival, verdict).await?,
            Looked::Busy(..) => None,
        };
        if let Some(verdict) = &verdict {
            count(arrival, verdict);
        }
        Ok(verdict)
    }
}
