//! Building: what requests pass through, from what a configuration says.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use onceward::Engine;
use onceward::clock::{Clock, SystemClock};
use onceward_http::problem::Naming;
use onceward_http::quota::Quotas;
use onceward_http::{Guard, Terms};
use tokio::sync::Semaphore;

use crate::StartError;
use crate::access::Tally;
use crate::config::quotas::is_unverified;
use crate::config::{Config, HostRule, KeyHeader};
use crate::forward::Forwarding;
use crate::identity::Identity;
use crate::probe::Prober;
use crate::route::{Pattern, Probe, Routes};
use crate::server::{Peer, Settings};
use crate::stack::{Guarded, Ruled, Stack};
use crate::upstream::{self, Target, TlsSettings, Upstream};

/// Returns the way to the service behind a gateway. Connects to nothing yet.
pub fn upstream_of(config: &Config) -> Result<Upstream, StartError> {
    upstream_by(config, Arc::new(SystemClock))
}

/// Returns the way to the service behind a gateway, by another clock than the machine's.
pub(crate) fn upstream_by(config: &Config, clock: Arc<dyn Clock>) -> Result<Upstream, StartError> {
    upstream_at(config, &config.upstream.url, clock)
}

fn upstream_at(config: &Config, url: &str, clock: Arc<dyn Clock>) -> Result<Upstream, StartError> {
    let target = Target::parse(url).map_err(|error| StartError::new(&error, error.hint()))?;
    let settings = upstream::Settings {
        connect_timeout: config.upstream.connect_timeout,
        tls: TlsSettings {
            ca_file: config.upstream.ca_file.clone(),
        },
        ..upstream::Settings::default()
    };
    Upstream::new(target, settings, clock).map_err(|error| StartError::new(&error, error.hint()))
}

/// Returns what requests pass through.
pub(crate) fn stack(
    config: &Config,
    engine: &Engine,
    upstream: Upstream,
    identity: Identity,
    quotas: &Arc<Quotas>,
    clock: Arc<dyn Clock>,
) -> Result<Stack, StartError> {
    let build = Build {
        config,
        engine,
        clock: &clock,
        upstream: &upstream,
        probed: RefCell::default(),
        executions: Arc::new(Semaphore::new(config.limits.executions)),
        quotas,
    };
    let mut routes = Vec::with_capacity(config.routes.len());
    for route in &config.routes {
        let guard = build.guard(
            &route.terms,
            &route.name,
            route.probe.as_ref(),
            Some(&route.pattern),
        )?;
        routes.push(Guarded {
            pattern: route.pattern.clone(),
            ruled: Ruled {
                guard,
                tally: Tally::new(&route.name),
                names: route.terms.needs_path().then(|| route.pattern.clone()),
            },
        });
    }
    let rest = build.guard(&config.fallback, REST, config.fallback_probe.as_ref(), None)?;
    let probed = build.probed.into_inner();
    Ok(Stack {
        routes: Routes::new(routes),
        rest: Ruled {
            guard: rest,
            tally: Tally::new(REST),
            names: None,
        },
        identity,
        forwarding: Arc::new(forwarding(config, &upstream)?),
        upstream,
        probed: probed.into_values().collect(),
        clock,
        target_max: Settings::default().uri_max,
        access_log: config.log.access,
    })
}

/// Returns what callers may take, of which nothing is taken yet.
pub(crate) fn quotas(config: &Config, clock: Arc<dyn Clock>) -> Quotas {
    let quotas = Quotas::new(config.quotas).clock(clock);
    let quotas = match config.counts_every() {
        Some(span) => quotas.counted_every(span),
        None => quotas,
    };
    match is_unverified(&config.identity) {
        true => quotas.peers(|parts| {
            let peer: &Peer = parts.extensions.get()?;
            Some(peer.addr.ip())
        }),
        false => quotas,
    }
}

/// The name, in metrics, of the requests that no route matches.
const REST: &str = "default";

/// What guards are built from.
struct Build<'a> {
    config: &'a Config,
    engine: &'a Engine,
    clock: &'a Arc<dyn Clock>,
    upstream: &'a Upstream,
    /// The ways to other services that probes ask, by their origins.
    probed: RefCell<BTreeMap<String, Upstream>>,
    /// What all routes share.
    executions: Arc<Semaphore>,
    quotas: &'a Arc<Quotas>,
}

impl Build<'_> {
    fn guard(
        &self,
        terms: &Terms,
        name: &str,
        probe: Option<&Probe>,
        pattern: Option<&Pattern>,
    ) -> Result<Guard, StartError> {
        let mut terms = terms.clone().status_resource(true);
        terms.policy = terms.policy.route(name.to_owned());
        let probe = match probe {
            Some(probe) => Some(self.prober(&terms, probe, pattern)?),
            None => None,
        };
        let guard = Guard::new(self.engine, terms)
            .naming(naming(self.config))
            .executions(self.executions.clone())
            .quotas(self.quotas.clone());
        Ok(match probe {
            Some(prober) => guard.probe(Arc::new(prober)),
            None => guard,
        })
    }

    /// The way to another service that probes ask, the same for all who ask it.
    fn probed(&self, origin: &str) -> Result<Upstream, StartError> {
        if let Some(known) = self.probed.borrow().get(origin) {
            return Ok(known.clone());
        }
        let upstream = upstream_at(self.config, origin, self.clock.clone())?;
        let mut probed = self.probed.borrow_mut();
        probed.insert(origin.to_owned(), upstream.clone());
        Ok(upstream)
    }

    fn prober(
        &self,
        terms: &Terms,
        probe: &Probe,
        pattern: Option<&Pattern>,
    ) -> Result<Prober, StartError> {
        let (upstream, template) = match probe.origin() {
            // Relative to the service that the requests go to.
            None => (self.upstream.clone(), probe.url.clone()),
            Some((origin, path)) => (self.probed(origin)?, path.into()),
        };
        Ok(Prober {
            host: host_of(&upstream)?,
            upstream,
            template,
            pattern: pattern.cloned(),
            within: terms.within.unwrap_or(Duration::from_secs(60)),
            answer_max: terms.policy.body_max,
        })
    }
}

/// How callers are told of problems.
fn naming(config: &Config) -> Naming {
    let problems = &config.problems;
    let default = Naming::default();
    Naming {
        types: problems.type_base.as_str().into(),
        pages: match &problems.docs_base {
            Some(base) => base.as_str().into(),
            None => default.pages,
        },
    }
}

fn forwarding(config: &Config, upstream: &Upstream) -> Result<Forwarding, StartError> {
    Ok(Forwarding {
        upstream_host: host_of(upstream)?,
        host: match config.upstream.host {
            HostRule::Preserve => None,
            HostRule::Upstream => Some(host_of(upstream)?),
        },
        key_header: match &config.upstream.key_header {
            KeyHeader::Name(name) => Some(name.clone()),
            KeyHeader::Drop => None,
        },
        behind_proxy: config.plaintext_behind_proxy,
    })
}

fn host_of(upstream: &Upstream) -> Result<HeaderValue, StartError> {
    HeaderValue::from_str(upstream.target().authority())
        .map_err(|error| StartError::new(&error, "name the upstream as http://HOST:PORT"))
}

/// What callers are granted.
pub(crate) fn settings(config: &Config) -> Settings {
    let limits = &config.limits;
    Settings {
        first_byte: limits.first_byte_timeout,
        headers: limits.header_timeout,
        idle: limits.idle_timeout,
        body_grace: limits.body_grace,
        headers_max: limits.headers,
        head_bytes_max: limits.header_size,
        streams_max: limits.streams,
        connections_max: limits.connections,
        connections_per_peer_max: limits.connections_per_peer,
        naming: naming(config),
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use onceward::{MemoryStore, Policy};

    use super::*;
    use crate::config::Overrides;

    #[tokio::test]
    async fn those_who_ask_one_service_share_its_connections() {
        let text = r#"
upstream = "http://127.0.0.1:1"

[defaults]
effect = "probed"
probe = { url = "http://127.0.0.1:2/payments" }

[[route]]
match = "POST /refunds"
probe = { url = "http://127.0.0.1:2/refunds" }

[[route]]
match = "POST /orders"
probe = { url = "http://127.0.0.1:3/orders" }

[[route]]
match = "POST /transfers"
probe = { url = "/transfers" }
"#;
        let config = Config::parse(text, "test", Overrides::default()).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let engine = Engine::new(MemoryStore::new(), Policy::default());
        let upstream = upstream_by(&config, clock.clone()).unwrap();
        let identity = Identity::new(&config.identity, true, |_| None).unwrap();
        let quotas = Arc::new(quotas(&config, clock.clone()));
        let stack = stack(&config, &engine, upstream, identity, &quotas, clock).unwrap();
        assert_eq!(stack.probed.len(), 2);
    }
}
