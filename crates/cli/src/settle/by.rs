//! In whose name a record is settled, and why: both stay in it, so both have to say something.

use std::{env, str::FromStr};

use onceward::{By, record::Note};

use onceward_gateway::units::Invalid;

use crate::exit::Failure;

/// Who settles: a name that others can ask.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Who(String);

/// Why: what was found out, and where.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Why(String);

/// The variables that hold the name of the user who is logged in.
const USER: [&str; 2] = ["USER", "LOGNAME"];

/// Returns who and why, with the user's own name if no other is given.
pub(super) fn named(who: Option<Who>, why: Why) -> Result<By, Failure> {
    let user = || {
        USER.iter()
            .find_map(|name| env::var(name).ok()?.parse().ok())
    };
    complete(who.or_else(user), why)
}

fn complete(who: Option<Who>, Why(why): Why) -> Result<By, Failure> {
    let Some(Who(who)) = who else {
        return Err(Failure::new(
            "nobody is named who settles this",
            "give --who NAME: it stays in the record",
        ));
    };
    Ok(By { who, why })
}

/// Returns `text` without the space around it, or what is wrong with it.
fn words(text: &str, max: usize, hint: &str) -> Result<String, Invalid> {
    let problem = match text.trim() {
        "" => "says nothing".into(),
        words if words.len() <= max => return Ok(words.into()),
        words => format!("has {} bytes", words.len()),
    };
    Err(Invalid::new(
        problem,
        format!("{hint}, in 1 to {max} bytes"),
    ))
}

// === impl Who ===

impl FromStr for Who {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        words(text, Note::WHO_MAX, "give a name that others can ask").map(Self)
    }
}

// === impl Why ===

impl FromStr for Why {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        words(text, Note::WHY_MAX, "say what was found out, and where").map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_needed_and_have_a_limit() {
        assert_eq!("  ann ".parse(), Ok(Who("ann".into())));
        assert!("x".repeat(Note::WHO_MAX).parse::<Who>().is_ok());
        assert!("x".repeat(Note::WHY_MAX).parse::<Why>().is_ok());
        for (text, problem) in [
            (String::new(), "says nothing"),
            (" \n".into(), "says nothing"),
            ("x".repeat(Note::WHY_MAX + 1), "has 1001 bytes"),
        ] {
            let refused = text.parse::<Why>().unwrap_err();
            assert_eq!(refused.to_string(), problem);
            assert!(text.parse::<Who>().is_err());
        }
    }

    #[test]
    fn somebody_has_to_be_named() {
        let why = Why("seen in the ledger".into());
        assert!(complete(None, why.clone()).is_err());
        let by = complete(Some(Who("ann".into())), why).unwrap();
        assert_eq!((&*by.who, &*by.why), ("ann", "seen in the ledger"));
    }
}
