//! Caps: how many connections there may be, in all and from one peer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Settings;

/// The places for connections.
#[derive(Clone, Debug)]
pub(super) struct Caps {
    shared: Arc<Shared>,
}

/// The place of one connection, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    shared: Arc<Shared>,
    peer: IpAddr,
}

/// Which cap a connection would have exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Full {
    Total,
    Peer,
}

#[derive(Debug)]
struct Shared {
    total_max: usize,
    per_peer_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default, Debug)]
struct Taken {
    total: usize,
    by_peer: HashMap<IpAddr, usize>,
}

// === impl Caps ===

impl Caps {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                total_max: settings.connections_max,
                per_peer_max: settings.connections_per_peer_max,
                taken: Mutex::default(),
            }),
        }
    }

    /// Takes a place for a connection from `addr`, or says which cap is reached.
    pub(super) fn admit(&self, addr: IpAddr) -> Result<Permit, Full> {
        let peer = peer(addr);
        let mut taken = self.shared.taken.lock();
        if taken.total >= self.shared.total_max {
            return Err(Full::Total);
        }
        let from_peer = taken.by_peer.get(&peer).copied().unwrap_or(0);
        if from_peer >= self.shared.per_peer_max {
            return Err(Full::Peer);
        }
        taken.by_peer.insert(peer, from_peer + 1);
        taken.total += 1;
        drop(taken);
        metrics::gauge!("onceward_connections").increment(1.0);
        Ok(Permit {
            shared: Arc::clone(&self.shared),
            peer,
        })
    }
}

/// Whom a canonical address belongs to: in IPv6 a single host has a /64 to itself.
fn peer(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => IpAddr::V4(addr),
        IpAddr::V6(addr) => {
            let prefix = addr.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
    }
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.shared.taken.lock();
        taken.total -= 1;
        if let Some(from_peer) = taken.by_peer.get_mut(&self.peer) {
            *from_peer -= 1;
            if *from_peer == 0 {
                taken.by_peer.remove(&self.peer);
            }
        }
        drop(taken);
        metrics::gauge!("onceward_connections").decrement(1.0);
    }
}

// === impl Full ===

impl Full {
    /// The word for it in metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Peer => "peer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(total: usize, per_peer: usize) -> Caps {
        Caps::new(&Settings {
            connections_max: total,
            connections_per_peer_max: per_peer,
            ..Settings::default()
        })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_place_given_back_can_be_taken_again() {
        let caps = caps(1, 1);
        let first = caps.admit(ip("10.0.0.1")).unwrap();
        assert_eq!(caps.admit(ip("10.0.0.2")).unwrap_err(), Full::Total);
        drop(first);
        assert!(caps.admit(ip("10.0.0.2")).is_ok());
        assert!(caps.shared.taken.lock().by_peer.is_empty());
    }

    #[test]
    fn one_peer_cannot_take_every_place() {
        let caps = caps(3, 2);
        let _held = [caps.admit(ip("10.0.0.1")), caps.admit(ip("10.0.0.1"))];
        assert_eq!(caps.admit(ip("10.0.0.1")).unwrap_err(), Full::Peer);
        assert!(caps.admit(ip("10.0.0.2")).is_ok());
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one_peer() {
        let caps = caps(9, 1);
        let _held = caps.admit(ip("2001:db8::1")).unwrap();
        assert_eq!(caps.admit(ip("2001:db8::ffff:1")).unwrap_err(), Full::Peer);
        assert!(caps.admit(ip("2001:db8:0:1::1")).is_ok());
    }
}
