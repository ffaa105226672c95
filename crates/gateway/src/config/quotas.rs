//! What one caller may take, and how records are counted for it.

use std::time::Duration;

use onceward_http::quota;

use super::fields::Part;
use super::problem::{At, Source};
use super::reader::Section;
use crate::identity;
use crate::units::{self, Invalid, Percent, write_size};

/// How the records in the store are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Census {
    /// How long after a count the next one begins; never, unless a quota needs it.
    pub every: Option<Duration>,
    /// The share of the time that counting may take.
    pub share: Percent,
}

/// What the rest of a file says that quotas have to fit to.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) identity: &'a identity::Settings,
    pub(super) behind_proxy: bool,
    pub(super) executions: usize,
    /// The largest answer that any route keeps.
    pub(super) answer_max: usize,
}

/// Reads `[quotas]`.
pub(super) fn read(source: &Source<'_>, top: &Section<'_>, around: &Around<'_>) -> quota::Limits {
    let table = top.table_or_empty("quotas", Part::Quotas);
    let number = |name: &str| number(source, &table, name);
    let (second, day) = (number("claims_per_second"), number("claims_per_day"));
    let running = number("running");
    let stored = table.parsed("stored", |text| match units::size(text)? {
        0 => Err(Invalid::new(
            "lets nothing be stored",
            "write a size such as 100MiB",
        )),
        bytes => Ok(bytes),
    });
    check_day(source, second.as_ref(), day.as_ref());
    check_running(source, running.as_ref(), around.executions);
    warn_stored(source, stored.as_ref(), around.answer_max);
    let mut limits = quota::Limits::default();
    limits.claims_per_second = second.map(|at| at.value);
    limits.claims_per_day = day.map(|at| at.value);
    limits.running = running.map(|at| at.value);
    limits.unknown = number("unknown").map(|at| u64::from(at.value));
    limits.stored = stored.map(|at| at.value);
    limits.mismatches_per_minute = number("mismatches_per_minute").map(|at| at.value);
    warn_peers(source, top, limits, around);
    limits
}

/// Reads how records are counted, in `[admin]`.
pub(super) fn census(table: &Section<'_>) -> Census {
    let every = table.parsed("census", |text| match units::duration(text)? {
        span if span < Duration::from_secs(1) => Err(Invalid::new(
            "is too short",
            "write 1s or more, such as 10m",
        )),
        span => Ok(span),
    });
    let share = table.parsed("census_share", |text| match Percent::parse(text)? {
        share if share == Percent::of(0) || share > Percent::of(50) => Err(Invalid::new(
            "is out of range",
            "write more than 0% and no more than 50%, such as 5%",
        )),
        share => Ok(share),
    });
    Census {
        every: every.map(|at| at.value),
        share: share.map_or(Census::default().share, |at| at.value),
    }
}

fn number(source: &Source<'_>, table: &Section<'_>, name: &str) -> Option<At<u32>> {
    let At { value, span } = table.count(name)?;
    match u32::try_from(value) {
        Ok(value) => Some(At { value, span }),
        Err(_) => {
            let hint = format!("write a number up to {}, or leave {name} out", u32::MAX);
            source.refuse(&span, format!("{name} is too large to be a limit"), hint);
            None
        }
    }
}

fn check_day(source: &Source<'_>, second: Option<&At<u32>>, day: Option<&At<u32>>) {
    if let (Some(second), Some(day)) = (second, day)
        && second.value > day.value
    {
        source.refuse(
            &second.span,
            format!(
                "claims_per_second = {} can never be reached with claims_per_day = {}",
                second.value, day.value
            ),
            "lower it, or raise claims_per_day",
        );
    }
}

fn check_running(source: &Source<'_>, running: Option<&At<u32>>, executions: usize) {
    if let Some(running) = running
        && running.value as usize > executions
    {
        source.refuse(
            &running.span,
            format!(
                "running = {} is more than all callers together may run: executions = {executions}",
                running.value
            ),
            "lower it, or raise executions in [limits]",
        );
    }
}

fn warn_stored(source: &Source<'_>, stored: Option<&At<u64>>, answer_max: usize) {
    if let Some(stored) = stored
        && stored.value < answer_max as u64
    {
        source.warn(
            &stored.span,
            format!(
                "stored is less than one answer may take, which is {}",
                write_size(answer_max as u64)
            ),
            "raise it, or lower max_answer",
        );
    }
}

/// Warns where all callers have the address of a proxy.
fn warn_peers(source: &Source<'_>, top: &Section<'_>, limits: quota::Limits, around: &Around<'_>) {
    if limits != quota::Limits::default() && around.behind_proxy && is_unverified(around.identity) {
        source.warn(
            &top.name_of("quotas"),
            "callers that nobody verified share the quotas of their address, which is the proxy's",
            "say who callers are in [identity]",
        );
    }
}

/// Whether callers can give themselves any name.
pub(crate) fn is_unverified(identity: &identity::Settings) -> bool {
    matches!(
        identity,
        identity::Settings::Credential | identity::Settings::None
    )
}

// === impl Census ===

impl Census {
    /// How long after a count the next one begins where only quotas need it.
    pub(crate) const USUAL: Duration = Duration::from_secs(600);
}

impl Default for Census {
    fn default() -> Self {
        Self {
            every: None,
            share: Percent::of(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Overrides};
    use super::*;

    const TOP: &str = "upstream = \"http://127.0.0.1:3000\"\n";

    fn config(text: &str) -> Config {
        let parsed = Config::parse(&format!("{TOP}{text}"), "f.toml", Overrides::default());
        parsed.unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn nothing_is_limited_or_counted_by_default() {
        let config = config("");
        assert_eq!(config.quotas, quota::Limits::default());
        assert_eq!(config.counts_every(), None);
    }

    #[test]
    fn every_quota_can_be_set() {
        let config = config(
            "[quotas]\nclaims_per_second = 100\nclaims_per_day = 10000\nrunning = 8\n\
             unknown = 20\nstored = \"1GiB\"\nmismatches_per_minute = 30\n\
             [admin]\ncensus = \"1m\"\ncensus_share = \"10%\"\n",
        );
        let set: Vec<_> = config.quotas.iter().map(|(_, number)| number).collect();
        assert_eq!(set, [100, 10_000, 8, 20, 1 << 30, 30]);
        assert_eq!(config.counts_every(), Some(Duration::from_secs(60)));
        assert_eq!(config.admin.census.share, Percent::of(10));
        assert_eq!(config.warnings, []);
    }

    #[test]
    fn quotas_on_what_is_stored_need_a_census() {
        assert_eq!(config("[quotas]\nrunning = 8\n").counts_every(), None);
        for text in ["unknown = 1", "stored = \"1GiB\""] {
            let config = config(&format!("[quotas]\n{text}\n"));
            assert_eq!(config.counts_every(), Some(Census::USUAL));
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for (text, wanted) in [
            (
                "[quotas]\nrunning = 0",
                "3:11: running is an integer, where a whole number from 1",
            ),
            (
                "[quotas]\nrunning = 5000000000",
                "3:11: running is too large to be a limit",
            ),
            (
                "[quotas]\nrunning = 20000",
                "3:11: running = 20000 is more than all callers",
            ),
            (
                "[quotas]\nstored = \"0B\"",
                "3:10: stored \"0B\" lets nothing be stored",
            ),
            (
                "[quotas]\nclaims_per_second = 5\nclaims_per_day = 4",
                "3:21: claims_per_second = 5 can never be reached",
            ),
            (
                "[admin]\ncensus = \"10ms\"",
                "3:10: census \"10ms\" is too short",
            ),
            (
                "[admin]\ncensus_share = \"0%\"",
                "3:16: census_share \"0%\" is out of range",
            ),
            (
                "[admin]\ncensus_share = \"51%\"",
                "3:16: census_share \"51%\" is out of range",
            ),
        ] {
            let parsed = Config::parse(&format!("{TOP}{text}"), "f.toml", Overrides::default());
            let errors = parsed.expect_err(text);
            let told = errors.to_string();
            assert!(told.contains(wanted) && told.contains("hint: "), "{told}");
        }
    }

    #[test]
    fn quotas_that_hardly_hold_are_warned_about() {
        let warnings = |text: &str| {
            let warnings = config(text).warnings;
            let told: Vec<_> = warnings.iter().map(ToString::to_string).collect();
            told.join("\n")
        };
        let told = warnings("[quotas]\nstored = \"1KiB\"");
        assert!(
            told.contains("stored is less than one answer may take"),
            "{told}"
        );
        let proxied = "listen = \"0.0.0.0:80\"\nplaintext = \"behind-proxy\"\n";
        let told = warnings(&format!("{proxied}[quotas]\nrunning = 8"));
        assert!(told.contains("share the quotas of their address"), "{told}");
    }
}
