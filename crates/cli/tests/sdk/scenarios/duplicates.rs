//! Calls that share a key, rightly or wrongly.

use super::{Found, World, call, own_key, same};
use crate::{adapter::Said, hop::Hop, origin::Act};

// === impl World ===

impl World {
    /// A key per call, unless one is given; the same key is the same work.
    pub(super) fn plain(&self) -> Found {
        self.origin.stage(&[]);
        let hop = Hop::before(self.opaque.addr());
        let mut many = 0;
        if self.sdk.makes_keys {
            let first = self.say(&own_key(&hop))?.made()?;
            let second = self.say(&own_key(&hop))?.made()?;
            same(
                &(first != second),
                &true,
                "two calls are two pieces of work",
            )?;
            many = 2;
        }
        let call = call(&hop, "plain");
        let first = self.say(&call)?.made()?;
        same(&self.say(&call)?.made()?, &first, "the second answer")?;
        same(&self.origin.effects().len(), &(many + 1), "effects")?;
        let told_apart = !self.origin.effects().contains(&"without".into());
        same(&told_apart, &true, "every call has a key")
    }

    pub(super) fn duplicates_side_by_side(&self) -> Found {
        self.origin.stage(&[Act::Hold]);
        let hop = Hop::before(self.opaque.addr());
        let call = call(&hop, "side-by-side");
        let first = self.adapter.call(&call);
        self.origin.await_arrival()?;
        let second = self.adapter.call(&call);
        hop.await_requests(2)?;
        self.origin.let_go();
        let first = first.wait()?.made()?;
        same(&second.wait()?.made()?, &first, "the second answer")?;
        self.arrived_once()
    }

    /// The duplicate is refused while the first runs, and gets the answer afterwards.
    pub(super) fn longer_than_a_duplicate_waits(&self) -> Found {
        self.origin.stage(&[Act::Hold]);
        let hop = Hop::before(self.hasty.addr());
        let call = call(&hop, "slow");
        let first = self.adapter.call(&call);
        self.origin.await_arrival()?;
        let second = self.adapter.call(&call);
        hop.await_answer()?;
        same(&hop.statuses(), &vec![409], "answers while it runs")?;
        self.origin.let_go();
        let first = first.wait()?.made()?;
        let second = match second.wait()? {
            Said::Made(id) => id,
            Said::Raised(raised) => {
                self.check_refusal(&raised, self.sdk.conflict, "still running")?;
                self.say(&call)?.made()?
            }
        };
        same(&second, &first, "the second answer")?;
        self.arrived_once()
    }

    pub(super) fn key_reused(&self) -> Found {
        self.origin.stage(&[]);
        let hop = Hop::before(self.opaque.addr());
        let first = call(&hop, "reused");
        let mut other = first.clone();
        other.name = "other";
        self.say(&first)?.made()?;
        let raised = self.say(&other)?.raised()?;
        self.check_refusal(&raised, self.sdk.reused, "different request")?;
        same(&hop.requests(), &2, "requests of the SDK")?;
        self.arrived_once()
    }

    /// A key that is none is refused before anything is done.
    pub(super) fn key_too_long(&self) -> Found {
        self.origin.stage(&[]);
        let hop = Hop::before(self.opaque.addr());
        let raised = self.say(&call(&hop, &"k".repeat(300)))?.raised()?;
        self.check_told(&raised, "255")?;
        same(&hop.statuses(), &vec![400], "answers")?;
        same(&self.origin.arrivals().len(), &0, "arrivals at the origin")
    }
}
