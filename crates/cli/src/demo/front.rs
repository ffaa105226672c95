//! The gateway before the sample service, on a store that is gone when the demo ends.

use std::net::SocketAddr;

use onceward_gateway::config::{AdminListen, Config, Overrides};
use onceward_gateway::server::BindError;
use onceward_gateway::{Gateway, Given, server, telemetry};
use onceward_stores::StoreUrl;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::numbers::Numbers;
use super::service::Service;
use crate::exit::Failure;
use crate::{runtime, serve};

/// A gateway that runs before a service.
pub(super) struct Front {
    pub(super) addr: SocketAddr,
    pub(super) admin: Option<SocketAddr>,
    numbers: Box<dyn Fn() -> String + Send + Sync>,
    end: oneshot::Sender<()>,
    serving: JoinHandle<usize>,
    /// Removed with all records when it is dropped, which is after the gateway has ended.
    _records: TempDir,
}

/// How the demo differs from a gateway without a configuration: `/orders` knows keys itself, so
/// what became unknown there is simply sent again. `/payments` is left as every service is taken
/// to be.
const CONFIG: &str = r#"
[[route]]
match = "POST /orders"
effect = "keyed"
"#;

// === impl Front ===

impl Front {
    /// Starts a gateway before `service`. Callers are let in as soon as this returns.
    pub(super) async fn start(
        service: &Service,
        listen: SocketAddr,
        admin: AdminListen,
    ) -> Result<Self, Failure> {
        // Before the engine, whose counters belong to whoever takes the numbers first.
        let numbers = telemetry::numbers().map_err(|error| {
            let message = format!("numbers cannot be taken: {error}");
            Failure::new(message, "this is a mistake of ours")
        })?;
        let listener = server::bind(listen).map_err(|error| not_bound(&error))?;
        let addr = listener.local_addr().unwrap_or(listen);
        let records = tempfile::Builder::new()
            .prefix("onceward-demo-")
            .tempdir()
            .map_err(|error| {
                Failure::new(
                    format!("no temporary folder can be made: {error}"),
                    "set TMPDIR to a folder that can be written to",
                )
            })?;
        let overrides = Overrides {
            listen: Some(addr),
            upstream: Some(format!("http://{}", service.addr)),
            store: Some(StoreUrl::Embedded {
                path: records.path().join("records"),
                sync: true,
            }),
            admin: Some(admin),
            ..Overrides::default()
        };
        let config = Config::parse(CONFIG, "the demo", overrides).map_err(|errors| {
            let first = &errors.0[0];
            Failure::new(first.to_string(), first.hint.clone())
        })?;
        let given = Given {
            numbers: Some(numbers.clone()),
            threads: runtime::lanes(),
            ..Given::default()
        };
        let gateway = Gateway::start(config, given)
            .await
            .map_err(|error| serve::failure(&error))?;
        let (end, ended) = oneshot::channel();
        Ok(Self {
            addr,
            admin: gateway.admin_addr(),
            numbers: Box::new(move || numbers.render()),
            end,
            serving: tokio::spawn(gateway.serve(listener, async {
                // Dropping the other side ends it as well.
                let _ = ended.await;
            })),
            _records: records,
        })
    }

    /// What the gateway has counted so far.
    pub(super) fn numbers(&self) -> Numbers {
        Numbers::read(&(self.numbers)())
    }

    /// Ends the gateway in good order, removes its records and returns what it counted in all.
    pub(super) async fn end(self) -> Result<Numbers, Failure> {
        // Nobody listens only if the gateway has ended by itself, which the next line tells.
        let _ = self.end.send(());
        self.serving.await.map_err(|error| {
            Failure::new(
                format!("the gateway broke: {error}"),
                "this is a mistake of ours",
            )
        })?;
        Ok(Numbers::read(&(self.numbers)()))
    }
}

fn not_bound(error: &BindError) -> Failure {
    let hint = match error {
        BindError::InUse { .. } => {
            "stop the other program, or choose another port: onceward demo --listen 127.0.0.1:8181"
        }
        other => other.hint(),
    };
    Failure::new(error.to_string(), hint)
}
