//! The service behind: it does the work, as often as its class lets it.

use super::state::State;
use super::{Model, Service};

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Delivery {
    /// The work is done, and this is the answer.
    Served(u8),
    /// The service recognised it, did nothing, and this is the answer.
    Repeated(u8),
    /// Its fence is too old: nothing was done.
    Refused,
}

impl Model<'_> {
    /// Brings the request of a worker to the service.
    pub(super) fn deliver(&self, state: &mut State, at: usize) -> Delivery {
        let worker = &mut state.workers[at];
        worker.request = false;
        let (generation, mark) = (worker.generation, worker.mark);
        let first = State::first_answer(generation);
        let effects = &mut state.effects[usize::from(generation)];
        match self.variant.service {
            Service::Repeats if *effects > 0 => return Delivery::Repeated(first),
            Service::Recognises if *effects > 0 => return Delivery::Repeated(first + 1),
            Service::Fences if mark < state.service_fence => return Delivery::Refused,
            Service::Fences => state.service_fence = mark,
            Service::Plain | Service::Repeats | Service::Recognises | Service::Commits => {}
        }
        *effects = (*effects + 1).min(2);
        Delivery::Served(first + u8::from(*effects > 1))
    }
}
