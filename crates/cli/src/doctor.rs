//! `onceward doctor`: whether a gateway would do well here.

use std::fmt;

use onceward_gateway::config::Config;
use serde::Serialize;

use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::{runtime, serve};

mod cache;
mod checks;
#[cfg(feature = "postgres")]
mod database;
mod place;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod server;

/// Check configuration, store, clocks, durability, ports, upstream and file limits
///
/// Takes the options of `serve` and starts nothing. Each line says what was looked at and what was
/// found; what is wrong comes with what to do about it. Exits with 1 if anything is wrong.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    setup: serve::Setup,

    /// Print one object for machines
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  onceward doctor --upstream http://127.0.0.1:3000
  onceward doctor --config onceward.toml --json";

/// What was found about one thing.
#[derive(Serialize, Debug)]
struct Finding {
    what: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// How things stand.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    /// Works, and is worth a second look.
    Note,
    Bad,
}

#[derive(Serialize)]
struct Report<'a> {
    healthy: bool,
    findings: &'a [Finding],
}

// === impl Args ===

impl Args {
    /// Looks at everything, whatever is wrong with some of it.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let config = self.setup.config(console)?;
        let findings = runtime::block_on(async { Ok(examine(&config).await) })?;
        let healthy = findings.iter().all(|finding| finding.state != State::Bad);
        match self.json {
            true => console.json(&Report {
                healthy,
                findings: &findings,
            })?,
            false => {
                for finding in &findings {
                    console.data(finding)?;
                }
            }
        }
        Ok(match healthy {
            true => Exit::Done,
            false => Exit::No,
        })
    }
}

async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![checks::configuration(config)];
    findings.extend(checks::files(config));
    let store = place::examine(config).await;
    findings.extend(store.findings);
    findings.extend(cache::examine(config).await);
    findings.extend(checks::ports(config, store.is_in_use));
    findings.extend(checks::upstream(config).await);
    findings.push(checks::open_files(config));
    findings
}

// === impl Finding ===

impl Finding {
    fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Good,
            found: found.into(),
            hint: None,
        }
    }

    fn note(what: &'static str, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            state: State::Note,
            hint: Some(hint.into()),
            ..Self::good(what, found)
        }
    }

    fn bad(what: &'static str, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            state: State::Bad,
            ..Self::note(what, found, hint)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Good => "good",
            State::Note => "note",
            State::Bad => "BAD",
        };
        writeln!(f, "{state:<5} {:<14} {}", self.what, self.found)?;
        match &self.hint {
            Some(hint) => writeln!(f, "{:20} {hint}", ""),
            None => Ok(()),
        }
    }
}
