//! Starting: everything that a configuration asks for is opened, read and checked before the
//! first caller is let in.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use metrics_exporter_prometheus::PrometheusHandle;
use onceward::clock::{Clock, SystemClock};
use onceward::{Durability, Engine, Pace, Secret, Store, Sweeper};
use onceward_stores::Regressed;
use rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use crate::admin::Admin;
use crate::build::{quotas, settings, stack, upstream_by};
use crate::census::Census;
use crate::config::Config;
use crate::identity::Identity;
use crate::lanes::Lanes;
use crate::net::TcpListener;
use crate::open::{self, Opened};
use crate::server::{self, Settings};
use crate::stack::{Holder, Stack};
use crate::trouble::in_one_line;

/// A gateway that is ready to serve.
pub struct Gateway {
    config: Config,
    engine: Engine,
    /// What the class of the store follows from, where that was looked up.
    reasons: Vec<String>,
    /// How many acknowledged answers the store was found to lack, where somebody can tell.
    regressed: Option<Regressed>,
    stack: Arc<Stack>,
    /// Counts the records, if anybody wants to know.
    census: Option<Census>,
    tls: Option<Arc<ServerConfig>>,
    admin: Option<TcpListener>,
    numbers: Option<PrometheusHandle>,
    lanes: Lanes,
}

/// Why a gateway cannot start, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct StartError {
    what: String,
    hint: String,
}

/// What a gateway is given beside its configuration.
#[derive(Debug, Default)]
pub struct Given {
    /// The deployment's secret, if the store does not keep it.
    pub secret: Option<Secret>,
    /// A store that is open already, in the place of the configured one.
    pub store: Option<Arc<dyn Store>>,
    /// A clock in the place of the machine's. Timers run on tokio's own.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where the numbers of this process are read.
    pub numbers: Option<PrometheusHandle>,
    /// How many threads of its own it serves callers with. With none it serves them in the
    /// runtime that it runs in, which is slower under load.
    pub threads: usize,
}

/// Serves `config` on `listener` until `shutdown`, then finishes what is under way.
///
/// Connections, records and files are checked before the first caller is let in; what is wrong
/// with them is the error. For a start-up in steps, see [`Gateway`].
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let gateway = Gateway::start(config, Given::default()).await?;
    gateway.serve(listener, shutdown).await;
    Ok(())
}

// === impl Gateway ===

impl Gateway {
    /// Opens the store, reads the files and checks that all of it fits together.
    pub async fn start(config: Config, given: Given) -> Result<Self, StartError> {
        let tls = match &config.tls {
            Some(files) => Some(
                server::tls(&files.cert, &files.key)
                    .map_err(|error| StartError::new(&error, error.hint()))?,
            ),
            None => None,
        };
        let clock = given.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let upstream = upstream_by(&config, clock.clone())?;
        // Behind a proxy on this machine callers are not on this machine.
        let alone = config.is_loopback() && !config.plaintext_behind_proxy;
        let identity = Identity::new(&config.identity, alone, |name| std::env::var(name).ok())
            .map_err(|error| StartError::new(&error, error.hint()))?;
        let admin = match config.admin.listen {
            Some(at) => {
                Some(server::bind(at).map_err(|error| StartError::new(&error, error.hint()))?)
            }
            None => None,
        };
        let token = config.admin.token.read();
        token.map_err(|error| {
            StartError::new(
                &error,
                "name a file that holds 16 printable characters or more",
            )
        })?;
        let opened = match given.store {
            Some(store) => Opened::from(store),
            None => open::open(&config).await?,
        };
        let store = open::hold_to(&config, opened.store, &opened.reasons)?;
        let engine = engine(store, clock.clone(), given.secret).await?;
        let quotas = Arc::new(quotas(&config, clock.clone()));
        let census = config.counts_every().map(|every| Census {
            engine: engine.clone(),
            quotas: quotas.clone(),
            clock: clock.clone(),
            every,
            share: config.admin.census.share,
        });
        let stack = stack(&config, &engine, upstream, identity, &quotas, clock)?;
        let lanes = Lanes::start(given.threads).map_err(|error| {
            StartError::new(
                &error,
                "raise the limits on threads and open files of this user",
            )
        })?;
        Ok(Self {
            config,
            engine,
            reasons: opened.reasons,
            regressed: opened.regressed,
            stack: Arc::new(stack),
            census,
            tls,
            admin,
            numbers: given.numbers,
            lanes,
        })
    }

    /// The configuration it runs with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The engine that keeps its records.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What the class of the store follows from, where that was looked up: a line for each.
    pub(crate) fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// Where operators are listened for.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref()?.local_addr().ok()
    }

    /// Serves callers on `listener` until `shutdown`, then finishes what is under way.
    ///
    /// In the end no more callers are let in, those under way have the configured grace, and work
    /// that is still not done is marked unknown. Returns how much that was.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> usize {
        let operators = self.admin.take();
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let sweeper = self.engine.sweeper(Pace::default());
        let end = async {
            shutdown.await;
            let grace = self.config.shutdown_grace;
            tracing::info!("shutting down: callers under way have {grace:?}");
            closing.cancel();
        };
        let work = async {
            // The end comes first, for many a future listens for signals only once it is polled,
            // and callers are served by other threads as soon as one was accepted.
            tokio::join!(end, self.serve_callers(listener, closing.clone()));
            let left = self.drain(sweeper).await;
            closed.cancel();
            left
        };
        let all = async { tokio::join!(work, self.serve_admin(operators, &closing, &closed)) };
        let left = tokio::select! {
            biased;
            (left, ()) = all => left,
            never = self.do_chores() => match never {},
            never = self.take_census() => match never {},
        };
        // What is still there was marked unknown, or belongs to nobody.
        self.lanes.end(LANES_GRACE).await;
        left
    }

    async fn serve_callers(&self, listener: TcpListener, closing: CancellationToken) {
        let stack = Holder::new(self.stack.clone());
        let service = move |request| stack.hold().answer(request);
        let (tls, grace) = (self.tls.clone(), self.config.shutdown_grace);
        server::serve(
            listener,
            tls,
            settings(&self.config),
            service,
            closing,
            grace,
            &self.lanes,
        )
        .await;
    }

    /// Looks after what no request looks after.
    async fn do_chores(&self) -> Infallible {
        let mut class = self.engine.store().durability();
        loop {
            tokio::time::sleep(CHORES_EVERY).await;
            self.stack.reap();
            let now = self.engine.store().durability();
            if now != class {
                self.tell_class(class, now);
                class = now;
            }
            // Times that are measured pile up until somebody sums them up.
            if let Some(numbers) = &self.numbers {
                numbers.run_upkeep();
            }
        }
    }

    /// Counts what is in the store, if anybody wants to know.
    async fn take_census(&self) -> Infallible {
        match &self.census {
            Some(census) => census.run().await,
            None => std::future::pending().await,
        }
    }

    /// Tells that what an acknowledged write survives is not what it was.
    fn tell_class(&self, before: Durability, now: Durability) {
        gauge!("onceward_store_durability", "store" => self.engine.store().kind()).set(now as u8);
        match self.config.refuses(now) {
            Some(refusal) => tracing::error!(%before, %now, "no new claims are taken: {refusal}"),
            None if now < before => {
                tracing::warn!(%before, %now, "the store keeps less than it did: onceward doctor");
            }
            None => tracing::info!(%before, %now, "the store keeps more than it did"),
        }
    }

    /// Serves operators, until everything else has ended: they want to see it end.
    async fn serve_admin(
        &self,
        listener: Option<TcpListener>,
        closing: &CancellationToken,
        closed: &CancellationToken,
    ) {
        let Some(listener) = listener else {
            return;
        };
        let router = Admin {
            engine: self.engine.clone(),
            config: self.config.clone(),
            numbers: self.numbers.clone(),
            regressed: self.regressed.clone(),
            closing: closing.clone(),
        }
        .router();
        let settings = Settings {
            connections_max: ADMIN_CONNECTIONS,
            connections_per_peer_max: ADMIN_CONNECTIONS,
            ..Settings::default()
        };
        let service = move |request: http::Request<server::Received>| {
            let mut router = router.clone();
            async move {
                let request = request.map(axum::body::Body::new);
                match tower_service::Service::call(&mut router, request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            }
        };
        server::serve(
            listener,
            None,
            settings,
            service,
            closed.clone(),
            Duration::ZERO,
            &Lanes::default(),
        )
        .await;
    }

    /// Ends the engine: what cannot be finished is marked unknown.
    async fn drain(&self, sweeper: Sweeper) -> usize {
        drop(sweeper);
        // The callers have had their time; what goes on without them has a little more.
        let left = self.engine.shutdown(DRAIN_GRACE).await;
        if !left.is_empty() {
            tracing::warn!(
                count = left.len(),
                "work was not done in time and is marked unknown: onceward list --state unknown"
            );
        }
        left.len()
    }
}

/// Not the listener, which says nothing that the configuration does not.
impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("config", &self.config)
            .field("engine", &self.engine)
            .field("stack", &self.stack)
            .finish_non_exhaustive()
    }
}

/// How often things are looked after that no request looks after.
const CHORES_EVERY: Duration = Duration::from_secs(1);

/// How many connections operators may have.
const ADMIN_CONNECTIONS: usize = 64;

/// How long work whose caller has gone may go on when everything ends.
const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// How long what is left in a lane may take to be dropped.
const LANES_GRACE: Duration = Duration::from_secs(1);

async fn engine(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    secret: Option<Secret>,
) -> Result<Engine, StartError> {
    let engine = Engine::builder(store).clock(clock);
    let engine = match secret {
        Some(secret) => engine.secret(secret).build(),
        None => engine.build(),
    };
    engine.secret().await.map_err(|error| {
        StartError::new(
            &error,
            "look at the store; a secret from outside is given in ONCEWARD_SECRET or \
             ONCEWARD_SECRET_FILE",
        )
    })?;
    Ok(engine)
}

// === impl StartError ===

impl StartError {
    /// Returns an error that says what is wrong, with its causes, and what to do.
    pub(crate) fn new(error: &dyn std::error::Error, hint: impl Into<String>) -> Self {
        Self {
            what: in_one_line(error),
            hint: hint.into(),
        }
    }

    /// Returns an error that says this, and what to do.
    pub(crate) fn says(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}
