//! `onceward serve`: the gateway.

use std::net::SocketAddr;
use std::path::PathBuf;

use onceward_gateway::config::{AdminListen, Config, Overrides};
use onceward_gateway::config::{admin_listen, cache_url, listen, store_url, upstream_url};
use onceward_gateway::{Gateway, Given, StartError, server, telemetry};
use onceward_stores::{CacheUrl, StoreUrl};
use tokio::signal::unix::{SignalKind, signal};

use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::{config, limits, runtime, secret};

/// Put a gateway in front of a service
///
/// Requests with an Idempotency-Key are executed at most once by the service behind, and every
/// retry gets the first answer back. Requests without a key pass through, unless a configuration
/// says otherwise. SIGTERM and SIGINT end it in good order: work under way is finished, or marked
/// unknown.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    setup: Setup,
}

/// What a gateway is set up with; shared with `doctor`.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Setup {
    /// The service behind: http://HOST:PORT or https://HOST
    #[arg(
        long,
        value_name = "URL",
        env = "ONCEWARD_UPSTREAM",
        hide_env_values = true
    )]
    #[arg(value_parser = upstream_url)]
    upstream: Option<String>,

    /// Where to listen for callers [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", env = "ONCEWARD_LISTEN", value_parser = listen)]
    listen: Option<SocketAddr>,

    /// Where to keep records [default: embedded:./onceward-data]
    #[arg(
        long,
        value_name = "URL",
        env = "ONCEWARD_STORE",
        hide_env_values = true
    )]
    #[arg(value_parser = store_url)]
    store: Option<StoreUrl>,

    /// What remembers answers in front of a database: redis://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        env = "ONCEWARD_CACHE",
        hide_env_values = true
    )]
    #[arg(value_parser = cache_url)]
    cache: Option<CacheUrl>,

    /// Where to listen for operators, or "off" [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR", env = "ONCEWARD_ADMIN", value_parser = admin_listen)]
    admin: Option<AdminListen>,

    /// A file that says more; see `onceward config example`
    ///
    /// What stands on the command line or in the environment counts before the file.
    #[arg(long, value_name = "FILE", env = "ONCEWARD_CONFIG")]
    config: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  onceward serve --upstream http://127.0.0.1:3000
  onceward serve --config onceward.toml
  onceward serve --upstream http://127.0.0.1:3000 --store memory: --admin off
  onceward serve --upstream http://127.0.0.1:3000 --store postgres://onceward@db.internal/app \\
      --cache redis://cache.internal:6379

Environment: ONCEWARD_UPSTREAM, ONCEWARD_LISTEN, ONCEWARD_STORE, ONCEWARD_CACHE, ONCEWARD_ADMIN and \
ONCEWARD_CONFIG stand for the options; ONCEWARD_SECRET or ONCEWARD_SECRET_FILE hold the deployment's secret, if the \
store is not to keep it; PGPASSWORD holds the password of a database, ONCEWARD_REDIS_PASSWORD that of Redis; ONCEWARD_LOG says what is logged (info, warn, onceward=debug).";

// === impl Args ===

impl Args {
    /// Serves until it is told to end.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let config = self.setup.config(console)?;
        limits::raise_open_files();
        telemetry::log(config.log.format);
        runtime::block_on(serve(config, console))?;
        Ok(Exit::Done)
    }
}

async fn serve(config: Config, console: &Console) -> Result<(), Failure> {
    // Before the engine, whose counters belong to whoever takes the numbers first.
    let numbers = telemetry::numbers().map_err(|error| {
        Failure::new(
            format!("numbers cannot be taken: {error}"),
            "this is a mistake of ours",
        )
    })?;
    let listener = server::bind(config.listen)
        .map_err(|error| Failure::new(error.to_string(), error.hint()))?;
    let given = Given {
        secret: secret::given()?,
        numbers: Some(numbers),
        threads: runtime::lanes(),
        ..Given::default()
    };
    let gateway = Gateway::start(config, given)
        .await
        .map_err(|error| failure(&error))?;
    let scheme = if gateway.config().tls.is_some() {
        "https"
    } else {
        "http"
    };
    let listens = listener.local_addr().unwrap_or(gateway.config().listen);
    console.say(format_args!("onceward {}", env!("CARGO_PKG_VERSION")));
    console.say(gateway.summary().to_string().trim_end());
    if let Some(admin) = gateway.admin_addr() {
        console.say(format_args!("admin on http://{admin}"));
    }
    // Before it is said, for whoever reads that may tell it to end.
    let told = told_to_end();
    console.say(format_args!("listening on {scheme}://{listens}"));
    match gateway.serve(listener, told).await {
        0 => console.say("ended in good order"),
        left => console.say(format_args!(
            "ended with {left} operations under way, whose outcome is now unknown: see onceward list"
        )),
    }
    Ok(())
}

pub(crate) fn failure(error: &StartError) -> Failure {
    Failure::new(error.to_string(), error.hint())
}

/// Ends when the process is told to. Told twice, it ends at once.
///
/// What it is told counts from this call on, not from the first poll: until somebody asks for a
/// signal, it kills the process with all that is under way.
pub(crate) fn told_to_end() -> impl Future<Output = ()> {
    let signals = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    );
    async move {
        let (Ok(mut term), Ok(mut int)) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            std::process::exit(130);
        });
    }
}

// === impl Setup ===

impl Setup {
    /// Returns the configuration that file, environment and command line make together.
    pub(crate) fn config(self, console: &Console) -> Result<Config, Failure> {
        let overrides = Overrides {
            listen: self.listen,
            upstream: self.upstream,
            store: self.store,
            cache: self.cache,
            admin: self.admin,
            admin_token: config::admin_token()?,
        };
        let config = config::settled(self.config.as_deref(), overrides, console)?;
        for warning in &config.warnings {
            console.warn(warning);
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn what_is_told_before_anybody_waits_for_it_is_heard() {
        let told = told_to_end();
        kill_process(getpid(), Signal::TERM).unwrap();
        told.await;
    }
}
