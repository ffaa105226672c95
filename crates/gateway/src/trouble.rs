//! Trouble: errors as one line for whoever has to do something about them.

use std::error::Error as StdError;

/// Returns what `error` says, then each cause behind it.
pub fn in_one_line(error: &dyn StdError) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Some causes are told by the error above them already.
        let cause_says = cause.to_string();
        if !line.ends_with(&cause_says) {
            line = format!("{line}: {cause_says}");
        }
        source = cause.source();
    }
    line.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use onceward::{Error, store};

    use super::*;

    #[test]
    fn every_cause_is_told_once_and_in_one_line() {
        let disk = std::io::Error::other("sector 7\nis gone");
        let error = Error::from(store::Error::unavailable("embedded", disk));
        assert_eq!(
            in_one_line(&error),
            "embedded store is unavailable: sector 7 is gone"
        );
    }
}
