//! HTTP/1.1 messages with a known length, read as they come.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Failed;

/// What was read from a connection and not yet taken as a message.
#[derive(Debug)]
pub(crate) struct Inbox(Vec<u8>);

/// Where a message ends, as its head tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// How long the head is.
    pub(crate) head: usize,
    /// How long head and body are.
    pub(crate) whole: usize,
}

/// The most header fields a message may have.
const FIELDS: usize = 64;

/// The longest message: far longer than any that is sent here.
const LONGEST: usize = 64 << 10;

// === impl Inbox ===

impl Inbox {
    /// Returns an empty inbox with room for the messages that are sent here.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(4 << 10))
    }

    /// Waits for a whole message whose head `parse` reads, and returns where it ends.
    ///
    /// Returns `None` when the connection ends between two messages.
    pub(crate) async fn next<R, P>(
        &mut self,
        from: &mut R,
        mut parse: P,
    ) -> Result<Option<Frame>, Failed>
    where
        R: AsyncRead + Unpin,
        P: FnMut(&[u8]) -> Result<Option<Frame>, Failed>,
    {
        let mut frame = None;
        loop {
            if frame.is_none() && !self.0.is_empty() {
                frame = parse(&self.0)?;
            }
            match frame {
                Some(frame) if frame.whole <= self.0.len() => return Ok(Some(frame)),
                _ if self.0.len() > LONGEST => return Err("a message is too long".into()),
                _ => {}
            }
            if from.read_buf(&mut self.0).await? == 0 {
                return match self.0.is_empty() {
                    true => Ok(None),
                    false => Err("the connection ended inside a message".into()),
                };
            }
        }
    }

    /// Returns the head of the message that `frame` describes.
    pub(crate) fn head(&self, frame: Frame) -> &[u8] {
        &self.0[..frame.head]
    }

    /// Returns the body of the message that `frame` describes.
    pub(crate) fn body(&self, frame: Frame) -> &[u8] {
        &self.0[frame.head..frame.whole]
    }

    /// Forgets the message that `frame` describes.
    pub(crate) fn take(&mut self, frame: Frame) {
        self.0.drain(..frame.whole);
    }
}

/// Asks once, on a connection of its own, and returns the status and the body.
pub(crate) async fn call(
    to: SocketAddr,
    method: &str,
    path: &str,
) -> Result<(u16, Vec<u8>), Failed> {
    let mut stream = TcpStream::connect(to).await?;
    let text = format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(text.as_bytes()).await?;
    let (mut inbox, mut status) = (Inbox::new(), 0);
    let parse = |bytes: &[u8]| answer(bytes, |code, _| status = code);
    match inbox.next(&mut stream, parse).await? {
        Some(frame) => Ok((status, inbox.body(frame).to_vec())),
        None => Err(format!("{method} {path} got no answer").into()),
    }
}

/// Reads the head of a request: `look` sees its method, its path and each field.
pub(crate) fn request(
    bytes: &[u8],
    look: impl FnOnce(&str, &str, &[httparse::Header<'_>]),
) -> Result<Option<Frame>, Failed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(len) = head.parse(bytes)? else {
        return Ok(None);
    };
    look(
        head.method.unwrap_or_default(),
        head.path.unwrap_or_default(),
        head.headers,
    );
    Ok(Some(Frame::new(len, length(head.headers)?.unwrap_or(0))))
}

/// Reads the head of an answer: `look` sees its status and each field.
pub(crate) fn answer(
    bytes: &[u8],
    look: impl FnOnce(u16, &[httparse::Header<'_>]),
) -> Result<Option<Frame>, Failed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(len) = head.parse(bytes)? else {
        return Ok(None);
    };
    look(head.code.unwrap_or_default(), head.headers);
    match length(head.headers)? {
        Some(body) => Ok(Some(Frame::new(len, body))),
        None => Err(format!("an answer has no length: {}", bytes.escape_ascii()).into()),
    }
}

/// Returns the value of the field called `name`.
pub(crate) fn field<'a>(fields: &'a [httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let found = fields.iter().find(|it| it.name.eq_ignore_ascii_case(name));
    found.map(|it| it.value)
}

fn length(fields: &[httparse::Header<'_>]) -> Result<Option<usize>, Failed> {
    if field(fields, "transfer-encoding").is_some() {
        return Err("a message came in chunks, where its length is known".into());
    }
    let Some(value) = field(fields, "content-length") else {
        return Ok(None);
    };
    Ok(Some(std::str::from_utf8(value)?.trim().parse()?))
}

// === impl Frame ===

impl Frame {
    fn new(head: usize, body: usize) -> Self {
        let whole = head.saturating_add(body);
        Self { head, whole }
    }
}
