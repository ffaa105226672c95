//! Durability: what the server's settings make of an acknowledged write.

use onceward::Durability;
use tokio_postgres::Row;

use crate::report::{DurabilityReport, Fact};

/// What is asked of the server. Backups and subscribers are no standbys, where the role may tell
/// them apart; one that is away and has a slot is one.
pub(super) const QUESTION: &str = "
    SELECT current_setting('fsync'), current_setting('full_page_writes'),
           current_setting('synchronous_commit'),
           coalesce(current_setting('synchronous_standby_names', true), ''),
           pg_is_in_recovery(),
           (SELECT count(*) FROM pg_catalog.pg_stat_replication AS sender
            WHERE coalesce(sender.state, '') <> 'backup'
              AND NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots AS slot
                              WHERE slot.active_pid = sender.pid AND slot.slot_type = 'logical'))
           + (SELECT count(*) FROM pg_catalog.pg_replication_slots
              WHERE slot_type = 'physical' AND NOT active),
           current_setting('server_version')";

/// The settings that decide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) fsync: bool,
    pub(super) full_page_writes: bool,
    pub(super) synchronous_commit: String,
    pub(super) standby_names: String,
    pub(super) is_replica: bool,
    pub(super) standbys: i64,
    /// The settings say that no standby is ever promoted.
    pub(super) never_promotes: bool,
    pub(super) version: String,
}

// === impl Found ===

impl Found {
    /// Reads the answer to [`QUESTION`].
    pub(super) fn read(row: &Row, never_promotes: bool) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            fsync: row.try_get::<_, &str>(0)? == "on",
            full_page_writes: row.try_get::<_, &str>(1)? == "on",
            synchronous_commit: row.try_get(2)?,
            standby_names: row.try_get(3)?,
            is_replica: row.try_get(4)?,
            standbys: row.try_get(5)?,
            version: row.try_get(6)?,
            never_promotes,
        })
    }

    /// Whether a commit waits for another node.
    fn waits(&self) -> bool {
        let waits = ["on", "remote_apply", "remote_write"];
        !self.standby_names.is_empty() && waits.contains(&self.synchronous_commit.as_str())
    }

    /// Whether a failover could bring up a server that lacks acknowledged writes.
    fn may_fall_back(&self) -> bool {
        self.standbys > 0 && !self.waits() && !self.never_promotes
    }

    /// What an acknowledged write survives.
    pub(super) fn class(&self) -> Durability {
        if self.is_replica || self.may_fall_back() {
            return Durability::D0;
        }
        let is_on_disk = self.fsync && self.full_page_writes && self.synchronous_commit != "off";
        match (is_on_disk, self.waits()) {
            (false, _) => Durability::D1,
            (true, false) => Durability::D2,
            (true, true) => Durability::D3,
        }
    }

    /// The class, and why.
    pub(super) fn report(self) -> DurabilityReport {
        let switch = |on| if on { "on" } else { "off" }.to_owned();
        let fact = |name, value, is_good, good, bad| Fact {
            name,
            value,
            verdict: if is_good { good } else { bad },
            is_good,
        };
        let is_synchronous = self.synchronous_commit != "off";
        let facts = vec![
            fact(
                "server_version",
                self.version.clone(),
                true,
                "new enough",
                "",
            ),
            fact(
                "pg_is_in_recovery",
                switch(self.is_replica),
                !self.is_replica,
                "it takes writes",
                "a replica: it takes no writes, and what is read there is old",
            ),
            fact(
                "fsync",
                switch(self.fsync),
                self.fsync,
                "writes reach the disk",
                "a crash of the machine may damage everything",
            ),
            fact(
                "full_page_writes",
                switch(self.full_page_writes),
                self.full_page_writes,
                "torn pages are mended",
                "a crash of the machine may tear pages",
            ),
            fact(
                "synchronous_commit",
                self.synchronous_commit.clone(),
                is_synchronous,
                "a commit waits for the disk",
                "a commit does not wait for the disk: the last writes are lost in a crash",
            ),
            fact(
                "synchronous_standby_names",
                self.standby_names.clone(),
                self.waits() || self.standbys == 0 || self.never_promotes,
                match self.waits() {
                    true => "a commit waits for a standby",
                    false => "no commit waits for a standby, and none is promoted",
                },
                "a failover loses writes that no standby had yet",
            ),
            fact(
                "standbys",
                self.standbys.to_string(),
                !self.may_fall_back(),
                "none of them can take over with less than was acknowledged",
                "they are asynchronous; say failover=never if none is ever promoted",
            ),
        ];
        DurabilityReport {
            class: self.class(),
            facts,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn sound() -> Found {
        Found {
            fsync: true,
            full_page_writes: true,
            synchronous_commit: "on".to_owned(),
            standby_names: String::new(),
            is_replica: false,
            standbys: 0,
            never_promotes: false,
            version: "15.1".to_owned(),
        }
    }

    #[test]
    fn a_server_alone_that_syncs_survives_power_loss() {
        assert_eq!(sound().class(), Durability::D2);
        let local = Found {
            synchronous_commit: "local".to_owned(),
            ..sound()
        };
        assert_eq!(local.class(), Durability::D2);
    }

    #[test]
    fn a_server_that_does_not_sync_survives_kill_alone() {
        let weak = [
            Found {
                fsync: false,
                ..sound()
            },
            Found {
                full_page_writes: false,
                ..sound()
            },
            Found {
                synchronous_commit: "off".to_owned(),
                ..sound()
            },
        ];
        for found in weak {
            assert_eq!(found.class(), Durability::D1);
            assert!(found.report().facts.iter().any(|fact| !fact.is_good));
        }
    }

    #[test]
    fn a_synchronous_standby_survives_the_loss_of_a_node() {
        for commit in ["on", "remote_apply", "remote_write"] {
            let found = Found {
                standby_names: "ANY 1 (a, b)".to_owned(),
                standbys: 2,
                synchronous_commit: commit.to_owned(),
                ..sound()
            };
            assert_eq!(found.class(), Durability::D3);
        }
    }

    #[test]
    fn standbys_that_nobody_waits_for_make_it_nothing() {
        let asynchronous = Found {
            standbys: 1,
            ..sound()
        };
        assert_eq!(asynchronous.class(), Durability::D0);
        let local = Found {
            standby_names: "a".to_owned(),
            synchronous_commit: "local".to_owned(),
            ..asynchronous.clone()
        };
        assert_eq!(local.class(), Durability::D0);
        let never = Found {
            never_promotes: true,
            ..asynchronous
        };
        assert_eq!(never.class(), Durability::D2);
    }

    #[test]
    fn a_replica_is_nothing() {
        let replica = Found {
            is_replica: true,
            ..sound()
        };
        assert_eq!(replica.class(), Durability::D0);
    }
}
