//! The start-up summary: what is protected, how well, and what is not.

use std::fmt::{self, Write as _};

use http::HeaderName;
use onceward::{Durability, Effect, Policy};
use onceward_http::quota::Limit;
use onceward_http::{KeyNeed, KeySource, OnBusy, Terms};

use crate::Gateway;
use crate::config::Config;
use crate::config::quotas::is_unverified;
use crate::identity;
use crate::units::{write_duration, write_size};

/// What an operator should know about a gateway that starts. Its `Display` has a line for each.
#[derive(Debug)]
pub struct Summary<'a> {
    config: &'a Config,
    durability: Durability,
    reasons: &'a [String],
}

// === impl Summary ===

impl Gateway {
    /// What an operator should know when it starts.
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            config: self.config(),
            durability: self.engine().store().durability(),
            reasons: self.reasons(),
        }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.config;
        writeln!(f, "  upstream   {}", config.upstream.url)?;
        writeln!(
            f,
            "  store      {}, {}",
            config.store,
            survives(self.durability)
        )?;
        if let Some(cache) = &config.cache {
            writeln!(f, "             answers cached in {cache}")?;
        }
        for reason in self.reasons {
            writeln!(f, "             {reason}")?;
        }
        writeln!(f, "  callers    {}", callers(config))?;
        if let Some(quotas) = quotas(config) {
            writeln!(f, "  quotas     {quotas}")?;
        }
        for route in &config.routes {
            let operation = match &route.terms.operation {
                Some(name) => format!(" as {name:?}"),
                None => String::new(),
            };
            writeln!(
                f,
                "  route      {}{operation}: {}",
                route.pattern,
                terms(&route.terms)
            )?;
        }
        let rest = if config.routes.is_empty() {
            "all requests"
        } else {
            "all others"
        };
        writeln!(f, "  route      {rest}: {}", terms(&config.fallback))?;
        for line in unprotected(config) {
            writeln!(f, "  unprotected: {line}")?;
        }
        Ok(())
    }
}

fn survives(durability: Durability) -> &'static str {
    match durability {
        Durability::D3 => "D3: an acknowledged write survives the loss of a node",
        Durability::D2 => "D2: an acknowledged write survives kill and power loss",
        Durability::D1 => "D1: an acknowledged write survives kill -9, not power loss",
        Durability::D0 => "D0: an acknowledged write survives nothing",
    }
}

fn callers(config: &Config) -> String {
    match &config.identity {
        identity::Settings::Credential => {
            let without = match config.listen.ip().is_loopback() {
                true => "callers with neither are one shared caller (loopback only)",
                false => "a key without either is refused",
            };
            format!("told apart by Authorization, else X-Api-Key, unverified; {without}")
        }
        identity::Settings::Jwt(jwt) => format!("claim {:?} of a verified bearer token", jwt.claim),
        identity::Settings::Header(header) => {
            format!(
                "header {}, believed from {} networks",
                header.name,
                header.peers.len()
            )
        }
        identity::Settings::ApiKey(keys) => format!("verified key in {}", keys.header),
        identity::Settings::None => {
            "one shared caller: every caller can replay every answer".into()
        }
    }
}

fn quotas(config: &Config) -> Option<String> {
    let set = config.quotas.iter().map(|(limit, number)| match limit {
        Limit::Stored => format!("{} {}", limit.name(), write_size(number)),
        limit => format!("{} {number}", limit.name()),
    });
    let set: Vec<_> = set.collect();
    let whose = match is_unverified(&config.identity) {
        true => "per address, for nobody verified the callers",
        false => "per caller",
    };
    (!set.is_empty()).then(|| format!("{} ({whose}, in this process)", set.join(", ")))
}

fn terms(terms: &Terms) -> String {
    let mut key = match terms.key {
        KeyNeed::Required => "key required".to_owned(),
        KeyNeed::Optional => "key optional".to_owned(),
        KeyNeed::Derived => format!("key derived from {}", made_of(&terms.key_from)),
        _ => return "keys off, passed through".into(),
    };
    if let Some(field) = &terms.key_equals {
        key.push_str(&format!(" and equal to {field}"));
    }
    let effect = match terms.policy.effect {
        Effect::Repeatable => "duplicates allowed (outside the promise)",
        Effect::Transactional => "transactional",
        Effect::Keyed => "keyed, exactly once",
        Effect::Probed => "probed, exactly once",
        Effect::Opaque => "opaque, at most once",
    };
    let busy = match terms.on_busy {
        OnBusy::Wait(limit) => format!("duplicates wait {}", write_duration(limit)),
        OnBusy::Refuse => "duplicates refused".into(),
        _ => "duplicates get 202".into(),
    };
    let kept = kept(&terms.policy);
    format!("{key}, {effect}, kept {kept}, {busy}{}", rules(terms))
}

fn kept(policy: &Policy) -> String {
    let kept = write_duration(policy.retention);
    match policy.keep_body {
        Some(body) => format!("{kept} (bodies {})", write_duration(body)),
        None => kept,
    }
}

/// What names the work besides its key.
fn rules(terms: &Terms) -> String {
    let unique = terms.unique.iter();
    let mut told: String = unique
        .map(|rule| format!(", once per {}", rule.on))
        .collect();
    if let Some(rule) = &terms.suspect {
        let within = write_duration(rule.within);
        let _ = write!(told, ", suspects the same {} within {within}", rule.same);
    }
    told
}

/// What keys are made of.
fn made_of(source: &KeySource) -> String {
    match source {
        KeySource::Fields(fields) => fields.to_string(),
        KeySource::BodyHash => "the body".into(),
        KeySource::Headers(names) => {
            let names: Vec<_> = names.iter().map(HeaderName::as_str).collect();
            format!("the header {}", names.join(" or "))
        }
        _ => "the request".into(),
    }
}

fn unprotected(config: &Config) -> Vec<String> {
    let all = || {
        config
            .routes
            .iter()
            .map(|route| &route.terms)
            .chain([&config.fallback])
    };
    let mut lines = vec!["GET, HEAD, OPTIONS and TRACE pass through".to_owned()];
    if all().any(|terms| terms.key == KeyNeed::Optional) {
        lines.push("requests without a key, where the key is optional".into());
    }
    if all().any(|terms| terms.key == KeyNeed::Off) {
        lines.push("routes whose keys are off".into());
    }
    for route in config
        .routes
        .iter()
        .filter(|route| route.duplicates_allowed)
    {
        lines.push(format!(
            "{} may be executed twice: duplicates = \"allowed\"",
            route.pattern
        ));
    }
    lines
}
