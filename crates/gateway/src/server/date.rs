//! Dates: what `Date` says, written once a second.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;
use onceward::clock::{Clock as _, SystemClock};

/// As long as every date of HTTP.
const LEN: usize = 29;

struct Written {
    second: u64,
    text: [u8; LEN],
}

thread_local! {
    static WRITTEN: RefCell<Written> = const { RefCell::new(Written { second: u64::MAX, text: [b' '; LEN] }) };
}

/// Writes the date of now.
pub(super) fn write(out: &mut Vec<u8>) {
    write_of(SystemClock.wall().as_micros() / 1_000_000, out);
}

fn write_of(second: u64, out: &mut Vec<u8>) {
    WRITTEN.with_borrow_mut(|written| {
        if written.second != second {
            let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(second)).to_string();
            // Until the year 9999 every date is as long.
            if let Ok(text) = date.as_bytes().try_into() {
                *written = Written { second, text };
            }
        }
        out.extend_from_slice(&written.text);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_its_second() {
        let mut out = Vec::new();
        for (second, date) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            out.clear();
            write_of(second, &mut out);
            assert_eq!(str::from_utf8(&out).unwrap(), date);
        }
    }
}
