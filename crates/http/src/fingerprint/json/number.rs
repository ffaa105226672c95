//! Numbers by their exact decimal value, of any size.

/// The longest exponent, in digits without leading zeros, that is computed with. A document with
/// a longer one counts byte by byte.
const EXPONENT_DIGITS_MAX: usize = 18;

/// Steps over the number at `at`, appends its value to `out` and returns where it ends; `None` if
/// there is no number.
///
/// The value is its sign, `e` and the digits `d` of `0.d * 10^e`, where `d` neither begins nor
/// ends with a zero: nothing is expanded, so the size of the exponent costs nothing.
pub(super) fn by_value(text: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let negative = text.get(at) == Some(&b'-');
    let (whole, at) = digits(text, at + usize::from(negative))?;
    if whole.len() > 1 && whole[0] == b'0' {
        return None;
    }
    let (fraction, at) = match text.get(at) {
        Some(b'.') => digits(text, at + 1)?,
        _ => (&[][..], at),
    };
    let (exponent, at) = match text.get(at) {
        Some(b'e' | b'E') => {
            let down = text.get(at + 1) == Some(&b'-');
            let signed = down || text.get(at + 1) == Some(&b'+');
            let (magnitude, end) = digits(text, at + 1 + usize::from(signed))?;
            (Some((down, magnitude)), end)
        }
        _ => (None, at),
    };
    let all = || whole.iter().chain(fraction);
    let leading = all().take_while(|digit| **digit == b'0').count();
    let len = whole.len() + fraction.len();
    if leading == len {
        // All zeros are one zero, whatever their signs and exponents.
        write(out, false, 0, [].iter(), 0);
        return Some(at);
    }
    let trailing = all().rev().take_while(|digit| **digit == b'0').count();
    let exponent = exponent.map_or(Some(0), |(down, magnitude)| signed(down, magnitude))?;
    let point = i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()?;
    let kept = len - leading - trailing;
    write(
        out,
        negative,
        exponent + point,
        all().skip(leading).take(kept),
        kept,
    );
    Some(at)
}

/// The digits from `at` on, at least one, and where they end.
fn digits(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = text.get(at..)?;
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (len > 0).then(|| (&rest[..len], at + len))
}

fn signed(down: bool, magnitude: &[u8]) -> Option<i64> {
    let zeros = magnitude.iter().take_while(|digit| **digit == b'0').count();
    let magnitude = &magnitude[zeros..];
    if magnitude.len() > EXPONENT_DIGITS_MAX {
        return None;
    }
    let value = magnitude
        .iter()
        .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some(if down { -value } else { value })
}

fn write<'a>(
    out: &mut Vec<u8>,
    negative: bool,
    exponent: i64,
    digits: impl Iterator<Item = &'a u8>,
    len: usize,
) {
    out.push(u8::from(negative));
    // Small first whichever the sign: most numbers are short, and some documents are full of them.
    varying(out, ((exponent << 1) ^ (exponent >> 63)).cast_unsigned());
    varying(out, len as u64);
    out.extend(digits);
}

/// Appends a number in as many bytes as it needs, seven bits in each.
fn varying(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let end = by_value(text.as_bytes(), 0, &mut out)?;
        (end == text.len()).then_some(out)
    }

    #[test]
    fn spellings_of_one_value_are_equal() {
        for spellings in [
            &[
                "100", "100.0", "1e2", "1.00E+2", "1e02", "1000e-1", "0.1e3", "0.001e5",
            ][..],
            &[
                "0",
                "-0",
                "0.0",
                "-0.00",
                "0e5",
                "-0E-99999999999999999999999",
            ],
            &["-1.5", "-15e-1", "-0.15E1", "-1.50"],
            &["1e999999999", "10e999999998", "0.1e1000000000"],
            &[
                "123456789012345678901234567890",
                "12345678901234567890123456789.0e1",
            ],
        ] {
            for spelling in spellings {
                assert!(value(spelling).is_some(), "{spelling}");
                assert_eq!(value(spelling), value(spellings[0]), "{spelling}");
            }
        }
    }

    #[test]
    fn values_that_doubles_confuse_differ() {
        for (one, two) in [
            ("9007199254740992", "9007199254740993"),
            ("0.1", "0.1000000000000000055511151231257827"),
            ("1", "-1"),
            ("1", "10"),
            ("1", "0.1"),
            ("0", "1e-999999999"),
            ("1e999999999", "1e999999998"),
            ("101", "11"),
        ] {
            assert_ne!(value(one), value(two), "{one} {two}");
        }
    }

    #[test]
    fn size_of_the_exponent_does_not_matter() {
        assert!(value("1e999999999999999999").unwrap().len() < 16);
        assert_eq!(value("1e9999999999999999999"), None);
        assert!(value("1e0000000000000000000000000000001").is_some());
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", "-", "+1", "01", "-01", "1.", ".1", "1e", "1e+", "1.e1", "1e1.5", "0x1",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
        for text in ["NaN", "Infinity", "--1", "1 ", "1_0"] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
