//! Series: the same requests to nginx and to the gateway in turn, and what reached the upstream.

use std::path::PathBuf;

use super::callers::Order;
use super::nginx::Nginx;
use super::peers::{Gateway, Store};
use super::site::{Plan, Side, Site};
use crate::Failed;
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

/// One round: both sides, one straight after the other.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ours: Side,
    pub(crate) nginx: Side,
}

/// Everything that a series needs but its gateway.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) site: Site,
    nginx: Nginx,
    pub(crate) program: PathBuf,
}

// === impl Lab ===

impl Lab {
    /// Starts upstream and nginx; `program` is the gateway's executable.
    pub(crate) async fn start(program: PathBuf) -> Result<Self, Failed> {
        let site = Site::start().await?;
        let nginx = Nginx::start(site.upstream()).await?;
        Ok(Self {
            site,
            nginx,
            program,
        })
    }

    /// Measures the callers without a proxy: what no proxy can exceed.
    pub(crate) async fn ceiling(&self, plan: Plan) -> Result<Load, Failed> {
        let order = self.site.order(self.site.upstream(), plan);
        Ok(self.site.turn(order, None).await?.1.load)
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
        let upstream = self.site.upstream();
        let mut gateway = Gateway::start(&self.program, upstream, series.store).await?;
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
        let ours = self.site.ours(gateway.address, kind, plan).await?;
        let theirs = Order {
            to: self.nginx.address,
            replays: false,
            ..ours.clone()
        };
        let mut pairs = Vec::new();
        for _ in 0..plan.rounds {
            let (_, nginx) = self
                .site
                .turn(theirs.clone(), Some(&self.nginx.process))
                .await?;
            let (_, ours) = self.site.turn(ours.clone(), Some(&gateway.process)).await?;
            pairs.push(Pair { ours, nginx });
        }
        Ok(pairs)
    }
}

// === impl Pair ===

impl Pair {
    pub(crate) fn ratio(&self) -> f64 {
        self.ours.load.rate / self.nginx.load.rate
    }
}
