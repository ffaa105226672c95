//! Reading messages from a connection, byte by byte as they are.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::message::{Fields, Framing};

/// The side of a connection that bytes come from.
#[derive(Debug)]
pub(super) struct Reader<R> {
    stream: R,
    /// What came and was not asked for yet.
    ahead: Vec<u8>,
}

/// A body, as far as it came.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Body {
    pub(super) data: Vec<u8>,
    pub(super) trailers: Fields,
    /// Whether it came to its end.
    pub(super) complete: bool,
}

/// The longest head that is read.
const HEAD_MAX: usize = 256 << 10;

// === impl Reader ===

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    pub(super) fn into_parts(self) -> (R, Vec<u8>) {
        (self.stream, self.ahead)
    }

    /// Reads some more, and returns whether there was more.
    async fn more(&mut self) -> io::Result<bool> {
        Ok(self.stream.read_buf(&mut self.ahead).await? > 0)
    }

    /// Reads a head with its empty line, or `None` if the connection ends before its first byte.
    pub(super) async fn head(&mut self, lenient: bool) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = end_of_head(&self.ahead, lenient) {
                return Ok(Some(self.take(end)));
            }
            if self.ahead.len() > HEAD_MAX {
                return Err(io::Error::other("a head without end"));
            }
            if !self.more().await? {
                return match self.ahead.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Reads a body to its end, or to that of the connection.
    pub(super) async fn body(&mut self, framing: Framing) -> Body {
        let mut body = Body::default();
        body.complete = self.read_body(framing, &mut body).await.is_ok();
        body
    }

    async fn read_body(&mut self, framing: Framing, body: &mut Body) -> io::Result<()> {
        match framing {
            Framing::Length(length) => self.exactly(length, &mut body.data).await,
            Framing::UntilClose => {
                while self.more().await? {
                    body.data.append(&mut self.ahead);
                }
                body.data.append(&mut self.ahead);
                Ok(())
            }
            Framing::Chunked => self.chunks(body).await,
        }
    }

    async fn chunks(&mut self, body: &mut Body) -> io::Result<()> {
        loop {
            let size = self.line().await?;
            let digits = size.split([';', ' ']).next().unwrap_or_default();
            let size = u64::from_str_radix(digits, 16).map_err(io::Error::other)?;
            if size == 0 {
                break;
            }
            self.exactly(size, &mut body.data).await?;
            if !self.line().await?.is_empty() {
                return Err(io::Error::other("a chunk longer than it says"));
            }
        }
        let mut trailers = String::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            trailers.push_str(&line);
            trailers.push_str("\r\n");
        }
        body.trailers = Fields::lenient(&trailers);
        Ok(())
    }

    async fn exactly(&mut self, length: u64, data: &mut Vec<u8>) -> io::Result<()> {
        let mut left = usize::try_from(length).map_err(io::Error::other)?;
        loop {
            let now = left.min(self.ahead.len());
            data.extend(self.ahead.drain(..now));
            left -= now;
            if left == 0 {
                return Ok(());
            }
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads up to `length` bytes of whatever comes.
    pub(super) async fn some(&mut self, length: usize) -> Vec<u8> {
        let mut data = Vec::new();
        let _ = self.exactly(length as u64, &mut data).await;
        data
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                let line = self.take(end + 1);
                return Ok(String::from_utf8_lossy(&line)
                    .trim_end_matches(['\r', '\n'])
                    .into());
            }
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn take(&mut self, end: usize) -> Vec<u8> {
        self.ahead.drain(..end).collect()
    }
}

/// Where a head ends: after an empty line.
fn end_of_head(bytes: &[u8], lenient: bool) -> Option<usize> {
    let after = |end: &[u8]| {
        let found = bytes.windows(end.len()).position(|window| window == end);
        found.map(|at| at + end.len())
    };
    let strict = after(b"\r\n\r\n");
    if !lenient {
        return strict;
    }
    [strict, after(b"\n\n"), after(b"\n\r\n")]
        .into_iter()
        .flatten()
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_in_chunks_is_read_with_its_trailers() {
        let bytes = &b"HEAD\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\nrest"[..];
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.head(false).await.unwrap().unwrap(), b"HEAD\r\n\r\n");
        let body = reader.body(Framing::Chunked).await;
        assert_eq!((&body.data[..], body.complete), (&b"abcde"[..], true));
        assert_eq!(body.trailers.get("x-sum"), Some("5"));
        assert_eq!(reader.some(4).await, b"rest");
    }

    #[tokio::test]
    async fn a_cut_body_is_not_complete() {
        for (bytes, framing) in [
            (&b"3\r\nabc\r\n"[..], Framing::Chunked),
            (&b"3\r\nabc\r\n0\r\n"[..], Framing::Chunked),
            (&b"abc"[..], Framing::Length(4)),
        ] {
            let body = Reader::new(bytes).body(framing).await;
            assert_eq!((&body.data[..], body.complete), (&b"abc"[..], false));
        }
    }

    #[tokio::test]
    async fn nothing_at_all_is_no_head() {
        assert_eq!(Reader::new(&b""[..]).head(false).await.unwrap(), None);
        Reader::new(&b"GET"[..]).head(false).await.unwrap_err();
    }
}
