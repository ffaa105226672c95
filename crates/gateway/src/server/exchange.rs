//! The exchange: what the two ends of an HTTP/1 connection tell each other.
//!
//! hyper stands between the wire, which sees the bytes, and the service, which sees the requests.
//! Both run in the connection's one task, one after the other, so nothing here is contended: the
//! atomics are there for the task that moves to another thread, and the lock is taken only where
//! requests are pipelined.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::Mutex;

use super::framing::Facts;

/// What is known about one connection on both sides of hyper.
#[derive(Default, Debug)]
pub(super) struct Exchange {
    /// The facts of the oldest head that was read and not asked for yet, or 0.
    first: AtomicU8,
    /// Those behind it: pipelined requests wait in hyper's buffer, so there are never more than
    /// fit into it.
    rest: Mutex<VecDeque<Facts>>,
    has_rest: AtomicBool,
    is_in_body: AtomicBool,
    is_upgraded: AtomicBool,
    is_under_way: AtomicBool,
}

/// A request under way: from its head to the end of its answer's body, wherever that comes.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Exchange>);

// === impl Exchange ===

impl Exchange {
    /// Says that a head has ended.
    pub(super) fn put(&self, facts: Facts) {
        if self.first.load(Ordering::Relaxed) == 0 {
            self.first.store(facts.to_bits(), Ordering::Relaxed);
        } else {
            self.rest.lock().push_back(facts);
            self.has_rest.store(true, Ordering::Relaxed);
        }
    }

    /// Returns what was noted in the head of the request that is handed on now.
    pub(super) fn take(&self) -> Option<Facts> {
        let first = Facts::from_bits(self.first.load(Ordering::Relaxed));
        let mut next = None;
        if self.has_rest.load(Ordering::Relaxed) {
            let mut rest = self.rest.lock();
            next = rest.pop_front();
            self.has_rest.store(!rest.is_empty(), Ordering::Relaxed);
        }
        let bits = next.map_or(0, Facts::to_bits);
        self.first.store(bits, Ordering::Relaxed);
        first
    }

    /// Whether a body has begun and not ended, as far as anybody can tell.
    pub(super) fn is_in_body(&self) -> bool {
        self.is_in_body.load(Ordering::Relaxed)
    }

    pub(super) fn set_in_body(&self, is_in_body: bool) {
        self.is_in_body.store(is_in_body, Ordering::Relaxed);
    }

    /// Whether the connection speaks another protocol by now.
    pub(super) fn is_upgraded(&self) -> bool {
        self.is_upgraded.load(Ordering::Relaxed)
    }

    pub(super) fn set_upgraded(&self) {
        self.is_upgraded.store(true, Ordering::Relaxed);
    }

    /// Whether a request was handed on whose answer has not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Relaxed)
    }
}

// === impl UnderWay ===

impl UnderWay {
    /// Begins a request. hyper begins none before the answer of the one before it is gone.
    pub(super) fn begin(exchange: &Arc<Exchange>) -> Self {
        exchange.is_under_way.store(true, Ordering::Relaxed);
        Self(Arc::clone(exchange))
    }

    pub(super) fn exchange(&self) -> &Exchange {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.is_under_way.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(bits: u8) -> Facts {
        Facts::from_bits(bits).unwrap()
    }

    #[test]
    fn heads_are_taken_in_the_order_in_which_they_came() {
        let exchange = Exchange::default();
        assert_eq!(exchange.take(), None);
        (1..=3).for_each(|bits| exchange.put(facts(bits)));
        assert_eq!(exchange.take(), Some(facts(1)));
        exchange.put(facts(4));
        for bits in 2..=4 {
            assert_eq!(exchange.take(), Some(facts(bits)));
        }
        assert_eq!(exchange.take(), None);
        exchange.put(facts(5));
        assert_eq!(exchange.take(), Some(facts(5)));
        assert_eq!(exchange.take(), None);
    }

    #[test]
    fn a_request_is_under_way_until_its_guard_is_gone() {
        let exchange = Arc::default();
        let under_way = UnderWay::begin(&exchange);
        assert!(exchange.is_under_way());
        drop(under_way);
        assert!(!exchange.is_under_way());
    }
}
