//! redis-benchmark: what the server does for a client with nothing of ours between.

use std::process::{Command, Output, Stdio};

use super::server::{PLAIN, Server};
use crate::Failed;
use crate::figures::Side;
use crate::plan::Plan;

/// One command, sent by each client as soon as the one before is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain(pub(crate) &'static [&'static str]);

/// What redis-benchmark did.
#[derive(Debug)]
pub(crate) struct Ran {
    /// What was measured, without the warm-up.
    pub(crate) side: Side,
    /// How many commands were answered, with the warm-up.
    pub(crate) commands: u64,
}

/// Stands for twelve digits, other ones each time.
macro_rules! digits {
    () => {
        "__rand_int__"
    };
}

/// Stands for a word that is another one in each run: two runs of redis-benchmark may choose the
/// same digits.
macro_rules! run {
    () => {
        "__run__"
    };
}

/// A claim such as services make for themselves, of a key never used before: two times twelve
/// digits are never the same in one run.
pub(crate) const SET_NX: Plain = Plain(&[
    "SET",
    concat!("payments:", run!(), ":", digits!(), digits!()),
    VALUE,
    "NX",
]);

/// Asks for an answer; see [`Server::fill`].
pub(crate) const GET: Plain = Plain(&["GET", concat!("answers:", digits!())]);

/// About as much as the record of a claim has: 100 bytes.
const VALUE: &str = "7777777777777777777777777777777777777777777777777777777777777777777777777777777777777777777777777777";

// === impl Plain ===

impl Plain {
    /// Sends the command on `clients` connections, without pipelining, with digits below `below`.
    pub(crate) async fn run(
        self,
        server: &Server,
        clients: usize,
        below: u32,
        plan: Plan,
    ) -> Result<Ran, Failed> {
        let warm = (clients as u64 * 20).max(500);
        let pace = self.send(server, clients, below, warm).await?.rate;
        let commands = (pace * plan.span.as_secs_f64()).max(warm as f64) as u64;
        Ok(Ran {
            side: self.send(server, clients, below, commands).await?,
            commands: warm + commands,
        })
    }

    /// Sends so many commands.
    async fn send(
        self,
        server: &Server,
        clients: usize,
        below: u32,
        commands: u64,
    ) -> Result<Side, Failed> {
        let run = format!("{:016x}", fastrand::u64(..));
        let mut command = Command::new(server.program("redis-benchmark"));
        command
            .args(["-h", &server.address.ip().to_string()])
            .args(["-p", &server.address.port().to_string()])
            .args(["--dbnum", PLAIN, "--csv", "-P", "1"])
            .args(["-c", &clients.to_string()])
            .args(["-n", &commands.to_string()])
            .args(["-r", &below.to_string()])
            .args(self.0.iter().map(|word| word.replace(run!(), &run)))
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        read(&output)
    }
}

fn read(output: &Output) -> Result<Side, Failed> {
    let text = String::from_utf8_lossy(&output.stdout);
    let side = text.lines().last().and_then(parse);
    match side.filter(|_| output.status.success()) {
        Some(side) => Ok(side),
        None => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "redis-benchmark ended with {}: {words}{text}",
                output.status
            )
            .into())
        }
    }
}

/// Reads the command, how often it was answered in a second, and milliseconds: the average, the
/// least, three quantiles and the most.
fn parse(line: &str) -> Option<Side> {
    let mut fields = line.trim().trim_matches('"').split("\",\"").skip(1);
    let rate: f64 = fields.next()?.parse().ok()?;
    let mut micros = fields.map(|field| {
        field
            .parse::<f64>()
            .map(|millis| (millis * 1e3).round() as u64)
    });
    Some(Side {
        rate,
        p50: micros.nth(2)?.ok()?.max(1),
        p99: micros.nth(1)?.ok()?.max(1),
    })
}

#[cfg(test)]
mod tests {
    use super::{VALUE, parse};

    #[test]
    fn line_is_read() {
        let line =
            r#""SET payments 777 NX","67704.80","0.477","0.104","0.447","0.695","1.023","3.279""#;
        let side = parse(line).unwrap();
        assert_eq!((side.rate, side.p50, side.p99), (67_704.8, 447, 1_023));
        let head = r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms""#;
        assert!(parse(head).is_none());
    }

    #[test]
    fn claim_has_a_hundred_bytes() {
        assert_eq!(VALUE.len(), 100);
    }
}
