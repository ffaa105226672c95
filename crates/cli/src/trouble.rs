//! Trouble with a store: what the library says, told to an operator with what to do next.

use onceward::{Error, store};
pub(crate) use onceward_gateway::in_one_line;

use crate::exit::Failure;

/// Returns the failure that `error` is for an operator.
pub(crate) fn of(error: &Error) -> Failure {
    Failure::new(in_one_line(error), hint(error))
}

fn hint(error: &Error) -> &'static str {
    match error {
        Error::WrongSecret | Error::NoSecret => {
            "set ONCEWARD_SECRET, or ONCEWARD_SECRET_FILE, to what the service runs with"
        }
        Error::Store(store::Error::Unreadable { .. }) => {
            "upgrade onceward if a newer one wrote it; otherwise restore a backup, or see what \
             can be saved with onceward repair --dry-run"
        }
        Error::Store(store::Error::Full { .. }) => {
            "make room on the disk, or remove what has expired with onceward sweep"
        }
        Error::Store(store::Error::Unavailable {
            store: "postgres", ..
        }) => "look at the database with onceward doctor, then look again with onceward inspect",
        Error::Store(store::Error::Unavailable { store: "redis", .. }) => {
            "look at the server with onceward doctor, then look again with onceward inspect"
        }
        // What is left is a store that did not answer; a write may have happened all the same.
        _ => "look at the disk and the system's log, then look again with onceward inspect",
    }
}

#[cfg(test)]
mod tests {
    use onceward::SlotId;

    use super::*;

    #[test]
    fn hints_tell_troubles_apart() {
        let unreadable = store::Error::Unreadable {
            slot: SlotId::RESERVED,
            source: "format version 9".into(),
        };
        assert!(hint(&unreadable.into()).contains("upgrade"));
        assert!(hint(&Error::WrongSecret).contains("ONCEWARD_SECRET_FILE"));
        assert!(hint(&Error::Closing).contains("inspect"));
    }
}
