//! Damage: what was synced does not read back as it was written.

use std::sync::Arc;

use fastrand::Rng;

use super::SECTOR;
use super::disk::{Content, Disk};
use super::image::Image;

/// What a disk did to one file that it had taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ailment {
    /// A bit is another one.
    Flipped(String, usize),
    /// A sector is empty.
    Zeroed(String, usize),
    /// It ends there.
    Cut(String, usize),
    /// It is not there.
    Missing(String),
}

// === impl Ailment ===

impl Ailment {
    /// Harms a file of `image`, which has to be one of which nothing was left to chance.
    ///
    /// Returns `None` where the harm is one that no store can tell from a power loss: a newest
    /// journal that ends earlier, or in a last batch that is not whole, where HEAD does not know
    /// of that yet.
    pub fn strike(disk: &Disk, image: &mut Image, rng: &mut Rng) -> Option<Self> {
        let mut files = image.files(disk);
        files.retain(|(path, _)| path.starts_with("store/") && !path.ends_with("/LOCK"));
        let (path, node) = rng.choice(files)?;
        let content = image.content(disk, node)?.clone();
        let len = content.bytes.len();
        let at = rng.usize(..len.max(1));
        let (ailment, content) = match rng.u8(..4) {
            0 => (Self::Missing(path.clone()), None),
            1 if len > 0 => (Self::Cut(path.clone(), at), Some(cut(content, at))),
            2 if len > 0 => {
                let at = at / SECTOR * SECTOR;
                (Self::Zeroed(path.clone(), at), Some(zero(content, at)))
            }
            _ if len > 0 => (
                Self::Flipped(path.clone(), at),
                Some(flip(content, at, rng)),
            ),
            _ => return None,
        };
        if ailment.is_beyond_head(disk, image, node) {
            return None;
        }
        match content {
            Some(content) => drop(image.changed.insert(node, content)),
            None => image.names.forget(node),
        }
        Some(ailment)
    }

    /// Whether it is in the newest journal, behind what HEAD knows of: there the end of the
    /// journal is all there is to go by.
    fn is_beyond_head(&self, disk: &Disk, image: &Image, node: usize) -> bool {
        let (Self::Missing(path)
        | Self::Cut(path, _)
        | Self::Zeroed(path, _)
        | Self::Flipped(path, _)) = self;
        let Some(journal) = journal(path) else {
            return false;
        };
        let files = image.files(disk);
        let newest = files
            .iter()
            .filter_map(|(path, _)| self::journal(path))
            .max();
        let (known, length) = head(disk, image, &files).unwrap_or_default();
        let known = if known == journal { length } else { 0 };
        let last_batch = disk.file(node).map_or(0, |file| file.before_last);
        newest == Some(journal)
            && match self {
                Self::Missing(_) => known == 0,
                Self::Cut(_, at) => *at >= known,
                // A batch behind it proves that it was synced.
                Self::Zeroed(_, at) => at + SECTOR > known.max(last_batch),
                Self::Flipped(_, at) => *at >= known.max(last_batch),
            }
    }
}

/// The number of a journal, by its path.
fn journal(path: &str) -> Option<u64> {
    let name = path.strip_prefix("store/data/")?;
    name.strip_suffix(".jnl")?.parse().ok()
}

/// The journal and the length that HEAD knows of.
fn head(disk: &Disk, image: &Image, files: &[(String, usize)]) -> Option<(u64, usize)> {
    let (_, node) = files.iter().find(|(path, _)| path == "store/HEAD")?;
    let text = str::from_utf8(&image.content(disk, *node)?.bytes).ok()?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    Some((number("journal ")?, number("length ")? as usize))
}

fn cut(mut content: Content, at: usize) -> Content {
    content.resize(at as u64);
    content
}

fn zero(mut content: Content, at: usize) -> Content {
    let end = (at + SECTOR).min(content.bytes.len());
    Arc::make_mut(&mut content.bytes)[at..end].fill(0);
    content
}

fn flip(mut content: Content, at: usize, rng: &mut Rng) -> Content {
    Arc::make_mut(&mut content.bytes)[at] ^= 1 << rng.u8(..8);
    content
}
