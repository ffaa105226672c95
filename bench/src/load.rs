//! Load: many callers in flight, and how long each of them took.

use std::future::Future;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// What a load came to.
#[derive(Debug)]
pub(crate) struct Load {
    /// Operations per second.
    pub(crate) rate: f64,
    /// Latencies in microseconds.
    pub(crate) latency: Histogram<u64>,
}

/// The time on the bench's own watch: the one place of this program that reads a clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch(Instant);

// === impl Watch ===

#[allow(clippy::disallowed_methods)] // measuring time is what this program is for
impl Watch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

// === impl Load ===

impl Load {
    /// Keeps `in_flight` callers busy for `span`; caller `n` does `work(n, i)` for i = 0, 1, 2 ..
    pub(crate) async fn run<W, F>(in_flight: usize, span: Duration, work: W) -> Self
    where
        W: Fn(usize, u64) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send,
    {
        let start = Watch::start();
        let callers: Vec<_> = (0..in_flight)
            .map(|caller| {
                let work = work.clone();
                tokio::spawn(async move {
                    let mut latency = histogram();
                    for turn in 0.. {
                        let watch = Watch::start();
                        work(caller, turn).await;
                        let micros = watch.elapsed().as_micros() as u64;
                        latency.saturating_record(micros.max(1));
                        if start.elapsed() >= span {
                            break;
                        }
                    }
                    latency
                })
            })
            .collect();
        let mut latency = histogram();
        for caller in callers {
            let one = caller.await.expect("a caller's asserts held");
            latency.add(&one).expect("both histograms have one shape");
        }
        Self {
            rate: latency.len() as f64 / start.elapsed().as_secs_f64(),
            latency,
        }
    }

    /// Returns a load of which nothing is measured yet.
    pub(crate) fn empty() -> Self {
        Self {
            rate: 0.0,
            latency: histogram(),
        }
    }

    /// Adds the latencies of another load.
    pub(crate) fn add(&mut self, other: &Self) {
        let added = self.latency.add(&other.latency);
        added.expect("both histograms have one shape");
    }

    /// Adds one latency.
    pub(crate) fn record(&mut self, took: Duration) {
        let micros = took.as_micros() as u64;
        self.latency.saturating_record(micros.max(1));
    }

    pub(crate) fn p50(&self) -> u64 {
        self.latency.value_at_quantile(0.5)
    }

    pub(crate) fn p99(&self) -> u64 {
        self.latency.value_at_quantile(0.99)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order")
}
