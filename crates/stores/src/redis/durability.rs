//! Durability: what the settings of the servers make of an acknowledged write.

use std::collections::HashMap;

use onceward::Durability;
use onceward::bugs::{Bug, seeded};
use redis::Value;

use super::SERVER;
use super::ask::{Ask, Nature, Target};
use super::link::Hub;
use super::settings::Settings;
use super::trouble::{Trouble, What};
use crate::OpenError;
use crate::report::{DurabilityReport, Fact};

/// The settings of one server that decide.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    version: String,
    role: String,
    policy: String,
    has_aof: bool,
    /// `None` where the server does not tell.
    fsync: Option<String>,
    /// Syncing pauses while the file is rewritten.
    pauses: bool,
    pub(super) replicas: u64,
    /// Sentinels or a cluster may promote a replica.
    may_fail_over: bool,
    /// The settings say that no replica is ever promoted.
    never_promotes: bool,
}

/// The oldest major version that the scripts are written for.
const OLDEST: i32 = 7;

/// The settings that are asked for.
const CONFIG: [&str; 4] = [
    "maxmemory-policy",
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
];

// === impl Found ===

impl Found {
    /// Asks a server.
    pub(super) async fn look(hub: &Hub, server: usize) -> Result<Self, Trouble> {
        let mut info = redis::cmd("INFO");
        let sections = ["server", "memory", "persistence", "replication"];
        info.arg(&sections);
        let ask = Ask::new(Target::Node(server), info, Nature::Read);
        let info = text(&hub.run(ask).await?.value);
        let mut question = redis::cmd("CONFIG");
        question.arg("GET").arg(&CONFIG);
        let ask = Ask::new(Target::Node(server), question, Nature::Read);
        let config = match hub.run(ask).await {
            Ok(answer) => Some(pairs(&answer.value)),
            // A server in somebody else's hands may not tell. Then what it does tell has to do. One
            // that did not answer has not refused.
            Err(trouble) if *trouble.what() == What::Refused => None,
            Err(trouble) => return Err(trouble),
        };
        Ok(Self::read(&info, config.as_ref(), hub.settings()))
    }

    fn read(info: &str, config: Option<&HashMap<String, String>>, settings: &Settings) -> Self {
        let facts: HashMap<_, _> = info.lines().filter_map(|it| it.split_once(':')).collect();
        let fact = |name: &str| facts.get(name).copied().unwrap_or("").trim().to_owned();
        let set = |name: &str| config.and_then(|it| it.get(name)).cloned();
        Self {
            version: fact("redis_version"),
            role: fact("role"),
            policy: set("maxmemory-policy").unwrap_or_else(|| fact("maxmemory_policy")),
            has_aof: fact("aof_enabled") == "1",
            fsync: set("appendfsync"),
            pauses: set("no-appendfsync-on-rewrite").is_some_and(|it| it == "yes"),
            replicas: fact("connected_slaves").parse().unwrap_or(0),
            may_fail_over: settings.may_fail_over(),
            never_promotes: !settings.promotes,
        }
    }

    /// Refuses a server that no store can be on.
    pub(super) fn check(&self, settings: &Settings) -> Result<(), OpenError> {
        let place = settings.place();
        let major: Option<i32> = self
            .version
            .split('.')
            .next()
            .and_then(|it| it.parse().ok());
        if let Some(major) = major
            && major < OLDEST
        {
            return Err(OpenError::TooOld {
                server: SERVER,
                place,
                found: self.version.clone(),
                oldest: OLDEST,
            });
        }
        match self.evicts() {
            Some(policy) if !seeded(Bug::EvictionAccepted) => Err(OpenError::Evicts {
                place,
                policy: policy.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The policy by which the server throws keys away, if it does. One without a limit of memory
    /// may be given one at any time.
    pub(super) fn evicts(&self) -> Option<&str> {
        let is_safe = self.policy.is_empty() || self.policy == "noeviction";
        (!is_safe).then_some(self.policy.as_str())
    }

    fn syncs_always(&self) -> bool {
        self.fsync.as_deref() == Some("always") && !self.pauses
    }

    /// Whether a failover could bring up a server that lacks acknowledged writes. Waiting for
    /// replicas makes that less likely, and not impossible.
    fn may_fall_back(&self) -> bool {
        self.may_fail_over || (self.replicas > 0 && !self.never_promotes)
    }

    /// What an acknowledged write survives.
    pub(super) fn class(&self) -> Durability {
        let is_replica = self.role != "master" && !self.role.is_empty();
        if is_replica || self.may_fall_back() || self.evicts().is_some() {
            return Durability::D0;
        }
        match (self.has_aof, self.syncs_always()) {
            // A snapshot now and then is not what an acknowledgement means.
            (false, _) => Durability::D0,
            (true, false) => Durability::D1,
            (true, true) => Durability::D2,
        }
    }

    /// The class, and why.
    pub(super) fn report(&self) -> DurabilityReport {
        let fact = |name, value: &str, is_good, good, bad| Fact {
            name,
            value: value.to_owned(),
            verdict: if is_good { good } else { bad },
            is_good,
        };
        let switch = |on| if on { "yes" } else { "no" };
        let facts = vec![
            fact("redis_version", &self.version, true, "new enough", ""),
            fact(
                "role",
                &self.role,
                self.role == "master",
                "it takes writes",
                "a replica: it takes no writes, and what is read there is old",
            ),
            fact(
                "maxmemory-policy",
                &self.policy,
                self.evicts().is_none(),
                "nothing is thrown away",
                "records are thrown away when the memory is full: set noeviction",
            ),
            fact(
                "appendonly",
                switch(self.has_aof),
                self.has_aof,
                "writes go to a file",
                "what was written since the last snapshot is lost in a restart: set yes",
            ),
            fact(
                "appendfsync",
                self.fsync.as_deref().unwrap_or("not told"),
                self.fsync.as_deref() == Some("always"),
                "a write waits for the disk",
                match self.fsync {
                    Some(_) => "the last writes are lost with the machine: set always",
                    None => "CONFIG GET is not allowed: the weaker class is assumed",
                },
            ),
            fact(
                "no-appendfsync-on-rewrite",
                switch(self.pauses),
                !self.pauses,
                "it waits for the disk at all times",
                "a write does not wait for the disk while the file is rewritten: set no",
            ),
            fact(
                "replicas",
                &self.replicas.to_string(),
                !self.may_fall_back(),
                "none of them can take over with less than was acknowledged",
                "one that takes over may lack the last writes; say failover=never if none ever does",
            ),
        ];
        DurabilityReport {
            class: self.class(),
            facts,
        }
    }
}

/// Asks every server that holds keys.
pub(super) async fn look(hub: &Hub) -> Result<Vec<Found>, Trouble> {
    let mut found = Vec::new();
    for server in hub.masters() {
        found.push(Found::look(hub, server).await?);
    }
    Ok(found)
}

/// The report of the weakest: a store is as durable as that.
pub(super) fn weakest(found: &[Found]) -> Option<&Found> {
    found.iter().min_by_key(|it| it.class())
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

fn pairs(value: &Value) -> HashMap<String, String> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(k, v)| (text(k), text(v))).collect(),
        Value::Array(flat) => {
            let pairs = flat.chunks_exact(2);
            pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
        }
        _ => HashMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Found {
        Found {
            version: "7.0.15".to_owned(),
            role: "master".to_owned(),
            policy: "noeviction".to_owned(),
            has_aof: true,
            fsync: Some("always".to_owned()),
            ..Found::default()
        }
    }

    #[test]
    fn a_server_alone_that_always_syncs_survives_power_loss() {
        assert_eq!(sound().class(), Durability::D2);
        assert!(sound().report().facts.iter().all(|fact| fact.is_good));
    }

    #[test]
    fn a_server_that_syncs_now_and_then_survives_kill_alone() {
        let told = |fsync: Option<&str>| Found {
            fsync: fsync.map(str::to_owned),
            ..sound()
        };
        let pauses = Found {
            pauses: true,
            ..sound()
        };
        for weak in [told(Some("everysec")), told(Some("no")), told(None), pauses] {
            assert_eq!(weak.class(), Durability::D1);
            assert!(weak.report().facts.iter().any(|fact| !fact.is_good));
        }
    }

    #[test]
    fn snapshots_alone_keep_nothing() {
        let snapshots = Found {
            has_aof: false,
            ..sound()
        };
        assert_eq!(snapshots.class(), Durability::D0);
    }

    #[test]
    fn whatever_may_be_promoted_makes_it_nothing() {
        let replica = Found {
            replicas: 1,
            ..sound()
        };
        assert_eq!(replica.class(), Durability::D0);
        let sentinels = Found {
            may_fail_over: true,
            ..sound()
        };
        assert_eq!(sentinels.class(), Durability::D0);
        let never = Found {
            never_promotes: true,
            ..replica
        };
        assert_eq!(never.class(), Durability::D2);
    }

    #[test]
    fn a_server_that_evicts_or_is_too_old_is_refused() {
        let settings: Settings = "redis://h".parse().unwrap();
        assert!(sound().check(&settings).is_ok());
        for policy in ["allkeys-lru", "volatile-ttl"] {
            let evicting = Found {
                policy: policy.to_owned(),
                ..sound()
            };
            let refused = evicting.check(&settings).unwrap_err();
            assert!(matches!(refused, OpenError::Evicts { .. }), "{refused}");
            assert_eq!(evicting.class(), Durability::D0);
        }
        let old = Found {
            version: "6.2.1".to_owned(),
            ..sound()
        };
        let refused = old.check(&settings).unwrap_err();
        assert!(matches!(refused, OpenError::TooOld { .. }), "{refused}");
    }

    #[test]
    fn a_server_that_does_not_tell_its_settings_is_read_from_what_it_tells() {
        let settings: Settings = "redis://h".parse().unwrap();
        let info = "# Server\r\nredis_version:7.2.4\r\nmaxmemory_policy:allkeys-lru\r\n\
                    aof_enabled:1\r\nrole:master\r\nconnected_slaves:2\r\n";
        let found = Found::read(info, None, &settings);
        assert_eq!(found.version, "7.2.4");
        assert_eq!(found.evicts(), Some("allkeys-lru"));
        assert_eq!((found.has_aof, found.fsync.as_deref()), (true, None));
        assert_eq!(found.replicas, 2);
    }
}
