//! Listening: the socket that connections come to.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use crate::net::{self, TcpListener};

/// How many connections may wait to be accepted: a burst of callers is not turned away.
const BACKLOG: i32 = 4096;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Somebody listens there already.
    #[error("cannot listen on {addr}: the port is in use")]
    InUse {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },

    /// This user may not.
    #[error("cannot listen on {addr}: not permitted")]
    NotPermitted {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },

    /// No interface of this machine has the address.
    #[error("cannot listen on {addr}: this machine does not have that address")]
    NotHere {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },

    /// The system refused for another reason.
    #[error("cannot listen on {addr}: {source}")]
    Refused {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Listens on `addr`; port 0 takes a free one.
///
/// The address can be bound again at once after an earlier run.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn bind(addr: SocketAddr) -> Result<TcpListener, BindError> {
    listen(addr).map_err(|source| BindError::new(addr, source))
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // Elsewhere it would let two programs share one port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    net::listen(socket.into())
}

// === impl BindError ===

impl BindError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "stop the other program, or choose another port",
            Self::NotPermitted { .. } => {
                "choose a port from 1024 on, or grant the right to bind low ports"
            }
            Self::NotHere { .. } => "listen on 0.0.0.0, on [::] or on an address it has",
            Self::Refused { .. } => "look at the limits on open files and on memory",
        }
    }

    fn new(addr: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { addr, source },
            io::ErrorKind::PermissionDenied => Self::NotPermitted { addr, source },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { addr, source },
            _ => Self::Refused { addr, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_said_to_be() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let taken = first.local_addr().unwrap();
        let error = bind(taken).unwrap_err();
        assert!(matches!(error, BindError::InUse { addr, .. } if addr == taken));
        assert!(error.hint().contains("choose another port"));
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_refused_with_a_hint() {
        let error = bind("192.0.2.1:0".parse().unwrap()).unwrap_err();
        assert!(matches!(error, BindError::NotHere { .. }), "{error:?}");
    }

    #[test]
    fn a_port_that_needs_a_right_is_told_from_one_in_use() {
        let addr = "127.0.0.1:80".parse().unwrap();
        let error = BindError::new(addr, io::ErrorKind::PermissionDenied.into());
        assert!(matches!(error, BindError::NotPermitted { .. }));
    }
}
