//! The site that every proxy is measured at: an upstream that counts, and keys that nobody used.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::callers::{Order, Pace, Turn};
use super::mix::Mix;
use super::peers::{Reached, Upstream};
use super::series::Kind;
use super::spent::{self, Spent};
use crate::Failed;
use crate::load::Load;
use crate::process::Process;

/// An upstream, and the number in the next new key.
#[derive(Debug)]
pub(crate) struct Site {
    upstream: Upstream,
    numbers: Arc<AtomicU64>,
}

/// How hard, how often and for how long a series is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    pub(crate) pace: Pace,
    pub(crate) rounds: usize,
    pub(crate) warm: Duration,
    pub(crate) span: Duration,
}

/// What one side did in a round.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) load: Load,
    pub(crate) spent: Spent,
}

/// How many finished keys replays choose from: the same number for each connection.
const FINISHED: u64 = 10_240;

// === impl Site ===

impl Site {
    /// Starts the upstream.
    pub(crate) async fn start() -> Result<Self, Failed> {
        Ok(Self {
            upstream: Upstream::start().await?,
            numbers: Arc::new(AtomicU64::new(0)),
        })
    }

    /// Returns where the upstream listens.
    pub(crate) fn upstream(&self) -> SocketAddr {
        self.upstream.address
    }

    /// Returns a load of `kind` on the gateway at `to`, with its keys finished where it replays.
    pub(crate) async fn ours(
        &self,
        to: SocketAddr,
        kind: Kind,
        plan: Plan,
    ) -> Result<Order, Failed> {
        let ours = Order {
            replays: true,
            ..self.order(to, plan)
        };
        let mix = match kind {
            Kind::First => Mix::First,
            Kind::Half => Mix::Half,
            Kind::Unkeyed => Mix::Unkeyed,
            Kind::Replay => self.finish(&ours).await?,
        };
        Ok(Order { mix, ..ours })
    }

    /// Has the gateway finish the keys that are to be replayed.
    async fn finish(&self, ours: &Order) -> Result<Mix, Failed> {
        let first = self.numbers.load(Ordering::Relaxed);
        let keys = first..first + FINISHED;
        let order = Order {
            mix: Mix::First,
            each: (FINISHED / ours.connections as u64) as u32,
            pace: Pace::Closed,
            warm: Duration::ZERO,
            span: Duration::from_secs(60),
            ..ours.clone()
        };
        let (executed, _) = self.turn(order, None).await?;
        match executed {
            FINISHED => Ok(Mix::Replay(keys)),
            fewer => Err(format!("only {fewer} of {FINISHED} keys were finished in time").into()),
        }
    }

    /// Puts one load on, and compares what was answered with what reached the upstream.
    ///
    /// Returns how many requests were executed, and what was measured.
    pub(crate) async fn turn(
        &self,
        order: Order,
        proxy: Option<&Process>,
    ) -> Result<(u64, Side), Failed> {
        self.upstream.reset().await?;
        let spent = || {
            [
                proxy.map_or(Duration::ZERO, |proxy| spent::until_now(proxy.id())),
                spent::until_now(self.upstream.process.id()),
                spent::own_until_now(),
            ]
        };
        let (replays, before) = (order.replays, spent());
        let turn = order.run().await?;
        let spent = Spent::per_request(before, spent(), turn.asked);
        let reached = self.upstream.reached().await?;
        check(&turn, reached, replays)?;
        let load = turn.load;
        Ok((turn.executed, Side { load, spent }))
    }

    /// Returns a load of new keys on a listener at `to` that replays nothing.
    pub(crate) fn order(&self, to: SocketAddr, plan: Plan) -> Order {
        Order {
            to,
            replays: false,
            mix: Mix::First,
            connections: plan.connections,
            pace: plan.pace,
            warm: plan.warm,
            span: plan.span,
            each: u32::MAX,
            numbers: Arc::clone(&self.numbers),
        }
    }
}

/// The semantic result: each key reached the upstream once, replays never.
fn check(turn: &Turn, reached: Reached, replays: bool) -> Result<(), Failed> {
    let Turn {
        asked, executed, ..
    } = turn;
    let Reached { requests, repeated } = reached;
    if requests != *executed {
        let what = format!(
            "{asked} requests were answered, {executed} of them by executing, but {requests} \
             reached the upstream"
        );
        return Err(what.into());
    }
    if replays && repeated > 0 {
        return Err(format!("{repeated} requests reached the upstream a second time").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Load, Reached, Turn, check};

    fn checked(requests: u64, repeated: u64, replays: bool) -> bool {
        let turn = Turn {
            load: Load::empty(),
            asked: 20,
            executed: 10,
        };
        check(&turn, Reached { requests, repeated }, replays).is_ok()
    }

    #[test]
    fn upstream_must_be_reached_once_per_execution() {
        assert!(checked(10, 0, true));
        assert!(!checked(11, 0, true));
        assert!(!checked(9, 0, true));
    }

    #[test]
    fn only_a_plain_proxy_may_pass_a_key_on_twice() {
        assert!(!checked(10, 1, true));
        assert!(checked(10, 1, false));
    }
}
