//! Calls whose first attempt fails on the way there, on the way back, or for want of patience.

use std::time::Duration;

use super::{Found, World, call, same};
use crate::{adapter::Said, hop::Hop, origin::Act};

// === impl World ===

impl World {
    /// The work is done and recorded, and the SDK sees a broken connection.
    pub(super) fn answer_lost_on_the_way(&self) -> Found {
        self.origin.stage(&[]);
        let hop = Hop::before(self.opaque.addr());
        hop.lose_next_answer();
        let by_itself = self.sdk.retries_broken;
        let call = self.stable(&hop, "lost-on-the-way", by_itself);
        self.end_well(self.say(&call)?, &call, by_itself)?;
        same(&hop.requests(), &2, "requests of the SDK")?;
        self.arrived_once()
    }

    /// Half of the request arrives: nothing is done until the rest comes too.
    pub(super) fn request_cut_on_the_way(&self) -> Found {
        self.origin.stage(&[]);
        let hop = Hop::before(self.opaque.addr());
        hop.cut_next_request();
        let by_itself = self.sdk.retries_broken;
        let call = self.stable(&hop, "request-cut", by_itself);
        self.end_well(self.say(&call)?, &call, by_itself)?;
        same(&hop.requests(), &2, "requests of the SDK")?;
        self.arrived_once()
    }

    /// The SDK loses its connection before there is an answer, and the work goes on.
    pub(super) fn connection_cut_while_it_runs(&self) -> Found {
        self.origin.stage(&[Act::Hold]);
        let hop = Hop::before(self.opaque.addr());
        let by_itself = self.sdk.retries_broken;
        let call = self.stable(&hop, "cut", by_itself);
        let started = self.adapter.call(&call);
        self.origin.await_arrival()?;
        hop.cut();
        self.origin.let_go();
        self.end_well(started.wait()?, &call, by_itself)?;
        same(&hop.requests(), &2, "requests of the SDK")?;
        self.arrived_once()
    }

    /// Nobody knows what happened, and the service may be asked again: by the SDK if the refusal
    /// makes it retry, else by the program.
    pub(super) fn answer_lost_keyed(&self) -> Found {
        self.origin.stage_deduplicating(&[Act::Lose]);
        let hop = Hop::before(self.keyed.addr());
        let call = call(&hop, "lost-keyed");
        let made = match self.say(&call)? {
            Said::Made(id) => id,
            Said::Raised(raised) => {
                self.check_refusal(&raised, self.sdk.conflict, "not known")?;
                self.say(&call)?.made()?
            }
        };
        same(&made.as_str(), &"made-lost-keyed-1", "the answer")?;
        same(&self.origin.effects().len(), &1, "effects")?;
        same(&self.origin.arrivals().len(), &2, "arrivals at the origin")
    }

    /// Nobody knows what happened, and nobody finds out by trying.
    pub(super) fn answer_lost_opaque(&self) -> Found {
        self.origin.stage(&[Act::Lose]);
        let hop = Hop::before(self.opaque.addr());
        let call = call(&hop, "lost-opaque");
        for _ in 0..2 {
            let raised = self.say(&call)?.raised()?;
            self.check_refusal(&raised, self.sdk.conflict, "not known")?;
        }
        let conflicts = hop.statuses().iter().all(|status| *status == 409);
        same(&conflicts, &true, "every answer is a conflict")?;
        self.arrived_once()
    }

    /// Something in between lost the answer, and the service may be asked again.
    pub(super) fn bad_gateway_keyed(&self) -> Found {
        self.origin.stage_deduplicating(&[Act::BadGateway]);
        let hop = Hop::before(self.keyed.addr());
        let by_itself = self.sdk.retries_bad_gateway;
        let call = self.stable(&hop, "bad-gateway-keyed", by_itself);
        self.end_well(self.say(&call)?, &call, by_itself)?;
        same(&hop.statuses().first(), &Some(&502), "the first answer")?;
        same(&self.origin.effects().len(), &1, "effects")?;
        same(&self.origin.arrivals().len(), &2, "arrivals at the origin")
    }

    /// Something in between lost the answer: a retry is told so, and changes nothing.
    pub(super) fn bad_gateway_opaque(&self) -> Found {
        self.origin.stage(&[Act::BadGateway]);
        let hop = Hop::before(self.opaque.addr());
        let call = call(&hop, "bad-gateway-opaque");
        let mut raised = self.say(&call)?.raised()?;
        if !self.sdk.retries_bad_gateway {
            same(&raised.own, &true, "the error is the SDK's own")?;
            raised = self.say(&call)?.raised()?;
        }
        self.check_refusal(&raised, self.sdk.conflict, "not known")?;
        self.arrived_once()
    }

    /// The SDK's own time limit ends the call, and the program calls again.
    pub(super) fn given_up_then_retried(&self) -> Found {
        self.origin.stage(&[Act::Hold]);
        let hop = Hop::before(self.opaque.addr());
        let call = call(&hop, "given-up");
        let mut hurried = call.clone();
        hurried.retries = false;
        hurried.timeout = Some(Duration::from_secs(2));
        self.say(&hurried)?.raised()?;
        self.origin.await_arrival()?;
        self.origin.let_go();
        self.say(&call)?.made()?;
        self.arrived_once()
    }
}
