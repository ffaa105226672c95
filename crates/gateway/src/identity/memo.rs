//! Tokens that were verified before, for a signature costs more than the rest of a request.

use std::collections::HashMap;

use onceward::Timestamp;
use parking_lot::Mutex;

use super::Caller;

/// Tokens that were verified, by their digest: whoever reads this memory finds no token in it.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<HashMap<[u8; 32], Known>>);

/// What a verified token says.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) caller: Caller,
    /// From when it counts, the leeway included.
    pub(super) from: Timestamp,
    /// When it has expired, the leeway included.
    pub(super) until: Timestamp,
}

// === impl Memo ===

impl Memo {
    /// The most tokens that are remembered: a few megabytes.
    const MAX: usize = 10_000;

    /// What `token` says, if it was verified before.
    pub(super) fn get(&self, token: &str) -> Option<Known> {
        let digest = *blake3::hash(token.as_bytes()).as_bytes();
        self.0.lock().get(&digest).cloned()
    }

    /// Remembers a verified token. Those that have expired make room first, then all do.
    pub(super) fn put(&self, token: &str, known: Known, now: Timestamp) {
        let digest = *blake3::hash(token.as_bytes()).as_bytes();
        let mut tokens = self.0.lock();
        if tokens.len() >= Self::MAX {
            tokens.retain(|_, known| now < known.until);
        }
        if tokens.len() >= Self::MAX {
            tokens.clear();
        }
        tokens.insert(digest, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(until: u64) -> Known {
        Known {
            caller: Caller::shared(),
            from: Timestamp::ZERO,
            until: Timestamp::from_micros(until),
        }
    }

    #[test]
    fn it_never_holds_more_than_its_share() {
        let memo = Memo::default();
        let now = Timestamp::from_micros(10);
        for token in 0..Memo::MAX {
            memo.put(
                &token.to_string(),
                known(if token == 7 { 11 } else { 10 }),
                now,
            );
        }
        assert!(memo.get("1").is_some());
        memo.put("new", known(11), now);
        assert!(memo.get("1").is_none(), "it has expired");
        assert!(memo.get("7").is_some() && memo.get("new").is_some());
        for token in 0..Memo::MAX {
            memo.put(&format!("more {token}"), known(11), now);
        }
        assert!(memo.0.lock().len() <= Memo::MAX);
    }
}
