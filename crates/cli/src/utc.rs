//! Moments in UTC, as RFC 3339 writes them.

use onceward::Timestamp;

const DAY: u64 = 24 * 60 * 60;

/// The last year that RFC 3339 can write.
const YEAR_MAX: u64 = 9999;

/// Returns `at` to the microsecond, such as `2026-05-03T03:09:37.000000Z`, or `None` where that is
/// never, or so late that it might as well be.
pub(crate) fn rfc3339(at: Timestamp) -> Option<String> {
    let micros = at.as_micros();
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (year, month, day) = civil(seconds / DAY);
    if year > YEAR_MAX {
        return None;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    Some(format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z"
    ))
}

/// Returns year, month and day of the day that is `days` after the first of 1970.
///
/// Years are counted from March, so that a leap day is the last day of its year; months then
/// repeat a pattern of 153 days in five, and years one of 146,097 days in four centuries.
fn civil(days: u64) -> (u64, u64, u64) {
    /// From the first of March of year 0 to the first of 1970.
    const SHIFT: u64 = 719_468;
    let (era, day) = ((days + SHIFT) / 146_097, (days + SHIFT) % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = 400 * era + year;
    match month {
        0..10 => (year, month + 3, day),
        _ => (year + 1, month - 9, day),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> String {
        rfc3339(Timestamp::from_micros(seconds * 1_000_000)).unwrap()
    }

    #[test]
    fn moments_are_what_other_clocks_say() {
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(1_777_777_777), "2026-05-03T03:09:37.000000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000Z");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut date = (1970, 1, 1);
        for days in 0..600 * 366 {
            assert_eq!(civil(days), date);
            date = next(date);
        }
    }

    #[test]
    fn fractions_are_kept() {
        let shown = rfc3339(Timestamp::from_micros(1_000_042)).unwrap();
        assert_eq!(shown, "1970-01-01T00:00:01.000042Z");
    }

    #[test]
    fn what_has_no_date_has_none() {
        assert_eq!(at(253_402_300_799), "9999-12-31T23:59:59.000000Z");
        let later = Timestamp::from_micros(253_402_300_800_000_000);
        assert_eq!(rfc3339(later), None);
        assert_eq!(rfc3339(Timestamp::NEVER), None);
    }

    /// The day after, by the rule that everybody learns.
    fn next((year, month, day): (u64, u64, u64)) -> (u64, u64, u64) {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (month, day) {
            (12, 31) => (year + 1, 1, 1),
            (_, last) if last == days => (year, month + 1, 1),
            _ => (year, month, day + 1),
        }
    }
}
