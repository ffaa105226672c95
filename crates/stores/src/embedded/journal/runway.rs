//! Runway: the part of a journal that is already zeros on the disk when batches reach it.
//!
//! A journal begins as one large hole. A sync of bytes that fill a part of it has to find blocks
//! for them and write down where those are, which takes longer than writing the bytes. So zeros are
//! put there ahead, a good piece at a time; they share the next sync, and the syncs after it find
//! everything in place. A hole reads as zeros too, so nobody who reads a journal can tell.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Zeros in front of the batches of one journal.
#[derive(Debug)]
pub(super) struct Runway {
    file: File,
    /// Where the zeros end.
    end: u64,
    /// The length of the file, which stays as it is.
    len: u64,
}

static ZEROS: [u8; Runway::PIECE as usize] = [0; Runway::PIECE as usize];

// === impl Runway ===

impl Runway {
    /// How much is written at once.
    const PIECE: u64 = 256 << 10;
    /// How little is left when the next piece is written: more than most batches take.
    const LEFT: u64 = 128 << 10;

    /// A runway for the journal at `path`, of which `written` bytes are taken. Without one, syncs
    /// take longer, and that is all.
    pub(super) fn behind(path: &Path, written: u64) -> Option<Self> {
        let new = || {
            let file = File::options().write(true).open(path)?;
            let len = file.metadata()?.len();
            Ok(Self {
                file,
                end: written,
                len,
            })
        };
        let made: io::Result<Self> = new();
        made.inspect_err(|error| tracing::debug!(%error, "a journal has no runway"))
            .ok()
    }

    /// Sees to it that there are zeros from `at` on, where the next batch begins. Only to be called
    /// by whoever writes the batches, between two of them.
    pub(super) fn keep_ahead(&mut self, at: u64) -> io::Result<()> {
        if at.saturating_add(Self::LEFT) <= self.end {
            return Ok(());
        }
        // A large batch may have run over the end.
        let from = self.end.max(at);
        let to = from.saturating_add(Self::PIECE).min(self.len);
        if from < to {
            let piece = &ZEROS[..(to - from) as usize];
            self.file.write_all_at(piece, from)?;
        }
        self.end = from.max(to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn journal(written: &[u8]) -> (tempfile::TempDir, std::path::PathBuf, Runway) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.jnl");
        let file = File::create(&path).unwrap();
        file.set_len(2 * Runway::PIECE).unwrap();
        file.write_all_at(written, 0).unwrap();
        let runway = Runway::behind(&path, 0).unwrap();
        (folder, path, runway)
    }

    #[test]
    fn zeros_are_put_behind_what_is_written_and_never_over_it() {
        let (_folder, path, mut runway) = journal(&[7; 100]);
        let before = fs::read(&path).unwrap();
        let blocks = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).unwrap());
        let sparse = blocks();
        runway.keep_ahead(100).unwrap();
        assert_eq!(runway.end, 100 + Runway::PIECE);
        assert!(blocks() > sparse);
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_piece_is_written_only_when_little_is_left() {
        let (_folder, _path, mut runway) = journal(&[]);
        runway.keep_ahead(0).unwrap();
        runway.keep_ahead(Runway::LEFT).unwrap();
        assert_eq!(runway.end, Runway::PIECE);
        runway.keep_ahead(Runway::LEFT + 1).unwrap();
        assert_eq!(runway.end, 2 * Runway::PIECE);
    }

    #[test]
    fn a_batch_that_ran_over_the_end_stays_whole() {
        let (_folder, path, mut runway) = journal(&[]);
        runway.keep_ahead(0).unwrap();
        let long = vec![9; Runway::PIECE as usize + 1000];
        runway.file.write_all_at(&long, 0).unwrap();
        runway.keep_ahead(long.len() as u64).unwrap();
        assert_eq!(fs::read(&path).unwrap()[..long.len()], long);
    }

    #[test]
    fn a_journal_is_never_made_longer() {
        let (_folder, path, mut runway) = journal(&[]);
        for at in (0..3 * Runway::PIECE).step_by(1 << 16) {
            runway.keep_ahead(at).unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), 2 * Runway::PIECE);
    }
}
