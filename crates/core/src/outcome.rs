//! Outcomes: the answers that every retry gets back, byte for byte.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// What a finished piece of work answered.
///
/// Two parts: a small `head` that is always kept (a status, headers, whatever tells what
/// happened) and a `body` that is kept up to a limit. An empty body is a body.
///
/// ```
/// use onceward::Outcome;
///
/// let outcome = Outcome::success("charged 100");
/// assert_eq!(outcome.body().unwrap(), "charged 100");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the work did what was asked. A final refusal is an outcome too.
    pub ending: Ending,
    /// What is kept whatever the size of the body; empty unless set.
    pub head: Bytes,
    /// The answer itself.
    pub body: Body,
}

/// How a piece of work ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It did what was asked.
    Success,
    /// It refused or failed, finally: asking again would say the same.
    Failure,
}

/// The body of an outcome, or what is left of it.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// The bytes, possibly none.
    Kept(Bytes),
    /// The bytes, which go before the record does.
    KeptFor {
        /// The bytes.
        bytes: Bytes,
        /// How long they are kept, counted from the end of the work.
        keep: Duration,
    },
    /// The body was larger than the limit, or was kept long enough: the work is done and is not
    /// done again, but its answer cannot be repeated.
    NotKept {
        /// How long it was, in bytes.
        len: u64,
        /// Its BLAKE3 digest, so that a second completion is recognised.
        digest: [u8; 32],
    },
}

// === impl Outcome ===

impl Outcome {
    /// Returns the outcome of work that did what was asked.
    pub fn success(body: impl Into<Bytes>) -> Self {
        Self {
            ending: Ending::Success,
            head: Bytes::new(),
            body: Body::Kept(body.into()),
        }
    }

    /// Returns the outcome of work that finally refused or failed.
    pub fn failure(body: impl Into<Bytes>) -> Self {
        Self {
            ending: Ending::Failure,
            ..Self::success(body)
        }
    }

    /// Sets what is kept whatever the size of the body.
    #[must_use]
    pub fn with_head(mut self, head: impl Into<Bytes>) -> Self {
        self.head = head.into();
        self
    }

    /// The body, or `None` if it is not kept.
    pub fn body(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Kept(bytes) | Body::KeptFor { bytes, .. } => Some(bytes),
            Body::NotKept { .. } => None,
        }
    }

    /// How long the body is kept, if it goes before the record does.
    pub fn keeps_body_for(&self) -> Option<Duration> {
        match self.body {
            Body::KeptFor { keep, .. } => Some(keep),
            Body::Kept(_) | Body::NotKept { .. } => None,
        }
    }

    /// Returns the outcome with its body left out if it has more than `limit` bytes.
    #[must_use]
    pub fn keeping(self, limit: usize) -> Self {
        match self.body().is_some_and(|bytes| bytes.len() > limit) {
            true => self.shed(),
            false => self,
        }
    }

    /// Returns the outcome with its body kept for as long as the record is, or for `keep`.
    #[must_use]
    pub fn keeping_for(mut self, keep: Option<Duration>) -> Self {
        self.body = match (self.body, keep) {
            (Body::Kept(bytes) | Body::KeptFor { bytes, .. }, Some(keep)) => {
                Body::KeptFor { bytes, keep }
            }
            (Body::Kept(bytes) | Body::KeptFor { bytes, .. }, None) => Body::Kept(bytes),
            (body @ Body::NotKept { .. }, _) => body,
        };
        self
    }

    /// Returns the outcome without its body.
    #[must_use]
    pub fn shed(mut self) -> Self {
        if let Some(bytes) = self.body() {
            self.body = Body::NotKept {
                len: bytes.len() as u64,
                digest: *blake3::hash(bytes).as_bytes(),
            };
        }
        self
    }

    /// Returns the outcome as callers get it: without a body that is kept for a time only and
    /// `is_due` to go, whether or not it is gone already.
    #[must_use]
    pub fn told(&self, is_due: bool) -> Self {
        match self.keeps_body_for() {
            Some(_) if is_due => self.clone().shed(),
            _ => self.clone().keeping_for(None),
        }
    }

    /// Whether both are what one piece of work came to, whatever is left of their bodies.
    pub fn is_of_one(&self, other: &Self) -> bool {
        let whole = |outcome: &Self| outcome.clone().keeping_for(None);
        let (one, two) = (whole(self), whole(other));
        one == two || one.shed() == two.shed()
    }

    /// How many bytes of it a store keeps.
    pub fn kept_len(&self) -> usize {
        self.head.len() + self.body().map_or(0, Bytes::len)
    }
}

/// Lengths only: answers may hold personal data.
impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}(head {} B, {:?})",
            self.ending,
            self.head.len(),
            self.body
        )
    }
}

impl From<Bytes> for Outcome {
    fn from(body: Bytes) -> Self {
        Self::success(body)
    }
}

impl From<Vec<u8>> for Outcome {
    fn from(body: Vec<u8>) -> Self {
        Self::success(body)
    }
}

impl From<String> for Outcome {
    fn from(body: String) -> Self {
        Self::success(body)
    }
}

impl From<&'static str> for Outcome {
    fn from(body: &'static str) -> Self {
        Self::success(body)
    }
}

// === impl Body ===

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(bytes) => write!(f, "body {} B", bytes.len()),
            Self::KeptFor { bytes, keep } => write!(f, "body {} B for {keep:?}", bytes.len()),
            Self::NotKept { len, .. } => write!(f, "body {len} B, not kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_over_the_limit_is_left_out_and_recognised() {
        let large = Outcome::success(vec![1; 11]).with_head("200");
        let cut = large.clone().keeping(10);
        assert_eq!(cut.body(), None);
        assert_eq!(cut.head, "200");
        assert_eq!(cut, large.keeping(10));
        assert_ne!(
            cut,
            Outcome::success(vec![2; 11]).with_head("200").keeping(10)
        );
    }

    #[test]
    fn a_body_at_the_limit_stays_and_an_empty_one_is_a_body() {
        assert!(Outcome::success(vec![1; 10]).keeping(10).body().is_some());
        assert_eq!(Outcome::success("").keeping(0).body().unwrap(), "");
    }

    #[test]
    fn debug_does_not_show_the_answer() {
        let shown = format!("{:?}", Outcome::success("4242 4242").with_head("alice"));
        assert!(
            !shown.contains("4242") && !shown.contains("alice"),
            "{shown}"
        );
    }
}
