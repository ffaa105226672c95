//! Cores: where callers and server run while they are measured.
//!
//! A caller waits for its server and the server for its caller, so that a scheduler may well put
//! both on one core. One message more then costs nothing but its work, one wake-up more costs
//! nothing at all, and the next run finds them on two. Kept apart they stand as they do on two
//! machines, and runs can be compared.

use std::fs;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Failed;

/// Where both sides run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// The callers on one core, the server on another.
    Apart,
    /// Wherever the scheduler puts them.
    Anywhere,
}

/// The cores that this program may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    all: CpuSet,
    callers: CpuSet,
    server: CpuSet,
}

// === impl Cores ===

impl Cores {
    /// Returns the cores, or `None` where there is only one.
    pub(super) fn find() -> Result<Option<Self>, Failed> {
        let all = sched_getaffinity(None)?;
        let mut free = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
        Ok(match (free.next(), free.next()) {
            (Some(callers), Some(server)) => Some(Self {
                all,
                callers: only(callers),
                server: only(server),
            }),
            _ => None,
        })
    }

    /// Puts all threads of this program, and the server with all its processes, in their places.
    /// What they start later is put where they are.
    pub(super) fn place(&self, placement: Placement, server: u32) -> Result<(), Failed> {
        let (callers, servers) = match placement {
            Placement::Apart => (&self.callers, &self.server),
            Placement::Anywhere => (&self.all, &self.all),
        };
        for task in fs::read_dir("/proc/self/task")? {
            put(task?.file_name().to_string_lossy().parse()?, callers)?;
        }
        put(server.cast_signed(), servers)?;
        // Those that it starts while this is read are put where it is.
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"))?;
        for child in children.split_whitespace() {
            put(child.parse()?, servers)?;
        }
        Ok(())
    }
}

fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

/// Puts a thread on some cores, unless it has ended.
fn put(thread: i32, cores: &CpuSet) -> Result<(), Failed> {
    match sched_setaffinity(Pid::from_raw(thread), cores) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(format!("a thread cannot be put on a core: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores_of(thread: Option<Pid>) -> Vec<usize> {
        let set = sched_getaffinity(thread).unwrap();
        let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
        cores.collect()
    }

    #[test]
    fn sides_are_kept_apart_and_let_go_again() {
        let Some(cores) = Cores::find().unwrap() else {
            panic!("two sides cannot be kept apart on one core");
        };
        let free = cores_of(None);
        let mut server = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Some(Pid::from_child(&server));
        cores.place(Placement::Apart, server.id()).unwrap();
        assert_eq!(cores_of(None), free[..1]);
        assert_eq!(cores_of(pid), free[1..2]);
        cores.place(Placement::Anywhere, server.id()).unwrap();
        assert_eq!((cores_of(None), cores_of(pid)), (free.clone(), free));
        server.kill().unwrap();
        server.wait().unwrap();
    }
}
