//! The upstream: a pooled HTTP/1.1 client of the one service behind the gateway.
//!
//! It knows one thing that other clients do not say: whether anything was sent. [`SendError`]
//! tells it from the bytes that the kernel took, and a request is never sent again by itself
//! unless there were none.
//!
//! No task drives a connection. Whoever sends a request polls its connection, and so does whoever
//! reads the answer ([`Inbound`]); in between requests nobody does. So a request costs no hop
//! between tasks, and a connection that is dropped cannot write any more.
//!
//! How requests look (`encode`) and what answers say (`answer`, `decoder`) is decided without I/O; `sending` and `link` move the bytes, through memory of the thread (`scratch`), so
//! that a connection at rest holds no buffer.

mod answer;
mod connect;
mod deadline;
mod decoder;
mod encode;
mod error;
mod inbound;
mod io;
mod keep_alive;
mod link;
mod outbound;
mod pool;
mod sending;
mod target;
mod tls;

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use onceward::Attempt;
use onceward::bugs::{Bug, seeded};
use onceward::clock::Clock;

use answer::Answer;
use connect::Connector;
use deadline::{Deadline, Spare};
use error::Cause;
use inbound::Home;
use link::{Call, Exchange, Link};
use outbound::Framing;
use pool::Pool;
use tls::Tls;

pub use error::SendError;
pub use inbound::{Inbound, Upgraded};
pub use outbound::Outbound;
pub use target::{InvalidTarget, Scheme, Target};
pub use tls::{TlsError, TlsSettings};

/// The way to the one service behind the gateway. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Upstream {
    shared: Arc<Shared>,
}

/// How the upstream is connected to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The longest time that resolving, connecting and the TLS handshake may take together; 5 s
    /// by default.
    pub connect_timeout: Duration,
    /// How long a connection may rest before it is closed; 4 s by default, because many services
    /// close theirs after 5 s, and a request that crosses such a close may be lost.
    pub idle_max: Duration,
    /// How many connections may rest, shared out among the runtimes that use it; 1024 by default.
    /// There is no limit to those in use.
    pub idle_connections_max: usize,
    /// Whom an `https` upstream is trusted by.
    pub tls: TlsSettings,
}

/// How careful a request is about the connection it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Care {
    /// A new connection, or one that rested for a second at most. For requests whose outcome is
    /// unknown once they may have been sent: servers close idle connections, and a request that
    /// crosses such a close is one of those.
    Fresh,
    /// Any connection that looks open.
    Any,
}

#[derive(Debug)]
struct Shared {
    connector: Connector,
    pool: Pool,
    idle_max: Duration,
    clock: Arc<dyn Clock>,
}

// === impl Upstream ===

impl Upstream {
    /// Returns the way to `target`. Connects to nothing yet; reads the files that TLS needs, if
    /// the target does.
    pub fn new(
        target: Target,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TlsError> {
        let Settings {
            connect_timeout,
            idle_max,
            idle_connections_max,
            tls,
        } = settings;
        let tls = Tls::of(&target, &tls)?;
        let shared = Arc::new(Shared {
            connector: Connector::new(target, connect_timeout, tls),
            pool: Pool::new(idle_max, idle_connections_max),
            idle_max,
            clock,
        });
        Ok(Self { shared })
    }

    /// Where it leads.
    pub fn target(&self) -> &Target {
        self.shared.connector.target()
    }

    /// Sends a request and returns when the head of the answer is there. `within` is the time for
    /// connecting and for that head; the body of the answer has no limit here.
    ///
    /// The request's target becomes the path below the target's prefix, and its length is said
    /// anew from its body; all other fields go out as they are, `Host` among them. If its
    /// extensions hold an [`Attempt`] whose claim lapsed by the time there is a connection,
    /// nothing is sent. Trailers of a [`Outbound::Passed`] body go out if `Trailer` names them.
    ///
    /// Status 101 is returned only to a request with `Upgrade`; see [`Inbound::take_upgraded`].
    /// All other 1xx are passed over.
    ///
    /// Cancel safety: dropping the future closes its connection. The request may have been sent.
    pub fn send(
        &self,
        mut request: Request<Outbound>,
        care: Care,
        within: Duration,
    ) -> impl Future<Output = Result<Response<Inbound>, SendError>> + Send {
        let framing = outbound::prepare(&mut request, self.target());
        // A block holds the request once, where a function would hold it twice.
        async move {
            let framing = framing.map_err(SendError::unsent)?;
            let rested = self.shared.pool.take(care, self.shared.clock.monotonic());
            self.send_on(rested, &mut request, framing, within).await
        }
    }

    /// Connects, with TLS if the target wants it, and closes the connection again: whether the
    /// upstream can be reached.
    ///
    /// Cancel safe.
    pub async fn probe_connect(&self) -> Result<(), SendError> {
        let connected = self.shared.connect().await;
        connected.map(drop).map_err(SendError::unsent)
    }

    /// Sends a request on a connection that rested, or on a new one if there is none or it
    /// ended before anything was written.
    async fn send_on(
        &self,
        mut rested: Option<Box<Link>>,
        request: &mut Request<Outbound>,
        framing: Framing,
        within: Duration,
    ) -> Result<Response<Inbound>, SendError> {
        let mut deadline = Deadline::new(within);
        loop {
            let is_new = rested.is_none();
            let mut link = match rested.take() {
                Some(link) => link,
                None => self.connect_by(&mut deadline).await?,
            };
            if has_lapsed(request) {
                return Err(SendError::unsent(Cause::Lapsed));
            }
            let before = link.written();
            let mut call = Call {
                request: &mut *request,
                framing,
                deadline: &mut deadline,
                is_begun: false,
            };
            let (cause, is_begun) = match poll_fn(|cx| link.poll_exchange(cx, &mut call)).await {
                Exchange::Answered(answer) => {
                    let may_switch = request.headers().contains_key(header::UPGRADE);
                    return self.receive(answer, link, may_switch, deadline);
                }
                Exchange::Failed(cause) => (cause.into(), true),
                Exchange::NotBegun(cause) => (cause.into(), false),
            };
            // Closed first, so that nothing can be written after this is decided.
            if (*link).close() != before && !seeded(Bug::SentTakenForUnsent) {
                return Err(SendError::MaybeSent { cause });
            }
            // It ended between the look at it and the request. What replaces it is new, so this
            // happens once at most.
            if is_begun || is_new {
                return Err(SendError::Unsent { cause });
            }
        }
    }

    /// Closes the connections that have rested for too long. Call it now and then: without
    /// requests nobody else does.
    pub fn reap(&self) {
        self.shared.pool.reap(self.shared.clock.monotonic());
    }

    /// Puts a connection to rest.
    fn rest(&self, link: Box<Link>, good_for: Duration) {
        let now = self.shared.clock.monotonic();
        self.shared.pool.put(link, good_for, now);
    }

    /// Makes a connection. Boxed, so that the requests that need none stay small.
    async fn connect_by(&self, deadline: &mut Deadline) -> Result<Box<Link>, SendError> {
        let mut connecting = Box::pin(self.shared.connect());
        let connected = poll_fn(|cx| {
            // A connection that comes too late would carry a request that has no time left.
            match deadline.poll(cx, &mut Spare::default()) {
                Poll::Ready(()) => Poll::Ready(Err(Cause::TimedOut(deadline.within()))),
                Poll::Pending => connecting.as_mut().poll(cx),
            }
        });
        connected.await.map_err(SendError::unsent)
    }

    fn receive(
        &self,
        Answer { head, keeps_alive }: Answer,
        mut link: Box<Link>,
        may_switch: bool,
        deadline: Deadline,
    ) -> Result<Response<Inbound>, SendError> {
        if head.status() == StatusCode::SWITCHING_PROTOCOLS {
            if !may_switch {
                return Err(SendError::maybe_sent(Cause::UnaskedSwitch));
            }
            let upgraded = link.upgrade();
            let upgraded = upgraded.ok_or_else(|| SendError::maybe_sent(Cause::EarlySwitch))?;
            return Ok(head.map(|_| Inbound::switched(upgraded)));
        }
        link.keep(deadline);
        let good_for = match keeps_alive {
            true => keep_alive::good_for(head.headers(), self.shared.idle_max),
            false => None,
        };
        let home = good_for.map(|good_for| Home {
            upstream: self.clone(),
            good_for,
        });
        Ok(head.map(|body| Inbound::new(body, link, home)))
    }
}

/// Whether the claim that the request is sent under is no longer held.
fn has_lapsed(request: &Request<Outbound>) -> bool {
    let attempt = request.extensions().get::<Attempt>();
    attempt.is_some_and(|attempt| !attempt.is_held())
}

// === impl Shared ===

impl Shared {
    fn connect(&self) -> impl Future<Output = Result<Box<Link>, Cause>> {
        self.connector.connect(self.pool.origin())
    }
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            idle_max: Duration::from_secs(4),
            idle_connections_max: 1024,
            tls: TlsSettings::default(),
        }
    }
}

// === impl Care ===

impl Care {
    /// The longest rest of a connection that a [`Care::Fresh`] request goes on.
    pub const FRESH_MAX: Duration = Duration::from_secs(1);

    /// The longest rest that is acceptable.
    fn idle_max(self) -> Duration {
        match self {
            Self::Fresh => Self::FRESH_MAX,
            Self::Any => Duration::MAX,
        }
    }
}
