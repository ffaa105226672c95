//! One connection through the proxy, and what becomes of it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::broadcast;

use super::postgres::Messages;
use super::redis::Values;
use super::{Fault, Shared, Talk};

/// A client, a server, and what was seen of their talk.
pub(super) struct Wire {
    client: TcpStream,
    server: TcpStream,
    shared: Arc<Shared>,
    said: Said,
    /// Whether the reply that comes now is for nobody.
    muted: bool,
}

/// What was said on a connection, as far as it matters.
enum Said {
    Postgres(Messages),
    Redis(Values),
}

/// How a connection goes on.
enum Next {
    On,
    Ended,
    Struck(Fault),
}

// === impl Wire ===

impl Wire {
    pub(super) fn new(client: TcpStream, server: TcpStream, shared: Arc<Shared>) -> Self {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let said = match shared.talk {
            Talk::Postgres => Said::Postgres(Messages::default()),
            Talk::Redis => Said::Redis(Values::default()),
        };
        Self {
            client,
            server,
            shared,
            said,
            muted: false,
        }
    }

    /// Carries bytes both ways until either side is done, or a fault strikes.
    pub(super) async fn run(mut self, mut strikes: broadcast::Receiver<Fault>) {
        let (mut asked, mut told) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let next = tokio::select! {
                // What comes after a fault does not get through.
                biased;
                fault = strikes.recv() => match fault {
                    Ok(fault) => Next::Struck(fault),
                    // The proxy is gone, or this one was too slow to hear of one of many faults.
                    Err(_) => Next::Struck(Fault::Reset),
                },
                read = self.client.read(&mut asked) => self.ask(read, &asked).await,
                read = self.server.read(&mut told) => self.tell(read, &told).await,
            };
            match next {
                Next::On => {}
                Next::Ended => return,
                Next::Struck(fault) => return self.struck(fault).await,
            }
        }
    }

    /// Carries what the client says to the server.
    async fn ask(&mut self, read: io::Result<usize>, bytes: &[u8]) -> Next {
        let bytes = match read {
            Ok(0) | Err(_) => return Next::Ended,
            Ok(len) => &bytes[..len],
        };
        let idle = self.said.is_idle();
        self.said.client(bytes);
        if idle && !self.said.is_idle() && !self.muted {
            match self.shared.take() {
                Some(Fault::RequestDropped) => return Next::Struck(Fault::Reset),
                Some(_) => self.muted = true,
                None => {}
            }
        }
        self.travel().await;
        match self.server.write_all(bytes).await {
            Ok(()) => Next::On,
            Err(_) => Next::Ended,
        }
    }

    /// Carries what the server says to the client.
    async fn tell(&mut self, read: io::Result<usize>, bytes: &[u8]) -> Next {
        let bytes = match read {
            Ok(0) | Err(_) => return Next::Ended,
            Ok(len) => &bytes[..len],
        };
        self.said.server(bytes);
        if self.muted {
            // It says that it is ready only once the request is done.
            return match self.said.is_idle() {
                true => Next::Struck(Fault::Reset),
                false => Next::On,
            };
        }
        self.travel().await;
        match self.client.write_all(bytes).await {
            Ok(()) => Next::On,
            Err(_) => Next::Ended,
        }
    }

    async fn travel(&self) {
        let delay = self.shared.rules().delay;
        if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
    }

    async fn struck(mut self, fault: Fault) {
        self.shared.note();
        match fault {
            Fault::Cut => {
                let _ = self.client.shutdown().await;
            }
            // Until the client gives up. The server does not hear of it either.
            Fault::HalfOpen => {
                let mut unheard = vec![0; 1 << 16];
                while matches!(self.client.read(&mut unheard).await, Ok(1..)) {}
            }
            Fault::Reset | Fault::RequestDropped | Fault::ReplyDropped => reset(self.client),
        }
    }
}

// === impl Said ===

impl Said {
    fn client(&mut self, bytes: &[u8]) {
        match self {
            Self::Postgres(said) => said.client(bytes),
            Self::Redis(said) => said.client(bytes),
        }
    }

    fn server(&mut self, bytes: &[u8]) {
        match self {
            Self::Postgres(said) => said.server(bytes),
            Self::Redis(said) => said.server(bytes),
        }
    }

    fn is_idle(&self) -> bool {
        match self {
            Self::Postgres(said) => said.is_idle(),
            Self::Redis(said) => said.is_idle(),
        }
    }
}

/// Ends a connection as a machine does that knows nothing of it.
pub(super) fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}
