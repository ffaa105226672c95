//! Telemetry: logs on stderr, and numbers for Prometheus.

use std::io;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// The upper ends of the buckets of times, in seconds: from a write into memory to a caller's
/// patience.
const SECONDS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
];

/// Writes log lines to stderr, from the level that `ONCEWARD_LOG` says, `info` by default.
///
/// Does nothing if somebody else takes the log lines of this process already.
pub fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_env("ONCEWARD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    let _ = match format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}

/// Takes the numbers of this process, and returns where to read them.
pub fn numbers() -> Result<PrometheusHandle, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .install_recorder()
}
