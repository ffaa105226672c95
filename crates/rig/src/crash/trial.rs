//! Trials: one image each, named by a cut and a seed, so that each can be repeated.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tokio::runtime::{Builder, Runtime};

use super::damage::Ailment;
use super::disk::Disk;
use super::image::{Fate, Image, Workshop};
use super::log::{Change, Log, NotALog};
use super::promise::{Mark, Promise};
use super::verify::{self, Came};

/// A log, gone through from its beginning: images can be drawn wherever it stands.
#[derive(Clone, Debug)]
pub struct Trial {
    log: Arc<Log>,
    /// Its lines, by where they stand.
    marks: Arc<BTreeMap<usize, Mark>>,
    disk: Disk,
    promise: Promise,
    /// How many changes have been made.
    at: usize,
}

/// What became of the images so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How often each kind of image came to what.
    pub kinds: BTreeMap<String, u64>,
    /// How often each log was met.
    pub recordings: BTreeMap<&'static str, u64>,
    /// How many records had to be there in all.
    pub promised: u64,
}

/// A promise that was broken.
#[derive(Debug)]
pub struct Violation {
    /// How many changes of the log had been made.
    pub cut: usize,
    /// What decided the rest.
    pub seed: u64,
    /// The image, kept.
    pub folder: PathBuf,
    /// What kind of image it is.
    pub kind: String,
    /// What is wrong.
    pub what: String,
}

// === impl Trial ===

impl Trial {
    /// Begins at the beginning.
    pub fn new(log: Arc<Log>) -> Result<Self, NotALog> {
        let mut marks = BTreeMap::new();
        for (at, change) in log.changes.iter().enumerate() {
            if let Change::Said(line) = change {
                let mark = Mark::parse(log.bytes(line)).ok_or(NotALog::Event(at))?;
                marks.insert(at, mark);
            }
        }
        Ok(Self {
            disk: Disk::new(&log),
            log,
            marks: Arc::new(marks),
            promise: Promise::default(),
            at: 0,
        })
    }

    /// Goes on until `cut` changes have been made, or all of them.
    pub fn advance(&mut self, cut: usize) {
        while self.at < cut.min(self.log.changes.len()) {
            match self.marks.get(&self.at) {
                Some(mark) => self.promise.note(mark),
                None => self.disk.apply(&self.log, &self.log.changes[self.at]),
            }
            self.at += 1;
        }
    }

    /// How many changes have been made.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The disk where the log stands.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What was promised by then.
    pub fn promise(&self) -> &Promise {
        &self.promise
    }

    /// Cuts the power here, and opens what that leaves.
    pub fn power_loss(
        &self,
        workshop: &mut Workshop,
        seed: u64,
        seen: &mut Seen,
    ) -> Result<(), Violation> {
        let mut rng = Rng::with_seed(seed);
        let image = Image::draw(&self.disk, &self.log, &mut rng);
        let folder = self.build(workshop, &image);
        let fate = image.fate;
        let came = guarded(|runtime| match fate {
            Fate::Garbled => runtime.block_on(verify::never_silent(&folder, &self.promise)),
            _ => runtime.block_on(verify::whole(&folder, &self.promise, &mut rng)),
        });
        self.judge(folder, format!("{fate:?}"), seed, came, seen)
    }

    /// Cuts the power here, harms a file that was synced, and opens what that leaves. Returns
    /// whether there was something to harm.
    pub fn damage(
        &self,
        workshop: &mut Workshop,
        seed: u64,
        seen: &mut Seen,
    ) -> Result<bool, Violation> {
        let mut rng = Rng::with_seed(seed);
        let mut image = Image::with_fate(&self.disk, &self.log, Fate::Lost, &mut rng);
        let Some(ailment) = Ailment::strike(&self.disk, &mut image, &mut rng) else {
            return Ok(false);
        };
        let folder = self.build(workshop, &image);
        let came =
            guarded(|runtime| runtime.block_on(verify::never_silent(&folder, &self.promise)));
        let kind = format!("{ailment:?}");
        self.judge(folder, kind, seed, came, seen).map(|()| true)
    }

    fn build(&self, workshop: &mut Workshop, image: &Image) -> PathBuf {
        let built = workshop.build(&self.disk, image);
        built.expect("images can be built")
    }

    fn judge(
        &self,
        folder: PathBuf,
        kind: String,
        seed: u64,
        came: Result<Came, String>,
        seen: &mut Seen,
    ) -> Result<(), Violation> {
        let cut = self.at;
        match came {
            Err(what) => Err(Violation {
                cut,
                seed,
                folder,
                kind,
                what,
            }),
            Ok(came) => {
                fs::remove_dir_all(&folder).expect("the image is closed");
                let word = kind.split('(').next().unwrap_or_default();
                let kind = format!("{word} {came:?}").to_lowercase();
                *seen.kinds.entry(kind).or_default() += 1;
                seen.promised += self.promise.promised();
                Ok(())
            }
        }
    }
}

/// Runs `check`, and takes a panic for an answer.
fn guarded(check: impl FnOnce(&Runtime) -> Result<Came, String>) -> Result<Came, String> {
    let runtime = Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime starts");
    let checked = panic::catch_unwind(AssertUnwindSafe(|| check(&runtime)));
    checked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref().map(|text: &&str| (*text).to_owned()));
        Err(format!("it panicked: {}", text.unwrap_or_default()))
    })
}

// === impl Seen ===

impl Seen {
    /// How many images were opened.
    pub fn images(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// How many of the images came to `what`, whatever their kind.
    pub fn count(&self, what: &str) -> u64 {
        let counts = self.kinds.iter().filter(|(kind, _)| kind.contains(what));
        counts.map(|(_, count)| count).sum()
    }

    /// Notes that an image of that recording was opened.
    pub fn met(&mut self, recording: &'static str) {
        *self.recordings.entry(recording).or_default() += 1;
    }

    /// Adds what others saw.
    pub fn merge(&mut self, other: Self) {
        for (recording, count) in other.recordings {
            *self.recordings.entry(recording).or_default() += count;
        }
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        self.promised += other.promised;
    }
}

// === impl Violation ===

impl Violation {
    /// Moves the image to a folder where it stays, beside the log it is of.
    pub fn keep(&self, log: &Path, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::copy(log, folder.join("log"))?;
        copy(&self.folder, &folder.join("image"))?;
        fs::remove_dir_all(&self.folder)
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.metadata()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}
