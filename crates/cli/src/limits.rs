//! The limits that the system sets to this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files, and so of connections, that this process may have open as far as
/// the system lets it. A gateway needs two for each request under way.
pub(crate) fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Refused at worst, and then things stay as they were.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
}

/// How many files this process may have open; `None` is any number.
pub(crate) fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
