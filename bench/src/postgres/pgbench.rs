//! pgbench: what the server does for a client with nothing of ours between.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::server::Server;
use crate::Failed;
use crate::load::Load;
use crate::plan::Plan;

/// A script of pgbench, and what stands for its variables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

/// What pgbench did.
#[derive(Debug)]
pub(crate) struct Ran {
    /// What was measured, without the warm-up.
    pub(crate) load: Load,
    /// How often the script was run, with the warm-up.
    pub(crate) transactions: u64,
}

/// One line of pgbench's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    took: Duration,
    /// When it ended, since 1970.
    ended: Duration,
}

// === impl Script ===

impl Script {
    /// Runs the script on `clients` connections, each as fast as it is answered.
    pub(crate) async fn run(
        self,
        server: &Server,
        clients: usize,
        plan: Plan,
    ) -> Result<Ran, Failed> {
        let folder = tempfile::tempdir()?;
        let script = folder.path().join("script.sql");
        std::fs::write(&script, self.text)?;
        let mut command = Command::new(server.program("pgbench"));
        command
            .args(["-h", &server.address.ip().to_string()])
            .args(["-p", &server.address.port().to_string()])
            .args(["-U", "postgres", "-n", "-M", "prepared"])
            .args(["-c", &clients.to_string()])
            .args(["-j", &clients.min(threads()).to_string()])
            .args(["-T", &(plan.warm + plan.span).as_secs().to_string()])
            .arg("-f")
            .arg(&script)
            .args(["-l", "--log-prefix"])
            .arg(folder.path().join("log"));
        for (name, value) in self.variables {
            command.args(["-D", &format!("{name}={value}")]);
        }
        command.arg("postgres").stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let transactions = transactions(&output)?;
        let lines = lines(folder.path())?;
        if lines.len() as u64 != transactions {
            let lines = lines.len();
            return Err(
                format!("pgbench logged {lines} of {transactions} transactions it did").into(),
            );
        }
        Ok(Ran {
            load: load(&lines, plan.warm)?,
            transactions,
        })
    }
}

/// One thread of pgbench for each processor.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Returns how many transactions pgbench says it has done, none of them in vain.
fn transactions(output: &Output) -> Result<u64, Failed> {
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || {
        let words = String::from_utf8_lossy(&output.stderr);
        format!("pgbench ended with {}: {words}{text}", output.status)
    };
    let number = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    let done = number("number of transactions actually processed:").ok_or_else(failed)?;
    // Servers before 15 do not count them, and end instead.
    let in_vain = number("number of failed transactions:").unwrap_or(0);
    match output.status.success() && in_vain == 0 {
        true => Ok(done),
        false => Err(failed().into()),
    }
}

/// Reads the logs, one of each thread.
fn lines(folder: &Path) -> Result<Vec<Line>, Failed> {
    let mut lines = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("log") {
            let text = std::fs::read_to_string(file.path())?;
            let read = |line| Line::parse(line).ok_or_else(|| format!("pgbench logged {line:?}"));
            for line in text.lines() {
                lines.push(read(line)?);
            }
        }
    }
    Ok(lines)
}

/// Leaves out what ended before everybody was warm.
fn load(lines: &[Line], warm: Duration) -> Result<Load, Failed> {
    let begun = lines.iter().map(|line| line.ended - line.took).min();
    let ended = lines.iter().map(|line| line.ended).max();
    let (Some(begun), Some(ended)) = (begun, ended) else {
        return Err("pgbench did nothing".into());
    };
    let warm = begun + warm;
    let mut load = Load::empty();
    for line in lines.iter().filter(|line| line.ended >= warm) {
        load.record(line.took);
    }
    load.rate = load.latency.len() as f64 / ended.saturating_sub(warm).as_secs_f64();
    Ok(load)
}

// === impl Line ===

impl Line {
    /// Reads client, number, microseconds, script, and when it ended in seconds and microseconds.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ').skip(2);
        let took = Duration::from_micros(fields.next()?.parse().ok()?);
        let mut fields = fields.skip(1).map(|field| field.parse().ok());
        let seconds = Duration::from_secs(fields.next()??);
        let ended = seconds + Duration::from_micros(fields.next()??);
        Some(Self { took, ended })
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Line, load};

    #[test]
    fn line_of_the_log_is_read() {
        let expected = Line {
            took: Duration::from_micros(2_241),
            ended: Duration::new(1_765_000_000, 250_000_000),
        };
        let read = Line::parse("3 199 2241 0 1765000000 250000");
        assert_eq!(read, Some(expected));
        assert_eq!(Line::parse("3 199 failed 0 1765000000 250000"), None);
    }

    #[test]
    fn warm_up_does_not_count() {
        let line = |ended| Line {
            took: Duration::from_millis(10),
            ended: Duration::from_millis(ended),
        };
        let lines: Vec<_> = (1..=30).map(|nth| line(1_000 + nth * 100)).collect();
        let load = load(&lines, Duration::from_millis(1_010)).unwrap();
        assert_eq!(load.latency.len(), 20);
        assert!((9.0..=11.0).contains(&load.rate), "{}", load.rate);
    }
}
