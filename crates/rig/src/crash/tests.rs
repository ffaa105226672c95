//! The model of a disk, by small examples.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::disk::Disk;
use super::image::{Fate, Image};
use super::log::{Change, Log};
use super::{Ailment, SECTOR};

const ROOT: u64 = 1;
const FILE: u64 = 2;
const OTHER: u64 = 3;

type Files = BTreeMap<String, Vec<u8>>;

/// A disk after these changes, with the log they are of.
fn disk(bytes: &[u8], changes: &[Change]) -> (Log, Disk) {
    let log = Log::of(bytes.to_vec(), changes.to_vec(), ROOT);
    let mut disk = Disk::new(&log);
    log.changes.iter().for_each(|it| disk.apply(&log, it));
    (log, disk)
}

/// The files of one image.
fn files((log, disk): &(Log, Disk), fate: Fate, seed: u64) -> Files {
    let image = Image::with_fate(disk, log, fate, &mut Rng::with_seed(seed));
    let files = image.files(disk).into_iter();
    let read = |(path, node)| {
        let content = image.content(disk, node).unwrap();
        let mut bytes = content.bytes.to_vec();
        bytes.resize(content.size as usize, 0);
        (path, bytes)
    };
    files.map(read).collect()
}

fn create(inode: u64, name: &str) -> Change {
    Change::Create(inode, name.to_owned())
}

fn sync(inode: u64) -> [Change; 2] {
    [Change::Syncing(inode, inode), Change::Synced(inode, inode)]
}

fn all(changes: &[&[Change]]) -> Vec<Change> {
    changes.concat()
}

fn of(files: &[(&str, &[u8])]) -> Files {
    let files = files.iter();
    files
        .map(|(name, it)| ((*name).to_owned(), it.to_vec()))
        .collect()
}

#[test]
fn what_was_synced_is_there_and_what_was_not_may_be() {
    let write = |at, range| Change::Write(FILE, at, range);
    let changes = all(&[
        &[create(FILE, "a"), write(0, 0..2)],
        &sync(FILE),
        &sync(ROOT),
        &[write(2, 2..4)],
    ]);
    let disk = disk(b"abcd", &changes);
    assert_eq!(files(&disk, Fate::Lost, 1), of(&[("a", b"ab")]));
    assert_eq!(files(&disk, Fate::Kept, 1), of(&[("a", b"abcd")]));
    for seed in 0..100 {
        let found = files(&disk, Fate::Shuffled, seed);
        assert!(found["a"].starts_with(b"ab"), "{found:?}");
    }
}

#[test]
fn a_sync_is_about_what_was_there_when_it_began() {
    let changes = [
        create(FILE, "a"),
        Change::Syncing(FILE, 7),
        Change::Write(FILE, 0, 0..2),
        Change::Synced(FILE, 7),
    ];
    let disk = disk(b"ab", &changes);
    assert_eq!(files(&disk, Fate::Lost, 1), of(&[("a", b"")]));
}

#[test]
fn a_rename_is_lost_or_kept_as_a_whole_until_its_folder_is_synced() {
    let rename = Change::Rename("new".to_owned(), "name".to_owned());
    let before = all(&[
        &[create(FILE, "name"), create(OTHER, "new")],
        &[Change::Write(FILE, 0, 0..1), Change::Write(OTHER, 0, 1..2)],
        &sync(FILE),
        &sync(OTHER),
        &sync(ROOT),
        &[rename],
    ]);
    let open = disk(b"ab", &before);
    let (old, new) = (of(&[("name", b"a"), ("new", b"b")]), of(&[("name", b"b")]));
    assert_eq!(files(&open, Fate::Lost, 1), old);
    assert_eq!(files(&open, Fate::Kept, 1), new);
    for seed in 0..50 {
        let found = files(&open, Fate::Shuffled, seed);
        assert!(found == old || found == new, "{found:?}");
    }
    let closed = disk(b"ab", &all(&[&before, &sync(ROOT)]));
    assert_eq!(files(&closed, Fate::Lost, 1), new);
}

#[test]
fn a_new_file_keeps_its_name_once_it_is_synced_itself() {
    let unsynced = disk(b"", &[create(FILE, "a")]);
    assert_eq!(files(&unsynced, Fate::Lost, 1), of(&[]));
    let synced = disk(b"", &all(&[&[create(FILE, "a")], &sync(FILE)]));
    assert_eq!(files(&synced, Fate::Lost, 1), of(&[("a", b"")]));
}

#[test]
fn a_sector_that_came_holds_all_that_was_written_to_it() {
    let changes = all(&[
        &[create(FILE, "a")],
        &sync(FILE),
        &[
            Change::Write(FILE, 0, 0..2),
            Change::Write(FILE, 2, 2..4),
            Change::Write(FILE, SECTOR as u64, 4..6),
        ],
    ]);
    let disk = disk(b"abcdef", &changes);
    let mut alone = 0;
    for seed in 0..300 {
        let found = files(&disk, Fate::Mixed, seed);
        let sectors: Vec<_> = found["a"].chunks(SECTOR).collect();
        let first = sectors
            .first()
            .map_or(&b""[..], |sector| &sector[..4.min(sector.len())]);
        assert!(!first.ends_with(b"cd") || first == b"abcd", "seed {seed}");
        alone += u64::from(first.starts_with(&[0]) && sectors.len() > 1);
    }
    assert!(alone > 20, "the second sector came alone {alone} times");
}

#[test]
fn writes_are_torn_at_sectors_and_nowhere_else() {
    let bytes = vec![7; 3 * SECTOR];
    let changes = all(&[
        &[create(FILE, "a")],
        &sync(FILE),
        &[Change::Write(FILE, 0, 0..bytes.len())],
    ]);
    let disk = disk(&bytes, &changes);
    let mut torn = 0;
    for seed in 0..300 {
        let found = files(&disk, Fate::Mixed, seed);
        for sector in found["a"].chunks(SECTOR) {
            let is_whole = sector.iter().all(|byte| *byte == sector[0]);
            assert!(is_whole, "seed {seed}");
        }
        torn += u64::from(found["a"].contains(&0) && found["a"].contains(&7));
    }
    assert!(torn > 20, "only {torn} were torn");
}

#[test]
fn damage_is_done_to_one_file_only() {
    let bytes = vec![7; 2 * SECTOR];
    let names = ["store", "store/a", "store/b"].map(str::to_owned);
    let [folder, a, b] = names;
    let changes = all(&[
        &[Change::Folder(9, folder), Change::Create(FILE, a)],
        &[Change::Create(OTHER, b)],
        &[FILE, OTHER].map(|file| Change::Write(file, 0, 0..bytes.len())),
        &sync(FILE),
        &sync(OTHER),
        &sync(9),
        &sync(ROOT),
    ]);
    let (log, disk) = disk(&bytes, &changes);
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let mut image = Image::with_fate(&disk, &log, Fate::Lost, &mut rng);
        assert!(Ailment::strike(&disk, &mut image, &mut rng).is_some());
        let left = image.files(&disk).into_iter().filter(|(_, node)| {
            let content = image.content(&disk, *node).unwrap();
            *content.bytes == bytes
        });
        assert_eq!(left.count(), 1, "seed {seed}");
    }
}
