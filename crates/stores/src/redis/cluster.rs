//! The cluster: which server holds which keys, as far as is known.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};

use super::SERVER;
use super::connect::{Connector, Session};
use super::link::Hub;
use super::node::Node;
use super::settings::Host;
use super::trouble::{refusal, words};
use crate::OpenError;

/// Which server holds which keys.
#[derive(Debug)]
pub(super) struct Map {
    /// Every server that was ever seen. Their numbers do not change.
    pub(super) nodes: Vec<Arc<Node>>,
    /// The number of the server for each hash slot; empty where one server holds all.
    owners: Vec<Option<u32>>,
}

/// Some hash slots and the server that holds them.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    first: u16,
    last: u16,
    host: Host,
}

/// How many hash slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// How long the map is believed without a reason to doubt it.
const BELIEVED: Duration = Duration::from_secs(30);

/// How long lies between two looks at the least.
const PACE: Duration = Duration::from_millis(100);

// === impl Map ===

impl Map {
    /// One server holds everything.
    pub(super) fn of_one(node: Arc<Node>) -> Self {
        Self {
            nodes: vec![node],
            owners: Vec::new(),
        }
    }

    /// The server that holds the keys of a hash slot. Where that is not known any one will do: it
    /// says where the keys are.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let known = self.owners.get(usize::from(slot)).copied().flatten();
        let node = match known {
            Some(id) => self.nodes.get(id as usize),
            None => self.nodes.iter().find(|node| !node.is_retired()),
        };
        node.cloned()
    }

    pub(super) fn set_owner(&mut self, slot: u16, id: usize) {
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = u32::try_from(id).ok();
        }
    }

    /// The node at `host`, and whether it has to be started.
    pub(super) fn node_at(&mut self, host: &Host) -> (Arc<Node>, bool) {
        let known = self.nodes.iter().find(|node| *node.host.lock() == *host);
        match known {
            Some(node) => (Arc::clone(node), node.revive()),
            None => {
                let node = Arc::new(Node::new(self.nodes.len(), host.clone()));
                self.nodes.push(Arc::clone(&node));
                (node, true)
            }
        }
    }

    /// Takes over what a server says. Returns the nodes to start and those to retire.
    fn update(&mut self, ranges: &[Range]) -> (Vec<Arc<Node>>, Vec<Arc<Node>>) {
        let mut owners = vec![None; usize::from(SLOTS)];
        let mut to_start: Vec<Arc<Node>> = Vec::new();
        let mut serving = Vec::new();
        for range in ranges {
            let (node, is_idle) = self.node_at(&range.host);
            let slots = usize::from(range.first)..=usize::from(range.last.min(SLOTS - 1));
            owners[slots].fill(u32::try_from(node.id).ok());
            serving.push(node.id);
            if is_idle && !to_start.iter().any(|other| other.id == node.id) {
                to_start.push(node);
            }
        }
        self.owners = owners;
        let others = self.nodes.iter().filter(|node| !serving.contains(&node.id));
        let to_retire = others.filter(|node| !node.is_retired()).cloned().collect();
        (to_start, to_retire)
    }
}

/// Finds the servers of a cluster from any that answers, and connects to each of them.
pub(super) async fn discover(
    connector: &Connector,
) -> Result<(Map, Vec<(usize, Session)>), OpenError> {
    let ranges = look(connector, &connector.settings.hosts).await?;
    let mut map = Map {
        nodes: Vec::new(),
        owners: Vec::new(),
    };
    let (to_start, _) = map.update(&ranges);
    let mut sessions = Vec::with_capacity(to_start.len());
    for node in to_start {
        let host = node.host.lock().clone();
        sessions.push((node.id, connector.connect(&host).await?));
    }
    Ok((map, sessions))
}

/// Keeps the map as it should be, until the link is closed.
pub(super) async fn follow(hub: Arc<Hub>) {
    loop {
        // A reason to doubt, or none for long.
        let _ = tokio::time::timeout(BELIEVED, hub.is_stale.notified()).await;
        let mut hosts: Vec<_> = hub.map.read().nodes.iter().map(known_host).collect();
        fastrand::shuffle(&mut hosts);
        hosts.extend(hub.connector.settings.hosts.iter().cloned());
        match look(&hub.connector, &hosts).await {
            Ok(ranges) => apply(&hub, &ranges),
            Err(error) => tracing::debug!(why = error.line(), "the cluster was not looked at"),
        }
        tokio::time::sleep(PACE).await;
    }
}

fn known_host(node: &Arc<Node>) -> Host {
    node.host.lock().clone()
}

/// Takes over what a server says, and sends what waits for the wrong one to the right one.
fn apply(hub: &Arc<Hub>, ranges: &[Range]) {
    let (to_start, to_retire) = hub.map.write().update(ranges);
    for node in to_start {
        tracing::info!(server = %known_host(&node), "a server of the cluster holds keys");
        node.start(hub, None);
    }
    for node in to_retire {
        tracing::info!(server = %known_host(&node), "a server of the cluster holds no keys");
        node.retire();
        for ask in node.drain() {
            hub.route(ask);
        }
    }
}

/// Asks the first of `hosts` that answers which server holds which keys.
async fn look(connector: &Connector, hosts: &[Host]) -> Result<Vec<Range>, OpenError> {
    let place = connector.settings.place();
    let mut last = OpenError::Server {
        server: SERVER,
        place: place.clone(),
        why: "no host was given".to_owned(),
    };
    for host in hosts {
        match ask(connector, host).await {
            Ok(ranges) if ranges.is_empty() => {
                last = OpenError::Server {
                    server: SERVER,
                    place: place.clone(),
                    why: format!("{host} knows no server that holds keys"),
                }
            }
            Ok(ranges) => return Ok(ranges),
            Err(error) if words(&error).contains("cluster support disabled") => {
                return Err(OpenError::Server {
                    server: SERVER,
                    place,
                    why: "it is no cluster: write redis:// instead of redis+cluster://".to_owned(),
                });
            }
            Err(error) => last = refusal(&connector.settings, &error),
        }
    }
    Err(last)
}

async fn ask(connector: &Connector, host: &Host) -> Result<Vec<Range>, RedisError> {
    let mut connection = connector.visit(host).await?;
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let answer: Value = question.query_async(&mut connection).await?;
    Ok(read(answer, host))
}

/// Reads the answer to `CLUSTER SLOTS`: first, last, the server, its replicas.
fn read(answer: Value, from: &Host) -> Vec<Range> {
    let Value::Array(ranges) = answer else {
        return Vec::new();
    };
    ranges.iter().filter_map(|it| range(it, from)).collect()
}

fn range(value: &Value, from: &Host) -> Option<Range> {
    let Value::Array(parts) = value else {
        return None;
    };
    let [
        Value::Int(first),
        Value::Int(last),
        Value::Array(server),
        ..,
    ] = parts.as_slice()
    else {
        return None;
    };
    let [name, Value::Int(port), ..] = server.as_slice() else {
        return None;
    };
    // One that does not know its own name is where it was asked.
    let name = match name {
        Value::BulkString(name) if !name.is_empty() && name != b"?" => {
            String::from_utf8_lossy(name).into_owned()
        }
        _ => from.name.clone(),
    };
    Some(Range {
        first: u16::try_from(*first).ok()?,
        last: u16::try_from(*last).ok()?,
        host: Host {
            name,
            port: u16::try_from(*port).ok()?,
        },
    })
}

/// The hash slot of the keys with this tag: CRC-16/XMODEM of what is between the braces.
pub(crate) fn slot_of(tag: &[u8]) -> u16 {
    let crc = tag.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc >> 15 {
            1 => (crc << 1) ^ 0x1021,
            _ => crc << 1,
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(port: u16) -> Host {
        Host {
            name: "h".to_owned(),
            port,
        }
    }

    fn range(first: u16, last: u16, port: u16) -> Range {
        let host = host(port);
        Range { first, last, host }
    }

    #[test]
    fn hash_slots_are_those_of_the_servers() {
        // From the specification of the cluster, and from a server.
        assert_eq!(slot_of(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"bar"), 5061);
    }

    #[test]
    fn keys_are_found_where_the_cluster_says() {
        let mut map = Map {
            nodes: Vec::new(),
            owners: Vec::new(),
        };
        let (started, _) = map.update(&[range(0, 8191, 1), range(8192, 16383, 2)]);
        assert_eq!(started.len(), 2);
        assert_eq!(map.owner(8191).unwrap().id, 0);
        assert_eq!(map.owner(8192).unwrap().id, 1);

        let (started, retired) = map.update(&[range(0, 8191, 3), range(8192, 16383, 2)]);
        assert_eq!(started[0].id, 2);
        assert_eq!(retired[0].id, 0);
        assert_eq!(map.owner(0).unwrap().id, 2);
        map.set_owner(0, 1);
        assert_eq!(map.owner(0).unwrap().id, 1);
    }

    #[test]
    fn a_server_without_a_name_is_where_it_was_asked() {
        let server = Value::Array(vec![Value::BulkString(Vec::new()), Value::Int(7000)]);
        let one = Value::Array(vec![Value::Int(0), Value::Int(5), server]);
        let read = read(Value::Array(vec![one]), &host(1));
        assert_eq!(read, [range(0, 5, 7000)]);
    }
}
