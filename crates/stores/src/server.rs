//! What every store on a server has, whichever server that is.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use onceward::store::{self, Hints};
use onceward::{Durability, SlotId};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use tokio::sync::broadcast;

/// How long to wait before connecting again: longer each time, and never the same for all.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

/// Slots that changed, for those in this process who watch them.
#[derive(Debug)]
pub(crate) struct Changes(Mutex<Option<broadcast::Sender<SlotId>>>);

/// What an acknowledged write survives, as far as was last found out.
#[derive(Debug)]
pub(crate) struct Class(AtomicU8);

/// The files that TLS is set up from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) root: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// A parameter of a URL: as it was written, its name, and its value, or what stands there if that
/// is no text.
pub(crate) type Parameter<'a> = (&'a str, &'a str, Result<String, &'a str>);

/// Reads what stands behind the question mark of a URL.
pub(crate) fn parameters(query: &str) -> impl Iterator<Item = Parameter<'_>> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = percent_decode_str(value).decode_utf8();
        (pair, name, decoded.map(Cow::into_owned).map_err(|_| value))
    })
}

/// Reads a span such as `5s` or `800ms`, from `least` to ten minutes.
pub(crate) fn span(text: &str, least: Duration) -> Option<Duration> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let count: u64 = digits.parse().ok()?;
    let span = match &text[digits.len()..] {
        "ms" => Duration::from_millis(count),
        "s" => Duration::from_secs(count),
        "m" => Duration::from_secs(count.checked_mul(60)?),
        _ => return None,
    };
    (least..=Duration::from_secs(600))
        .contains(&span)
        .then_some(span)
}

/// Reads whether a replica may take the place of a server.
pub(crate) fn promotes(text: &str) -> Option<bool> {
    match text {
        "any" => Some(true),
        "never" => Some(false),
        _ => None,
    }
}

/// A number from a half to one.
pub(crate) fn chance() -> f64 {
    0.5 + fastrand::f64() / 2.0
}

// === impl Backoff ===

impl Backoff {
    const FIRST: Duration = Duration::from_millis(10);
    const LAST: Duration = Duration::from_secs(1);

    /// Tells of a failure, the first and then seldom: the server may be away for long.
    pub(crate) fn log(&self, server: &str, why: &str) {
        if self.failures.is_multiple_of(60) {
            tracing::warn!(why, "{server} cannot be used");
        }
    }

    /// How long to wait after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let doubled = Self::FIRST.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        doubled.min(Self::LAST).mul_f64(chance())
    }
}

// === impl Changes ===

impl Changes {
    /// How many hints a slow watcher may lag behind before it loses some.
    const LAG: usize = 4096;

    /// Hints at slots that changed.
    pub(crate) fn hint(&self, slots: impl IntoIterator<Item = SlotId>) {
        if let Some(hints) = &*self.0.lock() {
            for slot in slots {
                // A watcher that is gone is no error: hints are for those who listen.
                let _ = hints.send(slot);
            }
        }
    }

    /// Listens to hints, until the store is closed.
    pub(crate) fn watch(&self) -> Hints {
        match &*self.0.lock() {
            Some(hints) => store::hints(hints.subscribe()),
            None => stream::empty().boxed(),
        }
    }

    /// Ends the streams of hints.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self(Mutex::new(Some(broadcast::channel(Self::LAG).0)))
    }
}

// === impl Class ===

impl Class {
    pub(crate) fn new(class: Durability) -> Self {
        Self(AtomicU8::new(class as u8))
    }

    pub(crate) fn get(&self) -> Durability {
        match self.0.load(Ordering::Relaxed) {
            0 => Durability::D0,
            1 => Durability::D1,
            2 => Durability::D2,
            _ => Durability::D3,
        }
    }

    /// Takes note of what was found out, without a word.
    pub(crate) fn set(&self, class: Durability) {
        self.0.store(class as u8, Ordering::Relaxed);
    }

    /// Takes note of what was found out, and tells of a change.
    pub(crate) fn change(&self, class: Durability, server: &str) {
        let before = self.get();
        self.set(class);
        if class < before {
            tracing::error!(%before, now = %class, "{server} keeps less than it did");
        } else if class > before {
            tracing::info!(%before, now = %class, "{server} keeps more than it did");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connecting_again_takes_longer_each_time_up_to_a_second() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(waits[0] <= Backoff::FIRST);
        assert!(waits.iter().all(|wait| *wait <= Backoff::LAST));
        assert!(waits[19] >= Backoff::LAST / 2);
    }

    #[test]
    fn spans_are_read_within_their_bounds() {
        let read = |text| span(text, Duration::from_millis(100));
        assert_eq!(read("800ms"), Some(Duration::from_millis(800)));
        assert_eq!(read("5s"), Some(Duration::from_secs(5)));
        assert_eq!(read("10m"), Some(Duration::from_secs(600)));
        for wrong in [
            "99ms",
            "601s",
            "5",
            "5h",
            "s",
            "",
            "-5s",
            "18446744073709551615m",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parameters_are_read_in_their_order() {
        let read: Vec<_> = parameters("a=1%2F2&&b&c=%FF").collect();
        let text = |text: &str| Ok(text.to_owned());
        assert_eq!(
            read,
            [
                ("a=1%2F2", "a", text("1/2")),
                ("b", "b", text("")),
                ("c=%FF", "c", Err("%FF"))
            ]
        );
    }

    #[test]
    fn a_class_is_what_was_last_found_out() {
        let class = Class::new(Durability::D3);
        for now in [
            Durability::D0,
            Durability::D1,
            Durability::D2,
            Durability::D3,
        ] {
            class.change(now, "it");
            assert_eq!(class.get(), now);
        }
    }
}
