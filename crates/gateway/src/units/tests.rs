//! What can be written, and what is said about the rest.

use std::time::Duration;

use super::{
    DURATION_MAX, Decimal, Invalid, Percent, SIZE_MAX, duration, size, write_duration, write_size,
};

/// Returns the problem that the parser has with each of `texts`, which all must be refused.
fn problems<T: std::fmt::Debug>(
    parse: impl Fn(&str) -> Result<T, Invalid>,
    texts: &[&str],
) -> Vec<String> {
    texts
        .iter()
        .map(|text| {
            let invalid = parse(text).expect_err(text);
            assert!(invalid.hint().starts_with("write a "), "{text}");
            invalid.to_string()
        })
        .collect()
}

#[test]
fn durations_are_a_whole_number_and_a_unit() {
    let written = ["0s", "500ms", "10s", "5m", "24h", "1d", "36500d"];
    let millis = [0, 500, 10_000, 300_000, 86_400_000, 86_400_000];
    for (text, millis) in written.iter().zip(millis) {
        assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
    }
    assert_eq!(duration("36500d"), Ok(DURATION_MAX));
}

#[test]
fn sizes_are_a_whole_number_and_a_binary_unit() {
    assert_eq!(size("0B"), Ok(0));
    assert_eq!(size("512B"), Ok(512));
    assert_eq!(size("1KiB"), Ok(1_024));
    assert_eq!(size("8MiB"), Ok(8 * 1_024 * 1_024));
    assert_eq!(size("2GiB"), Ok(2 << 30));
    assert_eq!(size("1024TiB"), Ok(SIZE_MAX));
}

#[test]
fn bare_numbers_have_no_unit() {
    assert_eq!(problems(duration, &["10", "0"]), ["has no unit"; 2]);
    assert_eq!(problems(size, &["1024"]), ["has no unit"]);
}

#[test]
fn units_are_spelled_exactly() {
    for text in ["10S", "10sec", "10 s", "1h30m", "10s ", "5µs", "3w", "1e3s"] {
        let problem = problems(duration, &[text]).remove(0);
        assert!(problem.starts_with("has an unknown unit"), "{text}");
    }
    for text in ["1KB", "1MB", "1kib", "1K", "1Mib"] {
        let problem = problems(size, &[text]).remove(0);
        assert!(problem.starts_with("has an unknown unit"), "{text}");
    }
}

#[test]
fn what_is_not_a_number_is_told_apart() {
    assert_eq!(
        problems(duration, &["", "-5s", "s", "1.5h", "+5s", "-s", " 5s"]),
        [
            "is empty",
            "is negative",
            "is not a whole number with a unit",
            "is not a whole number with a unit",
            "is not a whole number with a unit",
            "is not a whole number with a unit",
            "is not a whole number with a unit",
        ]
    );
    assert_eq!(
        problems(
            Decimal::parse,
            &["", "-1", "NaN", "inf", "1e6", "5.", ".5", "1_000", "٣"]
        ),
        [
            "is empty",
            "is negative",
            "is not a plain number",
            "is not a plain number",
            "is not a plain number",
            "is not a plain number",
            "is not a plain number",
            "is not a plain number",
            "is not a plain number",
        ]
    );
}

#[test]
fn limits_are_kept_without_overflow() {
    let huge = "99999999999999999999999999";
    let over = [
        "36501d".into(),
        format!("{}d", u64::MAX),
        format!("{huge}s"),
    ];
    assert_eq!(
        problems(duration, &over.each_ref().map(String::as_str)),
        ["is too large"; 3]
    );
    let over = [
        "1025TiB".into(),
        format!("{}TiB", u64::MAX),
        format!("{huge}B"),
    ];
    assert_eq!(
        problems(size, &over.each_ref().map(String::as_str)),
        ["is too large"; 3]
    );
    assert_eq!(
        problems(
            Decimal::parse,
            &["1000000000.000001", "18446744073709551615", huge]
        ),
        ["is too large"; 3]
    );
}

#[test]
fn decimals_are_exact() {
    assert_eq!(Decimal::parse("80").unwrap().millionths(), 80_000_000);
    assert_eq!(Decimal::parse("0.1").unwrap().millionths(), 100_000);
    assert_eq!(Decimal::parse("0.000001").unwrap().millionths(), 1);
    assert_eq!(Decimal::parse("1000000000"), Ok(Decimal::MAX));
    assert_eq!(
        problems(Decimal::parse, &["0.0000001"]),
        ["has more than 6 decimals"]
    );
}

#[test]
fn percentages_need_their_sign() {
    assert_eq!(Percent::parse("20%"), Ok(Percent::of(20)));
    assert_eq!(Percent::parse("0.5%").unwrap().millionths(), 500_000);
    assert_eq!(
        problems(Percent::parse, &["20", "0.2", "", "%", "-5%", "x%", "5%%"]),
        [
            "has no % sign",
            "has no % sign",
            "is empty",
            "is empty",
            "is negative",
            "is not a plain number",
            "is not a plain number",
        ]
    );
}

#[test]
fn values_are_shown_as_they_are_written() {
    for text in ["0", "80", "0.5", "12.000001", "1000000000"] {
        assert_eq!(Decimal::parse(text).unwrap().to_string(), text);
        let percent = format!("{text}%");
        assert_eq!(Percent::parse(&percent).unwrap().to_string(), percent);
    }
}

#[test]
fn what_is_written_reads_back() {
    for text in [
        "0ms", "1ms", "1500ms", "10s", "90s", "5m", "36h", "7d", "36500d",
    ] {
        assert_eq!(write_duration(duration(text).unwrap()), text);
    }
    for text in [
        "0B", "1B", "1025B", "1KiB", "1536KiB", "8MiB", "3GiB", "1024TiB",
    ] {
        assert_eq!(size(&write_size(size(text).unwrap())), size(text), "{text}");
    }
    assert_eq!(write_duration(Duration::from_secs(86_400)), "1d");
    assert_eq!(write_size(8 << 20), "8MiB");
}
