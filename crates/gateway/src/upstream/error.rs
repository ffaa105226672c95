//! Errors of sending: the one thing that counts is whether anything was sent.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use onceward::BoxError;

use crate::http1::decode::Malformed;

/// Why there is no answer from the upstream.
///
/// Decided from what happened on the connection, never from the text of an error: `Unsent` means
/// that no byte of the request was given to the kernel and that the connection is closed, so that
/// none can be given to it later.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The upstream provably got nothing of the request. It may be sent again.
    #[error("nothing was sent to the upstream")]
    Unsent {
        /// What went wrong.
        #[source]
        cause: BoxError,
    },

    /// The upstream may have got the request, or a part of it, and may have acted on it.
    #[error("the upstream may have got the request, and did not answer")]
    MaybeSent {
        /// What went wrong.
        #[source]
        cause: BoxError,
    },
}

/// What went wrong, where the reason is known here.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    #[error("the upstream's name {host:?} cannot be resolved")]
    Resolve { host: Box<str>, source: io::Error },

    #[error("the upstream's name {host:?} has no address that may be connected to")]
    NoAddress { host: Box<str> },

    #[error("cannot connect to the upstream at {address}")]
    Connect {
        address: SocketAddr,
        source: io::Error,
    },

    #[error("the TLS handshake with the upstream failed")]
    Tls(#[source] io::Error),

    #[error("no connection to the upstream within {0:?}")]
    ConnectTimedOut(Duration),

    #[error("no answer from the upstream within {0:?}")]
    TimedOut(Duration),

    #[error("the claim lapsed while the upstream was being connected to")]
    Lapsed,

    #[error("a tunnel cannot be opened through the gateway")]
    Tunnel,

    #[error("the request target is not valid behind the upstream's path")]
    RequestTarget(#[source] http::Error),

    #[error("the connection to the upstream broke")]
    Io(#[source] io::Error),

    #[error("the upstream spoke before it was asked")]
    Spoke,

    #[error("the upstream closed the connection before it was asked")]
    Closed,

    #[error("the upstream closed the connection before the end of its answer")]
    Cut,

    #[error("the upstream's answer cannot be read: {0}")]
    Garbled(&'static str),

    #[error("the body of the request failed")]
    RequestBody(#[source] BoxError),

    #[error("the body of the request is shorter than it said")]
    ShortBody,

    #[error("the upstream switched protocols without being asked to")]
    UnaskedSwitch,

    #[error("the upstream switched protocols before it had the request")]
    EarlySwitch,
}

// === impl Cause ===

impl Cause {
    /// Whether the other side takes no more, which says nothing about what it has said.
    pub(super) fn is_hang_up(&self) -> bool {
        let is_hang_up = |kind| {
            matches!(
                kind,
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            )
        };
        matches!(self, Self::Io(error) if is_hang_up(error.kind()))
    }
}

impl From<Malformed> for Cause {
    fn from(malformed: Malformed) -> Self {
        Self::Garbled(malformed.0)
    }
}

// === impl SendError ===

impl SendError {
    /// Whether the upstream provably got nothing.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Unsent { .. })
    }

    pub(super) fn unsent(cause: impl Into<BoxError>) -> Self {
        let cause = cause.into();
        Self::Unsent { cause }
    }

    pub(super) fn maybe_sent(cause: impl Into<BoxError>) -> Self {
        let cause = cause.into();
        Self::MaybeSent { cause }
    }
}
