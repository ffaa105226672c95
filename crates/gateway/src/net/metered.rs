//! Sockets that keep count of what the kernel took, and of where records of TLS end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Look, Socket, TcpStream, look};

/// A socket that knows how many bytes the kernel took.
///
/// It stands below TLS, because what counts is what left, not what was encrypted.
#[derive(Debug)]
pub(crate) struct Metered {
    socket: TcpStream,
    written: u64,
    /// Where there is TLS above it.
    records: Option<Records>,
}

/// What was read of a connection that carries TLS, as far as it is cut into records.
#[derive(Default, Debug)]
struct Records {
    /// How many bytes of a record's head were read, and the first of the two that say its length.
    head: usize,
    high: u8,
    /// How many bytes are missing behind the head.
    missing: usize,
}

// === impl Metered ===

impl Metered {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            written: 0,
            records: None,
        }
    }

    /// A socket below TLS.
    pub(crate) fn below_tls(socket: TcpStream) -> Self {
        Self {
            records: Some(Records::default()),
            ..Self::new(socket)
        }
    }

    /// How many bytes the kernel took so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether what was read ends with a record, if it is TLS: of one that is not whole, nobody
    /// above knows.
    pub(crate) fn is_whole(&self) -> bool {
        self.records.as_ref().is_none_or(Records::are_whole)
    }

    /// Asks the kernel whether the idle connection is still open; one that speaks is broken.
    ///
    /// A poll would ask the runtime, which learns of an end of file only when it next looks at
    /// its events; that may be after the request is written.
    pub(crate) fn is_silent(&mut self) -> bool {
        matches!(look(&mut self.socket), Ok(Look::Silent))
    }

    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written += bytes as u64;
        }
        written
    }
}

impl Socket for Metered {
    fn close_by_reset(&self, resets: bool) -> io::Result<()> {
        self.socket.close_by_reset(resets)
    }

    fn taken(&self) -> u64 {
        self.written
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, buf);
        if let Some(records) = &mut this.records {
            records.note(&buf.filled()[before..]);
        }
        read
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

// === impl Records ===

impl Records {
    /// How long the head of a record is: its type, a version, and its length.
    const HEAD: usize = 5;

    fn are_whole(&self) -> bool {
        self.head == 0 && self.missing == 0
    }

    /// Takes note of bytes that were read.
    fn note(&mut self, mut bytes: &[u8]) {
        while let [byte, behind @ ..] = bytes {
            if self.missing > 0 {
                let known = self.missing.min(bytes.len());
                self.missing -= known;
                bytes = &bytes[known..];
                continue;
            }
            self.head += 1;
            match self.head {
                4 => self.high = *byte,
                Self::HEAD => {
                    self.missing = usize::from(u16::from_be_bytes([self.high, *byte]));
                    self.head = 0;
                }
                _ => {}
            }
            bytes = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole_at_their_ends_and_nowhere_else_whatever_the_steps() {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for len in [0, 1, 7, 300, 2] {
            let [high, low] = (len as u16).to_be_bytes();
            bytes.extend([23, 3, 3, high, low]);
            bytes.extend(std::iter::repeat_n(5, len));
            ends.push(bytes.len());
        }
        for step in [1, 2, 3, 5, 64, bytes.len()] {
            let mut records = Records::default();
            let mut at = 0;
            for piece in bytes.chunks(step) {
                assert_eq!(records.are_whole(), ends.contains(&at), "{at} by {step}");
                records.note(piece);
                at += piece.len();
            }
            assert!(records.are_whole());
        }
    }
}
