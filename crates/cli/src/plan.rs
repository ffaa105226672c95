//! `onceward plan`: capacity on paper.

use std::time::Duration;

use serde::Serialize;

use onceward_gateway::units::{self, Decimal, Invalid, Percent};

use crate::{
    console::Console,
    exit::{Exit, Failure},
    figures::{self, Figure},
};

use self::capacity::{Capacity, Load, Window};

mod capacity;
mod table;

/// Work out retention, records, bytes and collision risk for a load
///
/// Nothing is contacted and nothing is changed: this is arithmetic on the numbers given. Plan for
/// the peak, because a store that is full refuses new work.
#[derive(clap::Args, Debug)]
#[command(after_long_help = METHOD)]
pub(crate) struct Args {
    /// Requests with a key per second, at the peak
    ///
    /// Each counts as a new key, so that the plan holds on a day without duplicates too. Up to
    /// 1000000000, with at most six decimals.
    #[arg(long, value_name = "PER_SECOND", value_parser = rate, allow_hyphen_values = true)]
    rate: Decimal,

    /// How long a caller waits for one answer
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    #[arg(value_parser = units::duration, allow_hyphen_values = true)]
    deadline: Duration,

    /// How long a caller goes on sending retries after its first attempt
    ///
    /// Count what retries for it as well: a queue, a job scheduler, a person with a button.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    #[arg(value_parser = units::duration, allow_hyphen_values = true)]
    retry_horizon: Duration,

    /// How long the network may hold a request back before it arrives
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = units::duration, allow_hyphen_values = true)]
    network: Duration,

    /// How far the clocks of callers and store may drift apart
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    #[arg(value_parser = units::duration, allow_hyphen_values = true)]
    clock: Duration,

    /// Keep records for this long, in place of what the four durations above add up to
    ///
    /// It is used as given; if it is too short for them, the answer says so.
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = retention, allow_hyphen_values = true)]
    retention: Option<Duration>,

    /// Keep the bodies of answers for this long, and the rest of the records longer
    ///
    /// Shorter than the retention. A retry that comes later is told that the work was done, with
    /// the status and location of its answer.
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = retention, allow_hyphen_values = true)]
    keep_body: Option<Duration>,

    /// Spare room for bursts, and for expired records that are not swept yet
    ///
    /// At most 1000%.
    #[arg(long, value_name = "PERCENT", default_value = "20%")]
    #[arg(value_parser = margin, allow_hyphen_values = true)]
    margin: Percent,

    /// Random bits in a key
    ///
    /// From 1 to 512. A random UUID (version 4) has 122, one of version 7 has 74.
    #[arg(long, value_name = "BITS", default_value = "122")]
    #[arg(value_parser = key_bits, allow_hyphen_values = true)]
    key_bits: u16,

    /// Share of the requests that repeat an earlier key
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    #[arg(value_parser = duplicates, allow_hyphen_values = true)]
    duplicates: Percent,

    /// Size of an answer that is kept for replay: status, headers and body
    #[arg(long, value_name = "SIZE", default_value = "1KiB")]
    #[arg(value_parser = units::size, allow_hyphen_values = true)]
    answer_size: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The answer for machines.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    capacity: &'a Capacity,
    warnings: Vec<String>,
}

/// The most spare room: more than ten times the load is another load.
const MARGIN_MAX: Percent = Percent::of(1_000);

/// The most random bits in a key: twice the longest that anybody uses.
const KEY_BITS_MAX: u16 = 512;

/// The collision risk above which keys need more random bits.
const RISK_MAX: f64 = 1e-9;

const METHOD: &str = "\
How it is worked out:
  retention   = deadline + retry horizon + network + clock
                The last retry leaves at the end of the retry horizon. It may be held back by
                the network, run into the deadline and meet a clock that is off. A record that
                expires before then lets that retry run the work a second time.
  records     = rate x retention x (100% + margin)
  bytes       = records x (overhead of the store + answer size); an estimate
                Overhead per record: memory 400 B, embedded 220 B, postgres 350 B with its
                indexes, redis 600 B, dynamodb 150 B. Replicas are not counted.
                Each rule of `unique` or `suspect` writes one more record without an answer
                for every new key of its route: plan for those apart, with --answer-size 0B.
                With --keep-body, records younger than that have all of their answer, older
                ones the first 256 B of it: status and headers.
  duplicates  = rate x duplicates
  collision   = records x (records - 1) / 2 / 2^bits, about: the chance that any two of the
                records have equal keys though nobody repeated one (birthday bound)

Durations are written 500ms, 10s, 5m, 24h or 1d; sizes 512B, 64KiB or 1MiB.

Example:
  onceward plan --rate 80 --deadline 10s --retry-horizon 90s --network 30s --clock 5s \\
      --margin 20% --key-bits 128 --duplicates 6%

  Retention is 10 + 90 + 30 + 5 = 135 s, so 80 x 135 x 120% = 12,960 records are kept. Of the
  80 requests a second 4.8 are duplicates: 2,880 in ten minutes.";

/// Returns a rate above zero.
fn rate(text: &str) -> Result<Decimal, Invalid> {
    let rate = Decimal::parse(text)?;
    if rate.millionths() == 0 {
        return Err(Invalid::new(
            "is no load at all",
            "write the requests per second at the peak, such as 80 or 0.5",
        ));
    }
    Ok(rate)
}

/// Returns a retention above zero.
fn retention(text: &str) -> Result<Duration, Invalid> {
    let retention = units::duration(text)?;
    if retention.is_zero() {
        return Err(Invalid::new(
            "keeps nothing",
            "write how long an answer can be replayed, such as 24h, or leave the option out",
        ));
    }
    Ok(retention)
}

/// Returns spare room of any sensible size.
fn margin(text: &str) -> Result<Percent, Invalid> {
    let margin = Percent::parse(text)?;
    if margin > MARGIN_MAX {
        return Err(Invalid::new(
            "is too large",
            format!("write at most {MARGIN_MAX}, or raise the rate"),
        ));
    }
    Ok(margin)
}

/// Returns a part of the requests, or all of them.
fn duplicates(text: &str) -> Result<Percent, Invalid> {
    let share = Percent::parse(text)?;
    if share > Percent::WHOLE {
        return Err(Invalid::new(
            "is more than all requests",
            "write the share of the requests that repeat a key, from 0% to 100%",
        ));
    }
    Ok(share)
}

/// Returns a number of random bits that a key can have.
fn key_bits(text: &str) -> Result<u16, Invalid> {
    match text.parse() {
        Ok(bits @ 1..=KEY_BITS_MAX) => Ok(bits),
        _ => Err(Invalid::new(
            "is not a number of random bits",
            format!("write a whole number from 1 to {KEY_BITS_MAX}, such as 122 for a random UUID"),
        )),
    }
}

// === impl Args ===

impl Args {
    /// Prints the plan.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let load = self.load()?;
        let capacity = Capacity::of(&load);
        let warnings = warnings(&load, &capacity);
        for warning in &warnings {
            console.warn(warning);
        }
        if self.json {
            console.json(&Answer {
                capacity: &capacity,
                warnings,
            })?;
        } else {
            console.data(table::of(&load, &capacity))?;
        }
        Ok(Exit::Done)
    }

    /// Returns the load that the options describe.
    fn load(&self) -> Result<Load, Failure> {
        let window = Window {
            deadline: self.deadline,
            retry_horizon: self.retry_horizon,
            network: self.network,
            clock: self.clock,
        };
        let retention = self.retention.unwrap_or(window.retention());
        if retention.is_zero() {
            return Err(Failure::new(
                "the durations add up to a retention of zero, which keeps nothing",
                "give --retry-horizon, or --retention, as long as callers may retry",
            ));
        }
        if let Some(keep) = self.keep_body
            && keep >= retention
        {
            let kept = figures::seconds(retention);
            return Err(Failure::new(
                format!("bodies cannot be kept longer than their records, which are kept {kept}"),
                "give a shorter --keep-body, or a longer --retention",
            ));
        }
        Ok(Load {
            keep_body: self.keep_body,
            rate: self.rate,
            window,
            retention,
            margin: self.margin,
            duplicates: self.duplicates,
            key_bits: self.key_bits,
            answer: self.answer_size,
        })
    }
}

/// Returns what is wrong with a plan, in a line each.
fn warnings(load: &Load, capacity: &Capacity) -> Vec<String> {
    let mut warnings = Vec::new();
    let needed = load.window.retention();
    if load.retention < needed {
        warnings.push(format!(
            "a retention of {} is shorter than the {} that the retry horizon needs: \
             a retry that comes later runs the work again",
            figures::seconds(load.retention),
            figures::seconds(needed),
        ));
    }
    if let Some(keep) = load.keep_body
        && keep < needed
    {
        warnings.push(format!(
            "bodies are kept for {}, and callers retry for {}: a retry in between is told that \
             the work was done, and does not get its answer",
            figures::seconds(keep),
            figures::seconds(needed),
        ));
    }
    let Figure(risk) = capacity.collision_probability;
    if risk > RISK_MAX {
        warnings.push(format!(
            "{} random bits are few for so many records: keys that nobody repeated are equal \
             with probability {}",
            load.key_bits,
            capacity.collision_probability.text(),
        ));
    }
    warnings
}

#[cfg(test)]
mod tests;
