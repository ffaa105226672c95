//! Recording: real processes at work on one folder, one after the other, in one log.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::disk::Disk;
use super::log::Log;
use super::workload::Workload;

/// Records processes that work on one folder.
#[derive(Debug)]
pub struct Recorder {
    shim: PathBuf,
    program: PathBuf,
    /// What is recorded: the store lies in here.
    disk: PathBuf,
    log: PathBuf,
}

// === impl Recorder ===

impl Recorder {
    /// Compiles the shim that records into `folder`.
    pub fn compile(folder: &Path) -> io::Result<PathBuf> {
        let shim = folder.join("record.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/record.c");
        let compiled = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([&shim, &source])
            .arg("-lpthread")
            .status()?;
        match compiled.success() {
            true => Ok(shim),
            false => Err(io::Error::other("the recorder does not compile")),
        }
    }

    /// Begins a log of the folder `disk`, with whatever is in it and `said` about that;
    /// `program` is the one to run.
    pub fn begin(
        shim: &Path,
        program: &Path,
        disk: &Path,
        log: &Path,
        said: &[String],
    ) -> io::Result<Self> {
        fs::create_dir_all(disk)?;
        Log::begin(log, disk, said)?;
        Ok(Self {
            shim: shim.to_owned(),
            program: program.to_owned(),
            disk: disk.canonicalize()?,
            log: log.to_owned(),
        })
    }

    /// Lets a process do that work on the store in the folder.
    pub fn run(&self, workload: Workload, seed: u64) -> io::Result<ExitStatus> {
        let store = self.disk.join("store");
        Command::new(&self.program)
            .args(["record", workload.name()])
            .arg(store)
            .arg(seed.to_string())
            .env("LD_PRELOAD", &self.shim)
            .env("RECORD_BELOW", &self.disk)
            .env("RECORD_LOG", &self.log)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    }

    /// The folder that is recorded.
    pub fn disk(&self) -> &Path {
        &self.disk
    }
}

/// Says where a log and the folder it is of differ: nowhere, or something was not recorded.
pub fn compare(log: &Log, folder: &Path) -> io::Result<Vec<String>> {
    let mut disk = Disk::new(log);
    for change in &log.changes {
        disk.apply(log, change);
    }
    let told = disk.read();
    let mut found = BTreeMap::new();
    read(folder, "", &mut found)?;
    let names = told.keys().chain(found.keys());
    let mut differ: Vec<String> = names
        .filter(|name| told.get(*name) != found.get(*name))
        .cloned()
        .collect();
    differ.dedup();
    Ok(differ)
}

/// Every file in a folder: its size, and its bytes without the zeros behind them.
fn read(folder: &Path, path: &str, found: &mut BTreeMap<String, (u64, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let below = format!("{path}{}", entry.file_name().to_string_lossy());
        if entry.metadata()?.is_dir() {
            read(&entry.path(), &format!("{below}/"), found)?;
            continue;
        }
        let bytes = fs::read(entry.path())?;
        found.insert(below, (bytes.len() as u64, without_zeros(bytes)));
    }
    Ok(())
}

pub(super) fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(last.map_or(0, |last| last + 1));
    bytes
}
