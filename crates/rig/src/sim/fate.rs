//! Fates: what becomes of each call to the store.

use std::time::Duration;

use super::coverage::Mark;
use super::world::World;

/// What becomes of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// How long the request takes, and the reply.
    pub(super) there: Duration,
    pub(super) back: Duration,
    pub(super) goes: Goes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goes {
    Well,
    /// It is not sent at all, and the caller is told so.
    Refused,
    RequestLost,
    ReplyLost,
    /// The reply is lost, and the caller is told that something went wrong.
    Broken,
    /// The request is sent twice; the second is answered.
    Twice,
    /// The process dies before it is sent, or when the store has done it.
    Death {
        after: bool,
    },
    /// The process stands still before it reads the reply.
    Pause,
}

// === impl Fate ===

impl Fate {
    /// Draws what becomes of a call.
    ///
    /// Only nodes die and stand still: the operator's desk, which has the last link, does not.
    pub(super) fn draw(world: &World, node: usize) -> Self {
        let is_node = node < world.plan.nodes;
        if world.is_calm() {
            return Self::well(world.span(0, 2), Duration::ZERO);
        }
        let weather = world.links[node].weather();
        let wrong = 0.01 + 0.03 * world.plan.trouble + weather.loss;
        let mut fate = match world.pick(5) {
            0 | 1 => Self::well(Duration::ZERO, Duration::ZERO),
            2 => Self::well(world.span(1, 3), Duration::ZERO),
            3 => Self::well(Duration::ZERO, world.span(1, 3)),
            _ => Self::well(world.span(1, 20), world.span(1, 20)),
        };
        if weather.slow > 0 {
            fate.there += world.span(0, weather.slow);
            fate.back += world.span(0, weather.slow);
        }
        if !world.chance(wrong) {
            return fate;
        }
        let lease = world.plan.lease.as_millis() as u64;
        let (mark, goes) = match world.pick(9) {
            0 => (Mark::StoreError, Goes::Refused),
            1 => (Mark::RequestLost, Goes::RequestLost),
            2 => (Mark::ReplyLost, Goes::ReplyLost),
            3 => (Mark::ErrorApplied, Goes::Broken),
            4 => (Mark::Duplicate, Goes::Twice),
            5 => {
                // It arrives when its sender has long given up, and often another has begun.
                fate.there += world.span(1_000, 3 * lease);
                (Mark::LateApply, Goes::Well)
            }
            6 => {
                fate.back += world.span(lease, 2 * lease);
                (Mark::LongDelay, Goes::Well)
            }
            7 if is_node => {
                let after = world.chance(0.5);
                (Mark::CrashAtCall, Goes::Death { after })
            }
            _ if is_node => (Mark::PauseAtCall, Goes::Pause),
            _ => return fate,
        };
        world.strike(mark, node);
        Self { goes, ..fate }
    }

    const fn well(there: Duration, back: Duration) -> Self {
        Self {
            there,
            back,
            goes: Goes::Well,
        }
    }

    /// Whether nothing can come between the question and the answer.
    pub(super) fn is_prompt(&self) -> bool {
        self.goes == Goes::Well && self.there.is_zero() && self.back.is_zero()
    }
}
