//! Disks that are full, files that run out, syncs that fail: at every write, once.

use std::ffi::OsStr;

use onceward_rig::tally::Tally;

use crate::victim::{Victim, shim};

#[test]
fn a_full_disk_at_any_write_loses_nothing() {
    strike_everywhere("disk full at every write", "write:ENOSPC", 1, 1);
}

#[test]
fn a_disk_that_stays_full_for_a_while_loses_nothing() {
    // Each attempt to open the store again meets the full disk once more, after a longer pause.
    strike_everywhere("disk full for a while", "write:ENOSPC", 5, 4);
}

#[test]
fn a_failed_sync_anywhere_loses_nothing() {
    strike_everywhere("failed fsync at every sync", "sync:EIO", 1, 1);
}

#[test]
fn running_out_of_files_anywhere_loses_nothing() {
    strike_everywhere("no more files at every open", "open:EMFILE", 2, 1);
}

/// How many keys a victim pays for: enough to meet every kind of write a few times.
const KEYS: usize = 48;

/// Lets a fault strike `count` calls of its kind from the first on, then further on by `step`,
/// until there is none left to strike.
fn strike_everywhere(proof: &str, fault: &str, count: u64, step: usize) {
    let temporary = tempfile::tempdir().expect("a folder for the store");
    let library = shim(temporary.path());
    let (mut trials, mut failed, mut refused) = (0, 0, 0);
    for at in (0_u64..).step_by(step) {
        let folder = temporary.path().join(format!("store-{at}"));
        let note = temporary.path().join(format!("note-{at}"));
        let orders = format!("{fault}:{at}:{count}");
        let environment: [(&str, &OsStr); 4] = [
            ("LD_PRELOAD", library.as_os_str()),
            ("FAULTS", orders.as_ref()),
            ("FAULTS_BELOW", folder.as_os_str()),
            ("FAULTS_NOTE", note.as_os_str()),
        ];
        let url = format!("embedded:{}", folder.display());
        let victim = Victim::start(&url, (0, KEYS as u64), environment);
        let (status, said) = victim.end();
        if !note.exists() {
            break;
        }
        trials += 1;
        failed += said.failed;
        match said.ready {
            // It refused to start, by name; it starts once there is room again.
            false => refused += 1,
            // It came back by itself, and every key has its answer.
            true => {
                assert!(
                    status.success(),
                    "fault {at}: the victim ended with {status}"
                );
                let settled = said.done.len() + said.unknown.len();
                assert_eq!(settled, KEYS, "fault {at}: {said:?}");
            }
        }
        said.check(&folder);
        std::fs::remove_dir_all(&folder).expect("the store is closed");
    }
    assert!(trials >= 2, "the fault struck only {trials} times");
    let note = format!("{failed} calls refused, {refused} starts refused, lost 0");
    Tally::record(proof, trials, None, 0, &note);
}
