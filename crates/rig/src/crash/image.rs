//! Images: one of the folders that a power loss may leave.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;

use super::SECTOR;
use super::disk::{Content, Disk, Edit, FileNode, Names};
use super::log::Log;

/// What became of that which was not durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Fate {
    /// None of it reached the disk.
    Lost,
    /// All of it did, as after a kill.
    Kept,
    /// Some of it, in the order in which names changed.
    Mixed,
    /// Some of it, in any order.
    Shuffled,
    /// Some of it, and some of that garbled.
    Garbled,
}

/// A folder as it is after a power loss.
#[derive(Debug)]
pub struct Image {
    pub(super) fate: Fate,
    pub(super) names: Names,
    /// The files that are not as they are durable.
    pub(super) changed: HashMap<usize, Content>,
}

/// Where images are built: what they share is written once.
#[derive(Debug)]
pub struct Workshop {
    folder: PathBuf,
    /// Files that the store never writes to again, by what is in them.
    shelf: HashMap<(usize, u32), PathBuf>,
    built: u64,
}

// === impl Image ===

impl Image {
    /// Decides by `rng` what a power loss leaves of `disk`.
    pub fn draw(disk: &Disk, log: &Log, rng: &mut Rng) -> Self {
        let fate = match rng.u8(..16) {
            0 => Fate::Lost,
            1 => Fate::Kept,
            2..8 => Fate::Mixed,
            8..14 => Fate::Shuffled,
            _ => Fate::Garbled,
        };
        Self::with_fate(disk, log, fate, rng)
    }

    /// Decides by `rng` what a power loss with this `fate` leaves of `disk`.
    pub fn with_fate(disk: &Disk, log: &Log, fate: Fate, rng: &mut Rng) -> Self {
        let open = disk.names.len();
        let until = rng.usize(..=open);
        let likely = rng.f32();
        let names = disk.names(|at| match fate {
            Fate::Lost => false,
            Fate::Kept => true,
            Fate::Mixed | Fate::Garbled => at < until,
            Fate::Shuffled => rng.f32() < likely,
        });
        let mut image = Self {
            fate,
            names,
            changed: HashMap::new(),
        };
        image.fill(disk, log, Names::ROOT, rng);
        image
    }

    /// Decides about the files below a folder.
    fn fill(&mut self, disk: &Disk, log: &Log, folder: usize, rng: &mut Rng) {
        let nodes: Vec<usize> = self.names.of(folder).values().copied().collect();
        for node in nodes {
            match disk.file(node) {
                None => self.fill(disk, log, node, rng),
                Some(file) if file.pending.is_empty() => {}
                Some(file) => {
                    let content = match self.fate {
                        Fate::Lost => file.durable.clone(),
                        Fate::Kept => file.live.clone(),
                        Fate::Mixed | Fate::Shuffled => mix(file, log, rng),
                        Fate::Garbled => garble(file, mix(file, log, rng), log, rng),
                    };
                    self.changed.insert(node, content);
                }
            }
        }
    }

    /// Every file in it: its path, which one it is.
    pub(super) fn files(&self, disk: &Disk) -> Vec<(String, usize)> {
        let mut files = Vec::new();
        self.walk(disk, Names::ROOT, "", &mut files);
        files
    }

    fn walk(&self, disk: &Disk, folder: usize, path: &str, files: &mut Vec<(String, usize)>) {
        for (name, node) in self.names.of(folder) {
            let below = format!("{path}{name}");
            match disk.file(*node) {
                Some(_) => files.push((below, *node)),
                None => self.walk(disk, *node, &format!("{below}/"), files),
            }
        }
    }

    /// The content of a file in it.
    pub(super) fn content<'a>(&'a self, disk: &'a Disk, node: usize) -> Option<&'a Content> {
        let changed = self.changed.get(&node);
        changed.or_else(|| disk.file(node).map(|file| &file.durable))
    }
}

/// Some of what was written to a file since its last sync.
fn mix(file: &FileNode, log: &Log, rng: &mut Rng) -> Content {
    match rng.u8(..6) {
        0 => file.durable.clone(),
        1 => file.live.clone(),
        2 => torn(file, log, rng),
        3 => some(file, log, rng),
        4 => sectors(file, rng),
        _ => {
            // The size came, the bytes did not.
            let mut content = file.durable.clone();
            content.resize(file.live.size);
            content
        }
    }
}

/// The first edits, the last of them only in part.
fn torn(file: &FileNode, log: &Log, rng: &mut Rng) -> Content {
    let mut content = file.durable.clone();
    let last = rng.usize(..file.pending.len());
    for (_, edit) in &file.pending[..last] {
        content.apply(log, edit);
    }
    if let (_, Edit::Write(at, range)) = &file.pending[last] {
        let (at, bytes) = (*at as usize, log.bytes(range));
        let likely = rng.f32();
        let mut from = 0;
        while from < bytes.len() {
            let to = ((at + from) / SECTOR + 1) * SECTOR - at;
            let to = to.min(bytes.len());
            if rng.f32() < likely {
                content.write(at + from, &bytes[from..to]);
            }
            from = to;
        }
    }
    content
}

/// Some of the edits, without those before them. What was written to the same sector before comes
/// with them: a disk gets a sector as the system has it.
fn some(file: &FileNode, log: &Log, rng: &mut Rng) -> Content {
    let (mut content, mut all) = (file.durable.clone(), file.durable.clone());
    let likely = rng.f32();
    for (_, edit) in &file.pending {
        all.apply(log, edit);
        if rng.f32() >= likely {
            continue;
        }
        match edit {
            Edit::Write(at, range) => {
                let at = *at as usize;
                let end = at + log.bytes(range).len();
                let from = at / SECTOR * SECTOR;
                content.write(from, all.stretch(from..end.next_multiple_of(SECTOR)));
            }
            Edit::Resize(_) => content.apply(log, edit),
        }
    }
    content
}

/// Each sector as it was or as it should be, and a size of either time or between the two.
fn sectors(file: &FileNode, rng: &mut Rng) -> Content {
    let (old, new) = (&file.durable, &file.live);
    let size = match rng.u8(..3) {
        0 => old.size,
        1 => new.size,
        _ => rng.u64(old.size.min(new.size)..=old.size.max(new.size)),
    };
    let likely = rng.f32();
    let mut content = Content::default();
    for from in (0..old.bytes.len().max(new.bytes.len())).step_by(SECTOR) {
        let range = from..from + SECTOR;
        let (before, after) = (old.stretch(range.clone()), new.stretch(range));
        let is_new = before != after && rng.f32() < likely;
        content.write(from, if is_new { after } else { before });
    }
    content.resize(size);
    content
}

/// Flips bits of what was written and not synced.
fn garble(file: &FileNode, mut content: Content, log: &Log, rng: &mut Rng) -> Content {
    for _ in 0..rng.usize(1..4) {
        let (_, edit) = &file.pending[rng.usize(..file.pending.len())];
        let Edit::Write(at, range) = edit else {
            continue;
        };
        if range.is_empty() {
            continue;
        }
        let at = *at as usize + rng.usize(..log.bytes(range).len());
        // Where something durable lies, a write of the same sector does not harm it.
        let is_fresh = file.durable.bytes.get(at).is_none_or(|byte| *byte == 0);
        if is_fresh && at < content.bytes.len() {
            Arc::make_mut(&mut content.bytes)[at] ^= 1 << rng.u8(..8);
        }
    }
    content
}

// === impl Workshop ===

impl Workshop {
    /// A workshop in an empty folder.
    pub fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder.join("shelf"))?;
        Ok(Self {
            folder: folder.to_owned(),
            shelf: HashMap::new(),
            built: 0,
        })
    }

    /// Forgets what images of another log shared.
    pub fn clear(&mut self) -> io::Result<()> {
        for (_, path) in self.shelf.drain() {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Builds an image in a folder of its own.
    pub fn build(&mut self, disk: &Disk, image: &Image) -> io::Result<PathBuf> {
        self.built += 1;
        let folder = self.folder.join(self.built.to_string());
        fs::create_dir(&folder)?;
        self.build_folder(disk, image, Names::ROOT, &folder, false)?;
        Ok(folder)
    }

    fn build_folder(
        &mut self,
        disk: &Disk,
        image: &Image,
        node: usize,
        at: &Path,
        is_shared: bool,
    ) -> io::Result<()> {
        for (name, node) in image.names.of(node) {
            let path = at.join(name);
            match image.content(disk, *node) {
                None => {
                    fs::create_dir(&path)?;
                    let is_shared = name == "tables" || name == "blobs";
                    self.build_folder(disk, image, *node, &path, is_shared)?;
                }
                Some(_) if is_shared && !image.changed.contains_key(node) => {
                    let version = disk.file(*node).map_or(0, |file| file.version);
                    fs::hard_link(self.shelved(disk, *node, version)?, &path)?;
                }
                Some(content) => content.write_to(&path)?,
            }
        }
        Ok(())
    }

    fn shelved(&mut self, disk: &Disk, node: usize, version: u32) -> io::Result<PathBuf> {
        if let Some(path) = self.shelf.get(&(node, version)) {
            return Ok(path.clone());
        }
        let path = self.folder.join(format!("shelf/{node}-{version}"));
        if let Some(file) = disk.file(node) {
            file.durable.write_to(&path)?;
        }
        self.shelf.insert((node, version), path.clone());
        Ok(path)
    }
}

// === impl Content ===

impl Content {
    fn write_to(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.write_all_at(&self.bytes, 0)?;
        match self.size == self.bytes.len() as u64 {
            true => Ok(()),
            false => file.set_len(self.size),
        }
    }
}
