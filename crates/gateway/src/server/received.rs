//! What is received: a request's body, at a pace that does not keep us waiting for ever.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::content::Content;
use super::{BoxError, Settings};

/// The body of a request.
///
/// Its sender has [`Settings::body_grace`] of our waiting time, and earns more of it with every
/// byte, at [`Settings::body_rate_min`] and never more than the grace at once. Time in which
/// nobody polls this is not held against the sender.
pub struct Received<B = Content> {
    body: B,
    pace: Pace,
}

/// Why a request's body ended before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The sender is too slow. Nothing more is read; 408 is the answer.
    #[error("the request body comes too slowly")]
    TooSlow,

    /// The connection broke, or what came was no valid body.
    #[error("the request body was cut off")]
    Cut(#[source] BoxError),
}

/// How long the sender may keep us waiting.
struct Pace {
    grace: Duration,
    rate_min: u64,
    /// Bytes since the timer was set.
    earned: u64,
    /// The end of the sender's time: made on the first wait, for most bodies are there at once.
    sleep: Option<Pin<Box<Sleep>>>,
}

// === impl Received ===

impl<B> Received<B> {
    /// Returns `body`, whose sender has to keep the pace in `settings`.
    pub fn new(body: B, settings: &Settings) -> Self {
        Self {
            body,
            pace: Pace {
                grace: settings.body_grace,
                rate_min: settings.body_rate_min.max(1),
                earned: 0,
                sleep: None,
            },
        }
    }
}

impl<B> Body for Received<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = ReceiveError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReceiveError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.pace.earn(data.len());
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(ReceiveError::Cut(error.into()))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(this.pace.poll_end(cx));
                Poll::Ready(Some(Err(ReceiveError::TooSlow)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> fmt::Debug for Received<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").finish_non_exhaustive()
    }
}

// === impl Pace ===

impl Pace {
    fn earn(&mut self, bytes: usize) {
        self.earned = self.earned.saturating_add(bytes as u64);
    }

    /// Waits for the end of the sender's time.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let grace = self.grace;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(grace)));
        loop {
            ready!(sleep.as_mut().poll(cx));
            if self.earned == 0 {
                return Poll::Ready(());
            }
            let micros = self.earned.saturating_mul(1_000_000) / self.rate_min;
            let more = Duration::from_micros(micros).min(grace);
            self.earned = 0;
            sleep.as_mut().set(tokio::time::sleep(more));
        }
    }
}

#[cfg(test)]
mod tests;
