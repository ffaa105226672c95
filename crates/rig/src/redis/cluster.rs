//! A cluster of six nodes: three masters with a replica each.

use std::net::{Ipv4Addr, SocketAddr};

use futures_util::future::join_all;

use super::{Options, RedisServer, redis_cli, until};

/// Three masters with a replica each, all gone when dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
}

/// What a node says of another, or of itself.
#[derive(Debug)]
struct Known {
    id: String,
    addr: SocketAddr,
    flags: String,
    /// The first and the last of each range of hash slots that it serves.
    slots: Vec<(u16, u16)>,
}

/// How long a node is silent until the others take it for dead, in milliseconds.
const NODE_TIMEOUT: &str = "800";

/// How many nodes there are, half of them replicas.
const NODES: usize = 6;

// === impl Cluster ===

impl Cluster {
    /// Starts the nodes, makes a cluster of them, and returns when all of them say that it is one.
    ///
    /// # Panics
    ///
    /// Panics if it does not come to that.
    pub async fn start(options: Options) -> Self {
        let mut options = options
            .setting("cluster-node-timeout", NODE_TIMEOUT)
            // A replica stands for election however long it was out of touch.
            .setting("cluster-replica-validity-factor", "0");
        options.is_node = true;
        let nodes = (0..NODES).map(|_| RedisServer::start(options.clone()));
        let nodes = join_all(nodes).await;
        let addrs: Vec<String> = nodes.iter().map(|node| node.addr().to_string()).collect();
        let mut words = vec!["--cluster", "create"];
        words.extend(addrs.iter().map(String::as_str));
        words.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        let made = redis_cli(&words).await;
        made.unwrap_or_else(|said| panic!("no cluster is made: {said}"));
        let cluster = Self { nodes };
        cluster.settled().await;
        cluster
    }

    /// The URL of the cluster.
    pub fn url(&self) -> String {
        let addrs = self.nodes.iter().map(|node| node.addr().to_string());
        let addrs = addrs.collect::<Vec<_>>().join(",");
        format!("redis+cluster://{addrs}")
    }

    /// Its nodes.
    pub fn nodes(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// The hash slot of a key.
    ///
    /// # Panics
    ///
    /// Panics if no node answers.
    pub async fn slot_of(&self, key: &str) -> u16 {
        let slot = self.witness().cli(&["CLUSTER", "KEYSLOT", key]).await;
        slot.parse().expect("it is a number")
    }

    /// The number of the node that serves a hash slot, as those that run agree.
    ///
    /// # Panics
    ///
    /// Panics if nobody serves it.
    pub async fn owner(&self, slot: u16) -> usize {
        let known = self.known(self.witness()).await;
        let owner = known.iter().find(|node| node.serves(slot));
        let addr = owner.expect("somebody serves it").addr;
        self.number_of(addr)
    }

    /// How many keys are in a hash slot.
    ///
    /// # Panics
    ///
    /// Panics if the node that serves it does not say.
    pub async fn keys_in(&self, slot: u16) -> u64 {
        let owner = &self.nodes[self.owner(slot).await];
        let asked = ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()];
        let count = owner.cli(&asked).await;
        count.parse().expect("it is a number")
    }

    /// Kills the node that serves a hash slot, and waits until its replica does. Returns the
    /// number of the one that was killed.
    ///
    /// # Panics
    ///
    /// Panics if nobody takes over.
    pub async fn fail_over(&mut self, slot: u16) -> usize {
        let owner = self.owner(slot).await;
        self.nodes[owner].kill9().await;
        let dead = self.nodes[owner].addr();
        until("a replica takes over", || async {
            let known = self.known(self.witness()).await;
            let taken = known.iter().find(|node| node.serves(slot));
            taken.filter(|node| node.addr != dead).map(drop)
        })
        .await;
        self.settled().await;
        owner
    }

    /// Moves a hash slot with all of its keys to another master, as it is done under load: key by
    /// key, with both nodes sending callers back and forth meanwhile.
    ///
    /// # Panics
    ///
    /// Panics if a node does not do its part.
    pub async fn migrate(&self, slot: u16, to: usize) {
        let from = self.owner(slot).await;
        assert_ne!(from, to, "it is there already");
        let known = self.known(self.witness()).await;
        let id_of = |number: usize| {
            let addr = self.nodes[number].addr();
            let found = known.iter().find(|node| node.addr == addr);
            found.expect("everybody is known").id.clone()
        };
        let (source, target) = (id_of(from), id_of(to));
        let (from, to) = (&self.nodes[from], &self.nodes[to]);
        set_slot(to, slot, "IMPORTING", &source).await;
        set_slot(from, slot, "MIGRATING", &target).await;
        let port = to.addr().port().to_string();
        loop {
            let asked = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"];
            let keys = from.cli(&asked).await;
            let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                break;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys);
            from.cli(&words).await;
        }
        for node in [to, from] {
            set_slot(node, slot, "NODE", &target).await;
        }
    }

    /// Waits until every node that runs says that all hash slots are served.
    async fn settled(&self) {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            until("every hash slot is served", || async {
                let told = node.try_cli(&["CLUSTER", "INFO"]).await.unwrap_or_default();
                let is_whole = told.contains("cluster_state:ok");
                let all_assigned = told.contains("cluster_slots_ok:16384");
                (is_whole && all_assigned).then_some(())
            })
            .await;
        }
    }

    /// Waits until every replica has all that its master has by now.
    ///
    /// # Panics
    ///
    /// Panics if it does not come to that.
    pub async fn is_whole(&self) {
        self.settled().await;
        for node in &self.nodes {
            if node.info("role").await == "master" {
                continue;
            }
            node.until("master_link_status", "up").await;
            let port = node.info("master_port").await.parse().expect("a number");
            let master = self.number_of((Ipv4Addr::LOCALHOST, port).into());
            node.caught_up_with(&self.nodes[master]).await;
        }
    }

    /// A node that runs.
    fn witness(&self) -> &RedisServer {
        let mut running = self.nodes.iter().filter(|node| node.is_running());
        running.next().expect("a node runs")
    }

    fn number_of(&self, addr: SocketAddr) -> usize {
        let found = self.nodes.iter().position(|node| node.addr() == addr);
        found.expect("it is one of the nodes")
    }

    /// What a node knows of all of them.
    async fn known(&self, node: &RedisServer) -> Vec<Known> {
        let told = node.cli(&["CLUSTER", "NODES"]).await;
        told.lines().filter_map(Known::parse).collect()
    }
}

// === impl Known ===

impl Known {
    /// Reads a line of `CLUSTER NODES`.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let id = fields.next()?.to_owned();
        let addr = fields.next()?.split('@').next()?.parse().ok()?;
        let flags = fields.next()?.to_owned();
        // Its master, two times, its epoch and its link come before its slots.
        let slots = fields.skip(5).filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        let slots = slots.collect();
        Some(Self {
            id,
            addr,
            flags,
            slots,
        })
    }

    fn serves(&self, slot: u16) -> bool {
        let is_within = |(first, last): &(u16, u16)| (*first..=*last).contains(&slot);
        self.flags.contains("master") && self.slots.iter().any(is_within)
    }
}

/// Tells a node what becomes of a hash slot.
async fn set_slot(node: &RedisServer, slot: u16, becomes: &str, of: &str) {
    let words = ["CLUSTER", "SETSLOT", &slot.to_string(), becomes, of];
    node.cli(&words).await;
}
