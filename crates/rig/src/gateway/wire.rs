//! A caller that sends exact bytes.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::message::Head;
use super::reader::{Body, Reader};
use super::{Ask, DEADLINE, Fields};

/// One connection, HTTP/1.1 only.
#[derive(Debug)]
pub struct Wire {
    from: Reader<OwnedReadHalf>,
    to: OwnedWriteHalf,
}

/// An answer, as far as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// The status.
    pub status: u16,
    /// The field lines.
    pub fields: Fields,
    /// The body, without its framing.
    pub body: Vec<u8>,
    /// The fields after the body.
    pub trailers: Fields,
    /// Whether the body came to its end.
    pub complete: bool,
    /// Whether the connection is said to close.
    pub closes: bool,
}

// === impl Wire ===

impl Wire {
    /// Connects.
    pub async fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = in_time(TcpStream::connect(to)).await?;
        stream.set_nodelay(true)?;
        let (from, to) = stream.into_split();
        Ok(Self {
            from: Reader::new(from),
            to,
        })
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        in_time(self.to.write_all(bytes)).await
    }

    /// Says that nothing more will be sent.
    pub async fn finish(&mut self) -> io::Result<()> {
        in_time(self.to.shutdown()).await
    }

    /// Ends the connection in a way that its other end takes for an error.
    pub fn reset(self) -> io::Result<()> {
        let (from, _) = self.from.into_parts();
        let stream = from.reunite(self.to).map_err(io::Error::other)?;
        reset(&stream, Duration::ZERO)
    }

    /// Reads one answer to a request that is not `HEAD`. A body that is cut is not an error, but
    /// not [`complete`](Received::complete) either.
    pub async fn read(&mut self) -> io::Result<Received> {
        self.read_method("GET").await
    }

    /// Reads the answer to `ask`.
    pub async fn read_for(&mut self, ask: &Ask) -> io::Result<Received> {
        self.read_method(ask.method()).await
    }

    async fn read_method(&mut self, method: &str) -> io::Result<Received> {
        in_time(async {
            let head = read_head(&mut self.from).await?;
            let framing = head.framing_of_answer(method).map_err(io::Error::other)?;
            let body = self.from.body(framing).await;
            Received::new(&head, body)
        })
        .await
    }

    /// Reads the head of an answer and leaves its body for [`some`](Self::some).
    pub async fn head(&mut self) -> io::Result<Received> {
        in_time(async {
            let head = read_head(&mut self.from).await?;
            Received::new(&head, Body::default())
        })
        .await
    }

    /// Reads this many bytes, or fewer if the connection ends.
    pub async fn some(&mut self, length: usize) -> Vec<u8> {
        let some = timeout(DEADLINE, self.from.some(length)).await;
        some.unwrap_or_default()
    }

    /// Whether nothing more comes and the connection is closed.
    pub async fn is_closed(&mut self) -> bool {
        self.some(1).await.is_empty()
    }
}

async fn read_head(from: &mut Reader<OwnedReadHalf>) -> io::Result<Head> {
    let bytes = from.head(false).await?;
    let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
    Head::strict(&bytes).map_err(io::Error::other)
}

async fn in_time<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(DEADLINE, work).await?
}

/// Closes `stream` with a reset instead of an orderly end.
pub(super) fn reset(stream: &TcpStream, linger: Duration) -> io::Result<()> {
    rustix::net::sockopt::set_socket_linger(stream, Some(linger))?;
    Ok(())
}

// === impl Received ===

impl Received {
    fn new(head: &Head, body: Body) -> io::Result<Self> {
        let status = head.word(1).parse().map_err(io::Error::other)?;
        Ok(Self {
            status,
            closes: head.closes(),
            fields: head.fields.clone(),
            body: body.data,
            trailers: body.trailers,
            complete: body.complete,
        })
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into()
    }

    /// Whether it says to be the answer of an earlier attempt.
    pub fn is_replay(&self) -> bool {
        self.fields.get("idempotent-replayed") == Some("true")
    }

    /// The fields that every retry gets as well: all that are not about this one exchange.
    pub fn lasting(&self) -> Vec<(&str, &str)> {
        let once = [
            "connection",
            "content-length",
            "date",
            "idempotency-expires",
            "idempotent-replayed",
            "set-cookie",
            "stripe-should-retry",
            "trailer",
            "transfer-encoding",
            "x-should-retry",
        ];
        let lasting = self.fields.iter().filter(|(name, _)| !once.contains(name));
        let mut lasting: Vec<_> = lasting.collect();
        // The order of different names means nothing; that within a name does, and is kept.
        lasting.sort_by_key(|(name, _)| *name);
        lasting
    }

    /// How long it asks to wait before a retry, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.fields.get("retry-after")?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// The name of the problem that it tells of, if it does.
    pub fn problem(&self) -> Option<String> {
        let value: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        let name = value
            .get("type")?
            .as_str()?
            .strip_prefix("urn:onceward:problem:")?;
        Some(name.to_owned())
    }
}
