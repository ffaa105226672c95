//! Statuses: what an answer's status says about the work.

use std::fmt;
use std::str::FromStr;

use http::StatusCode;

/// What becomes of a record when the origin answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The answer is final: it is recorded, and every retry gets it.
    Store,
    /// The work did not happen: the answer is passed on and the next attempt executes.
    Release,
    /// Nobody knows whether the work happened: the answer is passed on and the record is unknown.
    Unknown,
}

/// A status, or a class of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusPattern {
    /// One status: `503`.
    Code(u16),
    /// A hundred of them: `5xx` is `Class(5)`.
    Class(u8),
}

/// What becomes of a record for each status of the origin.
///
/// ```
/// use onceward_http::{Fate, Profile};
///
/// let statuses = Profile::Ietf.statuses();
/// assert_eq!(statuses.fate(http::StatusCode::CREATED), Fate::Store);
/// assert_eq!(statuses.fate(http::StatusCode::GATEWAY_TIMEOUT), Fate::Unknown);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statuses {
    /// By status, from 100 to 999.
    fates: Box<[Fate; 900]>,
}

/// One status, or one class, in two lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} stands in two lists")]
pub struct ClashingStatuses(pub StatusPattern);

// === impl Statuses ===

impl Statuses {
    /// Returns the table for three lists. An exact code wins over a class; what stands in no list
    /// is stored.
    pub fn new(
        store: &[StatusPattern],
        release: &[StatusPattern],
        unknown: &[StatusPattern],
    ) -> Result<Self, ClashingStatuses> {
        let lists = [
            (Fate::Store, store),
            (Fate::Release, release),
            (Fate::Unknown, unknown),
        ];
        for (at, (_, list)) in lists.iter().enumerate() {
            let others = || lists[at + 1..].iter().flat_map(|(_, list)| *list);
            if let Some(twice) = list.iter().find(|one| others().any(|other| other == *one)) {
                return Err(ClashingStatuses(*twice));
            }
        }
        let mut fates = Box::new([Fate::Store; 900]);
        for exact in [false, true] {
            for (fate, list) in lists {
                for pattern in list.iter().filter(|one| one.is_exact() == exact) {
                    fates[pattern.places()].fill(fate);
                }
            }
        }
        Ok(Self { fates })
    }

    /// What becomes of a record when the origin answers with `status`.
    pub fn fate(&self, status: StatusCode) -> Fate {
        self.fates[usize::from(status.as_u16()) - 100]
    }
}

// === impl StatusPattern ===

impl StatusPattern {
    fn is_exact(self) -> bool {
        matches!(self, Self::Code(_))
    }

    /// Where the pattern stands in a table that begins at 100.
    fn places(self) -> std::ops::Range<usize> {
        match self {
            Self::Code(code) => usize::from(code) - 100..usize::from(code) - 99,
            Self::Class(class) => (usize::from(class) - 1) * 100..usize::from(class) * 100,
        }
    }
}

impl FromStr for StatusPattern {
    type Err = ();

    /// Reads `200` to `599`, and `2xx` to `5xx`: what an answer can end with.
    fn from_str(text: &str) -> Result<Self, ()> {
        if !text.starts_with(|first: char| first.is_ascii_digit()) {
            // The number parser takes a sign.
            return Err(());
        }
        if let Some(class) = text.strip_suffix("xx") {
            let class = class.parse().map_err(drop)?;
            return (2..=5)
                .contains(&class)
                .then_some(Self::Class(class))
                .ok_or(());
        }
        let code = text.parse().map_err(drop)?;
        (200..=599)
            .contains(&code)
            .then_some(Self::Code(code))
            .ok_or(())
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{code}"),
            Self::Class(class) => write!(f, "{class}xx"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<StatusPattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn fate(statuses: &Statuses, code: u16) -> Fate {
        statuses.fate(StatusCode::from_u16(code).unwrap())
    }

    #[test]
    fn an_exact_code_wins_over_its_class() {
        let statuses = Statuses::new(
            &patterns(&["2xx", "503"]),
            &patterns(&["5xx", "4xx"]),
            &patterns(&["502"]),
        )
        .unwrap();
        assert_eq!(fate(&statuses, 503), Fate::Store);
        assert_eq!(fate(&statuses, 500), Fate::Release);
        assert_eq!(fate(&statuses, 499), Fate::Release);
        assert_eq!(fate(&statuses, 502), Fate::Unknown);
        assert_eq!(fate(&statuses, 999), Fate::Store);
    }

    #[test]
    fn one_code_in_two_lists_is_refused() {
        let clash = Statuses::new(&patterns(&["404"]), &patterns(&["404"]), &[]);
        assert_eq!(clash, Err(ClashingStatuses(StatusPattern::Code(404))));
        let clash = Statuses::new(&[], &patterns(&["4xx"]), &patterns(&["4xx"]));
        assert_eq!(clash, Err(ClashingStatuses(StatusPattern::Class(4))));
    }

    #[test]
    fn patterns_read_back_as_they_are_shown() {
        for text in ["200", "404", "599", "2xx", "5xx"] {
            let pattern: StatusPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), text);
        }
        for text in ["", "xx", "0xx", "10xx", "99", "1000", "4x", "4XX", "-1"] {
            assert!(text.parse::<StatusPattern>().is_err(), "{text}");
        }
        for text in ["100", "199", "600", "999", "1xx", "6xx", "+404", "+4xx"] {
            assert!(text.parse::<StatusPattern>().is_err(), "{text}");
        }
    }
}
