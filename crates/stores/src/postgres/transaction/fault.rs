//! Faults: what the database said when it did not do as asked, and what follows from that.

use onceward::BoxError;
use tokio_postgres::error::Severity;

/// Why the database did not do as asked.
#[derive(Debug)]
pub enum Fault {
    /// Another transaction came in between: roll back and begin again.
    Conflict(BoxError),
    /// The row that a write counted on is not as it was, or there is one where none was.
    Missed(BoxError),
    /// The transaction is not the one in which the slot was asked for.
    Apart,
    /// The connection does not know a statement any more that was prepared on it.
    Forgotten(BoxError),
    /// The line broke, the server went away, or it did not answer in time.
    Gone(BoxError),
    /// Anything else.
    Refused(BoxError),
}

/// Why a transaction was not committed, as far as is known.
#[derive(Debug)]
pub enum Unfinished {
    /// It was not.
    No(Fault),
    /// Nobody can tell: the commit was sent, and what came back does not say.
    InDoubt(BoxError),
}

/// What a server said, whichever driver brought it.
#[derive(Debug)]
pub(super) struct Said {
    /// The SQLSTATE.
    pub(super) code: String,
    /// Whether the server ended the connection over it.
    pub(super) is_fatal: bool,
}

// === impl Fault ===

impl Fault {
    /// Sorts what was said of a statement. What has no code never came from the server.
    pub(super) fn of(said: Option<&Said>, error: BoxError) -> Self {
        let Some(said) = said else {
            return Self::Gone(error);
        };
        match &*said.code {
            _ if said.is_fatal => Self::Gone(error),
            "40001" | "40P01" => Self::Conflict(error),
            "23505" | "22012" => Self::Missed(error),
            "22P02" => Self::Apart,
            "26000" => Self::Forgotten(error),
            // The connection failed, or an operator or a shutdown cut in.
            code if code.starts_with("08") || code.starts_with("57P") => Self::Gone(error),
            _ => Self::Refused(error),
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::of(Said::by(&error).as_ref(), error.into())
    }
}

// === impl Unfinished ===

impl Unfinished {
    /// Sorts what was said of a commit. Only what the server checks before it commits proves that
    /// it did not: a constraint, a trigger or a conflict that waited for the end. All else, and
    /// whatever ended the connection, may have come after the commit was on disk.
    pub(super) fn at_commit(said: Option<&Said>, error: BoxError) -> Self {
        match said {
            Some(said) if said.is_rolled_back() => match &*said.code {
                "40001" | "40P01" => Self::No(Fault::Conflict(error)),
                _ => Self::No(Fault::Refused(error)),
            },
            _ => Self::InDoubt(error),
        }
    }

    /// What follows from the fault of a write that a commit was sent along with. A statement that
    /// fails breaks its transaction, and the commit behind it is a rollback; but where there is no
    /// word of the server about the statement, the commit may have been done.
    pub(super) fn before_commit(fault: Fault) -> Self {
        match fault {
            Fault::Gone(error) => Self::InDoubt(error),
            fault => Self::No(fault),
        }
    }
}

impl From<tokio_postgres::Error> for Unfinished {
    /// Of a commit.
    fn from(error: tokio_postgres::Error) -> Self {
        Self::at_commit(Said::by(&error).as_ref(), error.into())
    }
}

/// The SQLSTATE of an error, for logs: what the server says about callers' statements beside it
/// may hold anything of theirs.
pub(super) fn code(error: &BoxError) -> Option<String> {
    if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
        return error.code().map(|code| code.code().to_owned());
    }
    #[cfg(feature = "sqlx")]
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return error.as_database_error()?.code().map(Into::into);
    }
    None
}

// === impl Said ===

impl Said {
    /// What the server said, if it is the server's error and not the line's or the driver's.
    fn by(error: &tokio_postgres::Error) -> Option<Self> {
        let said = error.as_db_error()?;
        let severity = said.parsed_severity();
        Some(Self {
            code: said.code().code().to_owned(),
            is_fatal: matches!(severity, Some(Severity::Fatal | Severity::Panic)),
        })
    }

    /// Whether a commit of which this was said was provably rolled back.
    fn is_rolled_back(&self) -> bool {
        // The server gave the connection up, whatever else it said.
        let is_ended = self.is_fatal || ["25P03", "25P04"].contains(&&*self.code);
        let class = self.code.get(..2).unwrap_or_default();
        let is_checked = match class {
            "40" => self.code != "40003",
            // What constraints and deferred triggers run into or raise themselves.
            "21" | "22" | "23" | "25" | "27" | "2D" | "42" | "44" | "P0" => true,
            _ => false,
        };
        is_checked && !is_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_commit(code: &str, is_fatal: bool) -> Unfinished {
        let code = code.to_owned();
        Unfinished::at_commit(Some(&Said { code, is_fatal }), "said".into())
    }

    #[test]
    fn a_commit_that_was_checked_and_refused_did_not_happen() {
        for code in [
            "23505", "23503", "23514", "25006", "25P02", "40002", "2D000", "P0001", "22012",
        ] {
            let unfinished = at_commit(code, false);
            assert!(
                matches!(unfinished, Unfinished::No(Fault::Refused(_))),
                "{code}"
            );
        }
        for code in ["40001", "40P01"] {
            let unfinished = at_commit(code, false);
            assert!(
                matches!(unfinished, Unfinished::No(Fault::Conflict(_))),
                "{code}"
            );
        }
    }

    #[test]
    fn any_other_error_of_a_commit_leaves_it_in_doubt() {
        for code in [
            "08006", "08003", "57P01", "57P02", "57014", "58030", "XX000", "XX001", "53100",
            "53200", "40003", "25P03", "25P04", "", "F0000",
        ] {
            let unfinished = at_commit(code, false);
            assert!(matches!(unfinished, Unfinished::InDoubt(_)), "{code}");
        }
        let unread = Unfinished::at_commit(None, "a row that cannot be read".into());
        assert!(matches!(unread, Unfinished::InDoubt(_)));
    }

    #[test]
    fn an_error_that_ended_the_connection_leaves_a_commit_in_doubt() {
        for code in ["23505", "40001", "40P01", "P0001"] {
            let unfinished = at_commit(code, true);
            assert!(matches!(unfinished, Unfinished::InDoubt(_)), "{code}");
        }
    }

    #[test]
    fn a_write_that_failed_takes_its_commit_with_it() {
        let code = "22012".to_owned();
        let said = Said {
            code,
            is_fatal: false,
        };
        let fault = Fault::of(Some(&said), "said".into());
        let unfinished = Unfinished::before_commit(fault);
        assert!(matches!(unfinished, Unfinished::No(Fault::Missed(_))));
        let unread = Unfinished::before_commit(Fault::of(None, "unreadable".into()));
        assert!(matches!(unread, Unfinished::InDoubt(_)));
    }
}
