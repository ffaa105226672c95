//! Connecting: from a name to a connection that a request may go on.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::error::Cause;
use super::io::Io;
use super::link::Link;
use super::pool::Origin;
use super::target::{Target, is_link_local};
use super::tls::Tls;
use crate::net::{Metered, TcpStream, expect_signs_of_life, lookup_host};

/// Makes connections to one target.
pub(super) struct Connector {
    target: Target,
    within: Duration,
    tls: Option<Tls>,
}

// === impl Connector ===

impl Connector {
    pub(super) fn new(target: Target, within: Duration, tls: Option<Tls>) -> Self {
        Self {
            target,
            within,
            tls,
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Makes a connection. Whatever goes wrong here, no request was sent.
    ///
    /// Cancel safe: dropping it closes what is open.
    pub(super) async fn connect(&self, origin: Origin) -> Result<Box<Link>, Cause> {
        match timeout(self.within, self.open(origin)).await {
            Ok(link) => link,
            Err(_) => Err(Cause::ConnectTimedOut(self.within)),
        }
    }

    async fn open(&self, origin: Origin) -> Result<Box<Link>, Cause> {
        let socket = self.dial().await?;
        let io = match &self.tls {
            None => Io::Plain(Metered::new(socket)),
            Some(tls) => {
                let socket = Metered::below_tls(socket);
                let connecting = tls.connector.connect(tls.host.clone(), socket);
                Io::Tls(Box::new(connecting.await.map_err(Cause::Tls)?))
            }
        };
        Ok(Link::new(io, origin))
    }

    /// Tries the addresses of the name in their order. Asked anew for each connection, so that a
    /// name that moves is followed, and the address does not change within a connection.
    async fn dial(&self) -> Result<TcpStream, Cause> {
        let host = self.target.host();
        let addresses: Vec<SocketAddr> = lookup_host((host, self.target.port()))
            .await
            .map_err(|source| Cause::Resolve {
                host: host.into(),
                source,
            })?
            .filter(|address| !is_link_local(address.ip()))
            .collect();
        // One address that swallows everything must not eat the time of those after it.
        let share = self.within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let mut refused = Cause::NoAddress { host: host.into() };
        for address in addresses {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(socket)) => match prepare(&socket) {
                    Ok(()) => return Ok(socket),
                    Err(source) => refused = Cause::Connect { address, source },
                },
                Ok(Err(source)) => refused = Cause::Connect { address, source },
                Err(_) => {
                    let source = io::ErrorKind::TimedOut.into();
                    refused = Cause::Connect { address, source };
                }
            }
        }
        Err(refused)
    }
}

/// Requests are written whole, and an answer may take any time while its service is there.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    expect_signs_of_life(socket)
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("target", &self.target)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}
