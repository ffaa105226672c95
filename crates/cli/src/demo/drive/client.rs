//! The client: one request over one connection, broken off where the schedule says.
//!
//! It writes the bytes itself, because a well-behaved HTTP client cannot be made to stop in the
//! middle of a request.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::service::Trouble;
use super::schedule::{Attempt, Cut, Operation};

/// One attempt at an operation.
#[derive(Debug)]
pub(super) struct Client {
    to: SocketAddr,
    request: String,
    cut: Option<Cut>,
}

/// What an attempt brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// 201: it is charged.
    Charged {
        /// The first answer, once more.
        replayed: bool,
    },
    /// 422: the key belongs to another request.
    Refused,
    /// 409 `outcome-unknown`: nobody can tell.
    Unknown,
    /// Anything else: not now.
    Again,
    /// Nothing that the client could use: the connection broke.
    None,
}

/// How long an answer may take; longer than a gateway lets anybody wait.
const PATIENCE: Duration = Duration::from_secs(20);

// === impl Client ===

impl Client {
    pub(super) fn new(to: SocketAddr, operation: &Operation, attempt: Attempt) -> Self {
        let path = if operation.keyed {
            "/orders"
        } else {
            "/payments"
        };
        let trouble = attempt.trouble.map_or_else(String::new, |trouble| {
            format!("{}: {}\r\n", Trouble::HEADER, trouble.value())
        });
        let (key, order, amount) = (&operation.key, &operation.order, attempt.amount);
        let body = format!("{{\"amount\":{amount},\"order\":\"{order}\"}}");
        let len = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {len}\r\n\
             Idempotency-Key: {key}\r\n{trouble}\r\n{body}"
        );
        Self {
            to,
            request,
            cut: attempt.cut,
        }
    }

    /// Sends the request, and returns what came back.
    pub(super) async fn attempt(self) -> Answer {
        match tokio::time::timeout(PATIENCE, self.exchange()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Answer::None,
        }
    }

    /// Leaving this function closes the connection, wherever that is.
    async fn exchange(&self) -> io::Result<Answer> {
        let mut stream = TcpStream::connect(self.to).await?;
        let request = self.request.as_bytes();
        if let Some(Cut::Sending(hundredths)) = self.cut {
            let part = &request[..request.len() * hundredths / 100];
            stream.write_all(part).await?;
            return Ok(Answer::None);
        }
        stream.write_all(request).await?;
        match self.cut {
            Some(Cut::Waiting(time)) => tokio::time::sleep(time).await,
            Some(Cut::Answered) => drop(stream.read_u8().await?),
            Some(Cut::Sending(_)) | None => {
                let mut received = Vec::new();
                stream.read_to_end(&mut received).await?;
                return Ok(Answer::read(&String::from_utf8_lossy(&received)));
            }
        }
        Ok(Answer::None)
    }
}

// === impl Answer ===

impl Answer {
    /// Reads the bytes of an answer.
    fn read(text: &str) -> Self {
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Self::None;
        };
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap_or_default();
        match status {
            "201" => Self::Charged {
                replayed: head.contains("\r\nidempotent-replayed: true"),
            },
            "422" => Self::Refused,
            "409" if body.contains("outcome-unknown") => Self::Unknown,
            _ => Self::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let replayed = "HTTP/1.1 201 Created\r\nIdempotent-Replayed: true\r\n\r\n{}";
        let unknown = "HTTP/1.1 409 Conflict\r\nA: b\r\n\r\n{\"code\":\"outcome-unknown\"}";
        for (text, wanted) in [
            (replayed, Answer::Charged { replayed: true }),
            (
                "HTTP/1.1 201 Created\r\nA: b\r\n\r\n{}",
                Answer::Charged { replayed: false },
            ),
            (
                "HTTP/1.1 422 Unprocessable Content\r\n\r\n{}",
                Answer::Refused,
            ),
            (unknown, Answer::Unknown),
            (
                "HTTP/1.1 409 Conflict\r\n\r\n{\"code\":\"in-progress\"}",
                Answer::Again,
            ),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n{}", Answer::Again),
            ("", Answer::None),
            ("HTTP/1.1 201 Created\r\nA: b\r\n", Answer::None),
        ] {
            assert_eq!(Answer::read(text), wanted, "{text}");
        }
    }
}
