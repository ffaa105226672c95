//! Requests, as the bytes that a caller sends.

use std::fmt::Write as _;

/// A request. Nothing is added that is not asked for, except `Host` and the length of a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    method: String,
    target: String,
    fields: String,
    body: Option<Vec<u8>>,
    chunked: bool,
}

// === impl Ask ===

impl Ask {
    /// A request with any method.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            fields: String::new(),
            body: None,
            chunked: false,
        }
    }

    /// A `GET`.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A `POST` with a small body.
    pub fn post(target: &str) -> Self {
        Self::new("POST", target).body("pay 100")
    }

    /// Adds `Idempotency-Key`, bare.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.field("Idempotency-Key", key)
    }

    /// Adds a bearer token.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.field("Authorization", &format!("Bearer {token}"))
    }

    /// Adds a field line.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        write!(self.fields, "{name}: {value}\r\n").expect("a string takes all");
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sends the body in chunks instead of announcing its length.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The request line and the fields, with the empty line.
    pub fn head(&self) -> Vec<u8> {
        let Self {
            method,
            target,
            fields,
            ..
        } = self;
        let framing = match &self.body {
            Some(_) if self.chunked => "Transfer-Encoding: chunked\r\n".into(),
            Some(body) => format!("Content-Length: {}\r\n", body.len()),
            None => String::new(),
        };
        format!("{method} {target} HTTP/1.1\r\nHost: shop.example\r\n{fields}{framing}\r\n").into()
    }

    /// The whole request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        match &self.body {
            Some(body) if self.chunked => {
                // Two chunks, so that there is something between them.
                let (first, second) = body.split_at(body.len() / 2);
                for piece in [first, second]
                    .into_iter()
                    .filter(|piece| !piece.is_empty())
                {
                    bytes.extend(chunk(piece));
                }
                bytes.extend(b"0\r\n\r\n");
            }
            Some(body) => bytes.extend(body),
            None => {}
        }
        bytes
    }
}

/// A chunk of a body, as it is on the wire.
pub(super) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
    bytes.extend(data);
    bytes.extend(b"\r\n");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_bytes_that_it_says() {
        let ask = Ask::new("PUT", "/a").field("X-A", "b").body("abc");
        let expected = "PUT /a HTTP/1.1\r\nHost: shop.example\r\nX-A: b\r\n\
                        Content-Length: 3\r\n\r\nabc";
        assert_eq!(String::from_utf8(ask.bytes()).unwrap(), expected);
    }

    #[test]
    fn a_body_in_chunks_has_no_length_but_an_end() {
        let bytes = Ask::post("/a").body("abc").chunked().bytes();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("Content-Length"));
        assert!(
            text.ends_with("\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"),
            "{text}"
        );
    }
}
