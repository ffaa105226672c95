//! Units: how durations, sizes, percentages and plain numbers are written.
//!
//! The command line and the configuration share this syntax. A duration or size is one whole
//! number and one unit (`30s`, `1MiB`), never a bare number, so a slip is refused and not
//! guessed at. Every value has a limit, so sums and products of them have one too.

use std::{error::Error, fmt, time::Duration};

/// Why a text is not the value it should be.
///
/// Its `Display` follows the text in a sentence: `"10" has no unit`.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    problem: String,
    hint: String,
}

/// A number from 0 to a thousand million, with at most six decimals.
///
/// It is kept as a whole number of millionths: `10 x 10 x 1.1` is 110, and not a hair more that
/// would round up to 111.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(u64);

/// A share of a whole, written `6%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(Decimal);

/// The longest duration: 100 years of 365 days. More is a slip of the keyboard.
pub const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The largest size: a pebibyte, far beyond any disk that keeps records.
pub const SIZE_MAX: u64 = 1 << 50;

/// The units of a duration, in milliseconds.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// The units of a size, in bytes. There is no `KB`: some read it as 1000 bytes, some as 1024.
const SIZE_UNITS: [(&str, u64); 5] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const DURATION_HINT: &str =
    "write a whole number and a unit, such as 500ms, 10s, 5m, 24h or 1d, up to 36500d";
const SIZE_HINT: &str =
    "write a whole number and a unit, such as 512B, 64KiB, 1MiB or 1GiB, up to 1024TiB";
const DECIMAL_HINT: &str =
    "write a plain number such as 80 or 0.5, up to 1000000000 and six decimals";
const PERCENT_HINT: &str = "write a percentage, such as 20% or 0.5%";

/// Returns the duration that `text` says, such as `500ms`, `10s`, `5m`, `24h` or `1d`.
pub fn duration(text: &str) -> Result<Duration, Invalid> {
    measure(text, &DURATION_UNITS)
        .map(Duration::from_millis)
        .and_then(|duration| at_most(duration, DURATION_MAX))
        .map_err(|problem| Invalid::new(problem, DURATION_HINT))
}

/// Returns the bytes that `text` says, such as `512B`, `64KiB` or `1MiB`.
pub fn size(text: &str) -> Result<u64, Invalid> {
    measure(text, &SIZE_UNITS)
        .and_then(|bytes| at_most(bytes, SIZE_MAX))
        .map_err(|problem| Invalid::new(problem, SIZE_HINT))
}

/// Returns `duration` as it is written: [`duration`] reads it back, to the millisecond.
pub fn write_duration(duration: Duration) -> String {
    write(duration.as_millis(), &DURATION_UNITS)
}

/// Returns `bytes` as they are written: [`size`] reads them back.
pub fn write_size(bytes: u64) -> String {
    write(bytes.into(), &SIZE_UNITS)
}

/// Returns a whole number of the largest unit that leaves no rest.
fn write(value: u128, units: &[(&str, u64)]) -> String {
    let whole = |factor: &u64| value > 0 && value.is_multiple_of(u128::from(*factor));
    let largest = units.iter().rev().find(|(_, factor)| whole(factor));
    let (unit, factor) = largest.unwrap_or(&units[0]);
    format!("{}{unit}", value / u128::from(*factor))
}

/// Returns a whole number times the unit that follows it, or what is wrong with `text`.
fn measure(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    if number.is_empty() || unit.starts_with('.') {
        return Err(not_a_number(text, "a whole number with a unit"));
    }
    if unit.is_empty() {
        return Err("has no unit".into());
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("has an unknown unit, {unit:?}"));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*factor))
        .ok_or_else(|| TOO_LARGE.into())
}

const TOO_LARGE: &str = "is too large";

/// Returns `value`, unless it is over its limit.
fn at_most<T: PartialOrd + Copy>(value: T, max: T) -> Result<T, String> {
    if value > max {
        return Err(TOO_LARGE.into());
    }
    Ok(value)
}

/// Says what is wrong with a text that does not begin as a number does.
fn not_a_number(text: &str, wanted: &str) -> String {
    if text.is_empty() {
        return "is empty".into();
    }
    if text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit()) {
        return "is negative".into();
    }
    format!("is not {wanted}")
}

// === impl Invalid ===

impl Invalid {
    /// Returns a refusal with what is wrong, and what to write instead.
    pub fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    /// What to write instead.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl Error for Invalid {}

// === impl Decimal ===

impl Decimal {
    /// The largest number.
    pub const MAX: Self = Self(1_000_000_000 * Self::ONE);

    /// One, in millionths.
    pub const ONE: u64 = 1_000_000;

    /// The most digits after the point.
    const PLACES: usize = 6;

    /// Returns the number that `text` says, such as `80` or `0.5`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).map_err(|problem| Invalid::new(problem, DECIMAL_HINT))
    }

    /// Returns how many millionths the number is.
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// Returns the number that `text` says, or what is wrong with it.
    fn read(text: &str) -> Result<Self, String> {
        let (whole, decimals) = match text.split_once('.') {
            Some((whole, decimals)) => (whole, decimals),
            None => (text, "0"),
        };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(decimals) {
            return Err(not_a_number(text, "a plain number"));
        }
        if decimals.len() > Self::PLACES {
            return Err(format!("has more than {} decimals", Self::PLACES));
        }
        let millionths = format!("{decimals:0<width$}", width = Self::PLACES)
            .parse::<u64>()
            .expect("six digits fit");
        let value = whole
            .parse::<u64>()
            .ok()
            .and_then(|whole| whole.checked_mul(Self::ONE)?.checked_add(millionths))
            .ok_or(TOO_LARGE)?;
        at_most(Self(value), Self::MAX)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / Self::ONE, self.0 % Self::ONE);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{rest:0width$}", width = Self::PLACES);
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

// === impl Percent ===

impl Percent {
    /// The whole: 100%.
    pub const WHOLE: Self = Self::of(100);

    /// Returns `hundredths` percent.
    pub const fn of(hundredths: u32) -> Self {
        Self(Decimal(hundredths as u64 * Decimal::ONE))
    }

    /// Returns the share that `text` says, such as `20%`.
    ///
    /// The sign is needed: `0.2` could be a fifth or a five-hundredth.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let number = match text.strip_suffix('%') {
            Some(number) => Decimal::read(number),
            None => Decimal::read(text).and(Err("has no % sign".into())),
        };
        number
            .map(Self)
            .map_err(|problem| Invalid::new(problem, PERCENT_HINT))
    }

    /// Returns how many millionths of a percent the share is.
    pub const fn millionths(self) -> u64 {
        self.0.millionths()
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

#[cfg(test)]
mod tests;
