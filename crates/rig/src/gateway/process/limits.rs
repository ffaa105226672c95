//! What a process may take, and what it has taken.

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use super::Gateway;

// === impl Gateway ===

impl Gateway {
    /// Lets no file grow beyond its first byte, so that the store cannot write, or lets them grow
    /// again.
    pub fn fail_writes(&self, fail: bool) {
        self.limit(Resource::Fsize, fail.then_some(1));
    }

    /// Lets it have this many files and connections open, or as many as this process may.
    pub fn limit_files(&self, most: Option<u64>) {
        self.limit(Resource::Nofile, most);
    }

    /// Lets it have this many bytes of address space, or any number.
    pub fn limit_space(&self, most: Option<u64>) {
        self.limit(Resource::As, most);
    }

    fn limit(&self, resource: Resource, current: Option<u64>) {
        // Only the lower limit moves, so that it can be raised again.
        let Rlimit { maximum, .. } = getrlimit(resource);
        let current = current.or(maximum);
        let limit = Rlimit { current, maximum };
        prlimit(Some(self.pid), resource, limit).expect("the limits of a child can be set");
    }

    /// How much memory it has, and had at its most, in bytes.
    pub fn memory(&self) -> (u64, u64) {
        let status = self.status();
        (kib(&status, "VmRSS:"), kib(&status, "VmHWM:"))
    }

    /// How much address space it has, in bytes.
    pub fn space(&self) -> u64 {
        kib(&self.status(), "VmSize:")
    }

    /// How many files and connections it has open.
    pub fn open_files(&self) -> usize {
        let path = format!("/proc/{}/fd", self.pid.as_raw_nonzero());
        std::fs::read_dir(path).map_or(0, Iterator::count)
    }

    /// What the system tells of it, all at one moment: a process may become another program between
    /// two looks. Empty once it has ended.
    fn status(&self) -> String {
        let path = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

/// A number of a status, which is in KiB there; 0 if it is not there.
fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
