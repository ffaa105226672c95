//! Series: the same requests to nginx and to the gateway in turn, and what reached the upstream.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Failed;
use super::callers::{Order, Pace, Turn};
use super::mix::Mix;
use super::nginx::Nginx;
use super::peers::{Gateway, Reached, Store, Upstream};
use super::process::Process;
use super::spent::{self, Spent};
use crate::load::Load;

/// One kind of request on one kind of store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series {
    /// What machines call it.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) store: Store,
    pub(crate) kind: Kind,
    /// The ratio to reach with the most connections.
    pub(crate) goal: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    First,
    Replay,
    Half,
    Unkeyed,
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

/// One round: both sides, one straight after the other.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ours: Side,
    pub(crate) nginx: Side,
}

/// What one side did in a round.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) load: Load,
    pub(crate) spent: Spent,
}

/// Everything that a series needs but its gateway.
#[derive(Debug)]
pub(crate) struct Lab {
    upstream: Upstream,
    nginx: Nginx,
    program: PathBuf,
    numbers: Arc<AtomicU64>,
}

/// How many finished keys replays choose from: the same number for each connection.
const FINISHED: u64 = 10_240;

// === impl Lab ===

impl Lab {
    /// Starts upstream and nginx; `program` is the gateway's executable.
    pub(crate) async fn start(program: PathBuf) -> Result<Self, Failed> {
        let upstream = Upstream::start().await?;
        let nginx = Nginx::start(upstream.address).await?;
        Ok(Self {
            upstream,
            nginx,
            program,
            numbers: Arc::new(AtomicU64::new(0)),
        })
    }

    /// Measures the callers without a proxy: what no proxy can exceed.
    pub(crate) async fn ceiling(&self, plan: Plan) -> Result<Load, Failed> {
        let order = Order {
            to: self.upstream.address,
            replays: false,
            mix: Mix::First,
            ..self.order(plan)
        };
        Ok(self.turn(order, None).await?.1.load)
    }

    /// Measures nginx and a new gateway in turn.
    ///
    /// # Errors
    ///
    /// Returns an error if any answer was wrong, or if the upstream was reached more or less
    /// often than the answers tell.
    pub(crate) async fn measure(
        &mut self,
        series: Series,
        plan: Plan,
    ) -> Result<Vec<Pair>, Failed> {
        let mut gateway =
            Gateway::start(&self.program, self.upstream.address, series.store).await?;
        let measured = self.alternate(&gateway, series.kind, plan).await;
        // A dead process explains more than the answer that it left out.
        gateway.process.alive()?;
        self.nginx.process.alive()?;
        measured.map_err(|error| gateway.process.explain(&error))
    }

    async fn alternate(
        &self,
        gateway: &Gateway,
        kind: Kind,
        plan: Plan,
    ) -> Result<Vec<Pair>, Failed> {
        let ours = Order {
            to: gateway.address,
            replays: true,
            ..self.order(plan)
        };
        let mix = match kind {
            Kind::First => Mix::First,
            Kind::Half => Mix::Half,
            Kind::Unkeyed => Mix::Unkeyed,
            Kind::Replay => self.finish(&ours).await?,
        };
        let ours = Order { mix, ..ours };
        let theirs = Order {
            to: self.nginx.address,
            replays: false,
            ..ours.clone()
        };
        let mut pairs = Vec::new();
        for _ in 0..plan.rounds {
            let (_, nginx) = self.turn(theirs.clone(), Some(&self.nginx.process)).await?;
            let (_, ours) = self.turn(ours.clone(), Some(&gateway.process)).await?;
            pairs.push(Pair { ours, nginx });
        }
        Ok(pairs)
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
    async fn turn(&self, order: Order, proxy: Option<&Process>) -> Result<(u64, Side), Failed> {
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

    fn order(&self, plan: Plan) -> Order {
        Order {
            to: self.upstream.address,
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

// === impl Pair ===

impl Pair {
    pub(crate) fn ratio(&self) -> f64 {
        self.ours.load.rate / self.nginx.load.rate
    }
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
