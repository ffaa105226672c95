//! Home: what is known of the cluster, whichever connection it was learned on.

use super::durability::Found;
use super::session::About;

/// The cluster that a store was opened on. What one connection cannot tell, because its role may
/// not know or it ended in between, is as it was told before.
#[derive(Debug, Default)]
pub(super) struct Home {
    /// Which cluster it is.
    system: Option<String>,
    /// How often it has failed over.
    timeline: Option<String>,
    /// A server that may take over without the last writes was seen, if only for a while.
    saw_standby: bool,
}

/// Another server of the cluster has taken over.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Failover {
    pub(super) before: String,
    pub(super) now: String,
}

// === impl Home ===

impl Home {
    /// Takes note of the server at the other end of a connection. Returns whether it has taken
    /// over from the one before, or why it is none of this cluster.
    pub(super) fn meet(&mut self, about: &About) -> Result<Option<Failover>, String> {
        if let (Some(then), Some(now)) = (&self.system, &about.system)
            && then != now
        {
            return Err(format!(
                "another cluster answers: {now}, and the store was opened on {then}"
            ));
        }
        if self.system.is_none() {
            self.system.clone_from(&about.system);
        }
        let Some(now) = about.timeline.clone() else {
            return Ok(None);
        };
        let before = self.timeline.replace(now.clone());
        let Some(before) = before.filter(|before| *before != now) else {
            return Ok(None);
        };
        // The standby that was seen is this server now, or has to follow it to be one.
        self.saw_standby = false;
        Ok(Some(Failover { before, now }))
    }

    /// Adds what is known from before to what was found out about the server.
    ///
    /// A standby that was seen once counts for as long as the same server is the primary: one that
    /// has lost its link is the one that lacks the last writes when it is promoted.
    pub(super) fn found(&mut self, mut found: Found) -> Found {
        self.saw_standby |= found.standbys > 0;
        found.standbys = found.standbys.max(i64::from(self.saw_standby));
        found
    }
}

#[cfg(test)]
mod tests {
    use onceward::Durability;

    use super::super::durability::tests::sound;
    use super::*;

    fn about(system: Option<&str>, timeline: Option<&str>) -> About {
        About {
            system: system.map(str::to_owned),
            timeline: timeline.map(str::to_owned),
            ..About::unknown()
        }
    }

    fn opened() -> Home {
        let mut home = Home::default();
        let met = home.meet(&about(Some("one"), Some("00000001")));
        assert_eq!(met, Ok(None));
        home
    }

    /// A standby that no commit waits for, as the primary sees it.
    fn followed() -> Found {
        Found {
            standbys: 1,
            ..sound()
        }
    }

    #[test]
    fn what_a_connection_did_not_tell_is_not_forgotten() {
        let mut home = opened();
        assert_eq!(home.meet(&about(None, None)), Ok(None));
        let failover = Failover {
            before: "00000001".to_owned(),
            now: "00000002".to_owned(),
        };
        let met = home.meet(&about(Some("one"), Some("00000002")));
        assert_eq!(met, Ok(Some(failover)));
        home.meet(&about(Some("two"), None)).unwrap_err();
    }

    #[test]
    fn what_the_first_connection_did_not_tell_is_no_failover() {
        let mut home = Home::default();
        assert_eq!(home.meet(&about(None, None)), Ok(None));
        assert_eq!(home.meet(&about(Some("one"), Some("00000002"))), Ok(None));
        home.meet(&about(Some("two"), Some("00000002")))
            .unwrap_err();
    }

    #[test]
    fn a_standby_that_was_seen_counts_while_its_primary_lasts() {
        let mut home = opened();
        assert_eq!(home.found(followed()).class(), Durability::D0);
        assert_eq!(home.found(sound()).class(), Durability::D0);
        home.meet(&about(Some("one"), Some("00000001"))).unwrap();
        home.meet(&about(None, None)).unwrap();
        assert_eq!(home.found(sound()).class(), Durability::D0);
    }

    #[test]
    fn a_server_that_took_over_is_judged_by_itself() {
        let mut home = opened();
        home.found(followed());
        home.meet(&about(None, None)).unwrap();
        home.meet(&about(Some("one"), Some("00000002"))).unwrap();
        assert_eq!(home.found(sound()).class(), Durability::D2);
        assert_eq!(home.found(followed()).class(), Durability::D0);
    }
}
