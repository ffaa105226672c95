//! HEAD: a small file that remembers what was acknowledged, so that an open which finds less
//! refuses instead of forgetting.
//!
//! Lines of text with a checksum as the last one. It is replaced as a whole: written beside,
//! synced, renamed, and the folder synced.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use onceward::Timestamp;
use onceward::bugs::{Bug, seeded};

/// What HEAD remembers: a lower bound of what the folder holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// Which opening of the store this is, from 1.
    pub(super) epoch: u64,
    /// The highest acknowledged batch.
    pub(super) sequence: u64,
    /// The store's clock when this was noted: the clock never starts before it.
    pub(super) stamp: Timestamp,
    /// No list of live claims is older than this moment.
    pub(super) claims: Timestamp,
    /// Nothing is left that expired before this moment.
    pub(super) swept: Timestamp,
    /// The newest journal, and how many bytes of it were acknowledged.
    pub(super) journal: u64,
    pub(super) length: u64,
    /// Whether batches were synced before they were acknowledged.
    pub(super) synced: bool,
}

/// Why a HEAD cannot be used.
#[derive(Debug)]
pub(super) enum Unusable {
    Io(io::Error),
    /// It is missing, or its checksum does not match.
    Damaged,
    Newer {
        found: u32,
    },
}

const TITLE: &str = "onceward-head";
const VERSION: u32 = 1;

// === impl Head ===

impl Head {
    pub(super) const FILE: &'static str = "HEAD";

    /// Reads the HEAD of the store in `folder`.
    pub(super) fn read(folder: &Path) -> Result<Self, Unusable> {
        let bytes = match fs::read(folder.join(Self::FILE)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unusable::Damaged),
            Err(error) => return Err(Unusable::Io(error)),
        };
        let text = checked(&bytes).ok_or(Unusable::Damaged)?;
        let (title, fields) = text.split_once('\n').ok_or(Unusable::Damaged)?;
        match title.strip_prefix(TITLE).map(|it| it.trim().parse()) {
            Some(Ok(VERSION)) => Self::parse(fields).ok_or(Unusable::Damaged),
            Some(Ok(found)) if found > VERSION => Err(Unusable::Newer { found }),
            _ => Err(Unusable::Damaged),
        }
    }

    /// Replaces the HEAD of the store in `folder`. Returns once that is durable.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        replace(folder, Self::FILE, &self.to_text())
    }

    fn to_text(self) -> String {
        let Self {
            epoch,
            sequence,
            stamp,
            claims,
            swept,
            journal,
            length,
            synced,
        } = self;
        let (stamp, claims, swept) = (stamp.as_micros(), claims.as_micros(), swept.as_micros());
        let durability = if synced { "disk" } else { "os" };
        summed(format!(
            "{TITLE} {VERSION}\nepoch {epoch}\nsequence {sequence}\nstamp {stamp}\n\
             claims {claims}\nswept {swept}\njournal {journal}\nlength {length}\n\
             durability {durability}\n"
        ))
    }

    fn parse(fields: &str) -> Option<Self> {
        let mut lines = fields.lines();
        let mut text = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let mut number = |name: &str| text(name)?.parse::<u64>().ok();
        Some(Self {
            epoch: number("epoch")?,
            sequence: number("sequence")?,
            stamp: Timestamp::from_micros(number("stamp")?),
            claims: Timestamp::from_micros(number("claims")?),
            swept: Timestamp::from_micros(number("swept")?),
            journal: number("journal")?,
            length: number("length")?,
            synced: match text("durability")? {
                "disk" => true,
                "os" => false,
                _ => return None,
            },
        })
    }
}

/// `text` with its checksum behind it.
pub(super) fn summed(mut text: String) -> String {
    let sum = crc32fast::hash(text.as_bytes());
    writeln!(text, "crc {sum:08x}").expect("a String takes whatever is written to it");
    text
}

/// The text before the checksum, if the two match.
pub(super) fn checked(bytes: &[u8]) -> Option<&str> {
    let text = str::from_utf8(bytes).ok()?;
    let (body, sum) = text.split_at_checked(text.len().checked_sub("crc 01234567\n".len())?)?;
    let expected = format!("crc {:08x}\n", crc32fast::hash(body.as_bytes()));
    (sum == expected).then_some(body)
}

/// Puts `text` in place of a file as a whole: after a crash there is the old one or the new one.
pub(super) fn replace(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let beside = folder.join(format!("{name}.new"));
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, folder.join(name))?;
    sync_folder(folder)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if seeded(Bug::FolderFsyncSkipped) {
        return Ok(());
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        epoch: 3,
        sequence: 77,
        stamp: Timestamp::from_micros(1_777_000_000),
        claims: Timestamp::from_micros(1_776_000_000),
        swept: Timestamp::ZERO,
        journal: 2,
        length: 4711,
        synced: true,
    };

    #[test]
    fn a_head_reads_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        for synced in [true, false] {
            let head = Head { synced, ..HEAD };
            head.write(folder.path()).unwrap();
            assert_eq!(Head::read(folder.path()).unwrap(), head);
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = HEAD.to_text().into_bytes();
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            fs::write(folder.path().join(Head::FILE), flipped).unwrap();
            assert!(matches!(Head::read(folder.path()), Err(Unusable::Damaged)));
        }
    }

    #[test]
    fn a_newer_head_is_told_from_a_damaged_one() {
        let folder = tempfile::tempdir().unwrap();
        let newer = summed(format!("{TITLE} 2\nwhatever\n"));
        fs::write(folder.path().join(Head::FILE), newer).unwrap();
        let refused = Head::read(folder.path()).unwrap_err();
        assert!(matches!(refused, Unusable::Newer { found: 2 }));
    }
}
