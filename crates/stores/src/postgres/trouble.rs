//! Trouble: what the server or the line to it said, and what follows from that.

use std::fmt;
use std::sync::Arc;

use onceward::bugs::{Bug, seeded};
use onceward::store::Error;
use tokio_postgres::error::SqlState;

use super::SERVER;
use super::{Settings, tls};
use crate::OpenError;

/// Why a call was not answered. All callers of a batch get the same.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    what: What,
    text: Arc<str>,
}

/// What follows from an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Nothing was written, and it may work when it is tried again: a lock, a deadlock, a
    /// statement that took too long.
    Again,
    /// Nothing was written, and trying again does not help.
    Refused,
    /// There is no room. Nothing was written.
    Full,
    /// The server takes no writes any more: another one may.
    Demoted,
    /// Nobody knows what was written, and the connection is of no use.
    Lost,
}

// === impl Trouble ===

impl Trouble {
    /// Nothing came back, for this reason.
    pub(super) fn lost(why: impl fmt::Display) -> Self {
        Self {
            what: What::Lost,
            text: why.to_string().into(),
        }
    }

    /// Sorts what the driver said about a statement.
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        let what = match error.as_db_error() {
            Some(said) if is_fatal(said) => What::Lost,
            Some(said) => sort(said.code()),
            // A row or parameter that cannot be read leaves the connection as it is, but whether
            // something was written is not known.
            None if seeded(Bug::LossTakenForRollback) => What::Again,
            None => What::Lost,
        };
        Self {
            what,
            text: words(error).into(),
        }
    }

    pub(super) fn what(&self) -> What {
        self.what
    }

    /// The error for a caller.
    pub(super) fn into_error(self, is_claim: bool) -> Error {
        match self.what {
            What::Full if is_claim => Error::Full {
                store: super::KIND,
                why: self.text.as_ref().to_owned(),
            },
            _ => Error::unavailable(super::KIND, self.text.as_ref().to_owned()),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What follows from an error of this code, if the connection lives on: the statement was rolled
/// back, for each is a transaction of its own.
pub(super) fn sort(code: &SqlState) -> What {
    match *code {
        SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE => What::Again,
        SqlState::READ_ONLY_SQL_TRANSACTION => What::Demoted,
        SqlState::DISK_FULL => What::Full,
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN => What::Lost,
        // Connections, and the server's inner matters.
        _ if ["08", "57", "58", "XX"].contains(&class(code)) => What::Lost,
        _ => What::Refused,
    }
}

fn class(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or("")
}

/// Whether this is the end of a connection, and no word about what was asked.
pub(super) fn is_end(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none_or(is_fatal)
}

fn is_fatal(said: &tokio_postgres::error::DbError) -> bool {
    use tokio_postgres::error::Severity;
    // Not the word for it, which is in the language of the server.
    matches!(
        said.parsed_severity(),
        Some(Severity::Fatal | Severity::Panic)
    )
}

/// What was said, with its causes, on one line.
pub(super) fn words(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return match said.detail() {
            Some(detail) => format!("{} ({detail})", said.message()),
            None => said.message().to_owned(),
        };
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// Sorts why the store could not be opened: each a different thing to do.
pub(super) fn refusal(settings: &Settings, error: &tokio_postgres::Error) -> OpenError {
    let place = settings.place();
    let Some(said) = error.as_db_error() else {
        return unanswered(settings, error);
    };
    let source = said.message().to_owned();
    match *said.code() {
        // It asks for a certificate, and got none or another's.
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION if source.contains("certificate") => {
            OpenError::Tls {
                server: SERVER,
                place,
                why: source,
            }
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            OpenError::Password {
                server: SERVER,
                place,
                user: settings.user().to_owned(),
                why: source,
            }
        }
        SqlState::INVALID_CATALOG_NAME => OpenError::NoDatabase {
            place,
            database: settings.database().to_owned(),
        },
        SqlState::INSUFFICIENT_PRIVILEGE => OpenError::Rights {
            place,
            user: settings.user().to_owned(),
            why: source,
        },
        SqlState::READ_ONLY_SQL_TRANSACTION => OpenError::ReadOnly {
            server: SERVER,
            place,
        },
        SqlState::CANNOT_CONNECT_NOW | SqlState::TOO_MANY_CONNECTIONS => OpenError::Unreachable {
            server: SERVER,
            place,
            source: source.into(),
        },
        _ => OpenError::Server {
            server: SERVER,
            place,
            why: source,
        },
    }
}

fn unanswered(settings: &Settings, error: &tokio_postgres::Error) -> OpenError {
    let place = settings.place();
    let text = error.to_string();
    let words = words(error);
    // An alert may come after the handshake, and is no trouble of the network then either.
    if let Some(why) = tls::words(error) {
        return OpenError::Tls {
            server: SERVER,
            place,
            why,
        };
    }
    // The driver has no other way to tell the kinds apart.
    match text.as_str() {
        _ if text.contains("TLS") => OpenError::Tls {
            server: SERVER,
            place,
            why: words,
        },
        _ if words.contains("password missing") || words.contains("invalid configuration") => {
            OpenError::Password {
                server: SERVER,
                place,
                user: settings.user().to_owned(),
                why: "it asks for a password, and none was given".to_owned(),
            }
        }
        _ => OpenError::Unreachable {
            server: SERVER,
            place,
            source: words.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rolled_back_for_a_lock_is_tried_again() {
        for code in ["55P03", "40P01", "40001", "57014"] {
            assert_eq!(sort(&SqlState::from_code(code)), What::Again, "{code}");
        }
    }

    #[test]
    fn a_commit_that_nobody_knows_of_is_lost() {
        for code in [
            "40003", "57P01", "57P02", "57P03", "08006", "08003", "58030", "XX000",
        ] {
            assert_eq!(sort(&SqlState::from_code(code)), What::Lost, "{code}");
        }
    }

    #[test]
    fn what_is_wrong_by_itself_is_refused() {
        for code in ["42P01", "42501", "22001", "23514", "53200"] {
            assert_eq!(sort(&SqlState::from_code(code)), What::Refused, "{code}");
        }
        assert_eq!(sort(&SqlState::from_code("53100")), What::Full);
        assert_eq!(sort(&SqlState::from_code("25006")), What::Demoted);
    }
}
