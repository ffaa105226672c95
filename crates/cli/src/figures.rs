//! Figures: how numbers are shown to people and to machines.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// A finite number of at least zero, as an answer gives it.
///
/// As JSON a whole one is written without a decimal point: `135`, not `135.0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure(pub(crate) f64);

/// The first whole number that an `f64` cannot tell from its neighbour.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns `number` with its thousands apart: `12,960`.
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns `bytes` in the largest unit that leaves at least one: `15.4 MiB`.
pub(crate) fn bytes(bytes: u128) -> String {
    const UNITS: [&str; 8] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() as usize / 10).min(UNITS.len());
    let unit = UNITS[power - 1];
    let tenths = (bytes as f64 / 1024_f64.powi(power as i32) * 10.0).round() as u128;
    let (whole, tenth) = (grouped(tenths / 10), tenths % 10);
    match tenth {
        0 => format!("{whole} {unit}"),
        _ => format!("{whole}.{tenth} {unit}"),
    }
}

/// Returns `duration` in seconds: `135 s`, `0.5 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{} s", Figure(duration.as_secs_f64()).text())
}

/// Returns `duration` in the units of a clock and calendar: `2m 15s`.
pub(crate) fn span(duration: Duration) -> String {
    joined(&parts(duration))
}

/// Returns `duration` as far as anybody wants to know: its two largest units, `1d 2h`.
pub(crate) fn about(duration: Duration) -> String {
    let [parts @ .., _] = parts(duration);
    let first = parts.iter().position(|(number, _)| *number > 0);
    let shown = parts.iter().skip(first.unwrap_or_default()).take(2);
    joined(&shown.copied().collect::<Vec<_>>())
}

/// Returns how many of each unit `duration` has, largest first.
fn parts(duration: Duration) -> [(u64, &'static str); 5] {
    let seconds = duration.as_secs();
    [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (duration.subsec_millis().into(), "ms"),
    ]
}

/// Returns the parts that are there, or no seconds where none is.
fn joined(parts: &[(u64, &str)]) -> String {
    let shown: Vec<_> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{}{unit}", grouped((*number).into())))
        .collect();
    match shown.is_empty() {
        true => "0s".into(),
        false => shown.join(" "),
    }
}

// === impl Figure ===

impl Figure {
    /// Returns the number with three significant digits.
    pub(crate) fn rounded(self) -> Self {
        let text = format!("{:.2e}", self.0);
        Self(text.parse().expect("a printed number reads back"))
    }

    /// Returns the number for people: `4.8`, `2,880`, `2.47e-31`.
    pub(crate) fn text(self) -> String {
        /// Below this, two decimals would show too little.
        const SMALL: f64 = 0.01;
        if self.0 != 0.0 && self.0 < SMALL || self.0 >= WHOLE_MAX {
            return format!("{:.2e}", self.0);
        }
        let text = format!("{:.2}", self.0);
        let (whole, decimals) = text.split_once('.').expect("two decimals follow a point");
        let whole = grouped(whole.parse().expect("below the largest whole number"));
        match decimals.trim_end_matches('0') {
            "" => whole,
            decimals => format!("{whole}.{decimals}"),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0 < WHOLE_MAX {
            serializer.serialize_u64(self.0 as u64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Figure, about, bytes, grouped, seconds, span};

    #[test]
    fn thousands_stand_apart() {
        let shown = [0, 7, 999, 1_000, 12_960, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "7", "999", "1,000", "12,960", "1,234,567"]);
    }

    #[test]
    fn bytes_take_the_largest_unit() {
        let shown = [0, 1_023, 1_024, 1_536, 16_122_240, 1 << 40].map(bytes);
        let wanted = ["0 B", "1023 B", "1 KiB", "1.5 KiB", "15.4 MiB", "1 TiB"];
        assert_eq!(shown, wanted);
        assert_eq!(bytes(u128::MAX), "281,474,976,710,656 YiB");
    }

    #[test]
    fn durations_are_shown_in_seconds_and_in_words() {
        let shown = |millis| {
            let duration = Duration::from_millis(millis);
            [seconds(duration), span(duration)]
        };
        assert_eq!(shown(0), ["0 s", "0s"]);
        assert_eq!(shown(500), ["0.5 s", "500ms"]);
        assert_eq!(shown(135_000), ["135 s", "2m 15s"]);
        assert_eq!(shown(90_061_000), ["90,061 s", "1d 1h 1m 1s"]);
    }

    #[test]
    fn two_units_are_enough_to_know_about() {
        let shown = |millis| about(Duration::from_millis(millis));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(999), "0s");
        assert_eq!(shown(12_345), "12s");
        assert_eq!(shown(65_000), "1m 5s");
        assert_eq!(shown(3_605_000), "1h");
        assert_eq!(shown(90_061_000), "1d 1h");
    }

    #[test]
    fn figures_are_short_at_any_scale() {
        let shown = [
            0.0, 4.8, 75.2, 2_880.0, 1_234.567, 0.01, 0.004, 2.4678e-31, 1e20,
        ]
        .map(|number| Figure(number).text());
        assert_eq!(
            shown,
            [
                "0", "4.8", "75.2", "2,880", "1,234.57", "0.01", "4.00e-3", "2.47e-31", "1.00e20"
            ]
        );
    }

    #[test]
    fn whole_figures_have_no_point_in_json() {
        let json = |number| serde_json::to_string(&Figure(number)).unwrap();
        assert_eq!(json(135.0), "135");
        assert_eq!(json(4.8), "4.8");
        assert_eq!(json(2.47e-31), "2.47e-31");
        assert_eq!(json(1e20), "1e+20");
    }

    #[test]
    fn rounding_keeps_three_digits() {
        assert_eq!(Figure(2.467_783e-31).rounded(), Figure(2.47e-31));
        assert_eq!(Figure(0.0).rounded(), Figure(0.0));
    }
}
