//! The wire on the service's side: just enough HTTP/1.1 to misbehave in.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use turmoil::net::TcpStream;

/// A request as the service got it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// By lower-case names.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// How an answer goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// With its length, whole.
    Whole,
    /// In chunks, whole.
    Chunked,
    /// With its length, and half of it.
    Half,
    /// In chunks, and half of it.
    Endless,
}

// === impl Request ===

impl Request {
    /// Looks at the head of the next request without taking it off the wire.
    pub(crate) async fn ahead(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = [0; 4096];
        let len = stream.peek(&mut bytes).await.ok()?;
        (len > 0).then(|| Self::parse(&bytes[..len]))?
    }

    /// Reads the next request, or `None` where there is none.
    pub(crate) async fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        loop {
            if let Some(end) = end_of_head(&bytes) {
                let mut request = Self::parse(&bytes)?;
                let length = request.headers.get("content-length");
                let length: usize = length.map_or(Some(0), |text| text.parse().ok())?;
                if bytes.len() >= end + length {
                    let body = bytes[end..end + length].to_vec();
                    request.body = String::from_utf8(body).ok()?;
                    return Some(request);
                }
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let head = std::str::from_utf8(&bytes[..end_of_head(bytes)?]).ok()?;
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let headers = lines.filter_map(|line| line.split_once(": "));
        Some(Self {
            method: first.next()?.to_owned(),
            path: first.next()?.to_owned(),
            headers: headers
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
            body: String::new(),
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(at + 4)
}

/// Writes an answer. Whoever asked may be gone.
pub(crate) async fn answer(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &str,
    shape: Shape,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Said\r\nContent-Type: text/plain\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let half = &body[..body.len() / 2];
    let rest = &body[body.len() / 2..];
    let message = match shape {
        Shape::Whole => format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
        Shape::Half => format!("{head}Content-Length: {}\r\n\r\n{half}", body.len()),
        Shape::Chunked | Shape::Endless => {
            let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
            let end = match shape {
                Shape::Chunked => chunk(rest) + "0\r\n\r\n",
                _ => String::new(),
            };
            format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{}{end}",
                chunk(half)
            )
        }
    };
    stream.write_all(message.as_bytes()).await
}
