//! The lists that the database makes room for by a count it has not checked: a number that is
//! read as a larger one must not ask for more memory than there is, which ends the process.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onceward::store::Swap;
use onceward::testing::records;
use onceward::{Store as _, Timestamp};
use onceward_stores::OpenError;
use onceward_stores::embedded::{EmbeddedStore, Loss, repair, repair_dry_run};

use crate::image::{
    Acknowledged, Image, Opened, each, newest_journal, open, present, put, scratch,
};

/// How many bytes at the very end say how long the list is. Nobody reads them.
const UNREAD: usize = 8;
/// What the list begins with, before its count.
const START: &[u8] = b"TOC!";
const RECORDS: &str = "data/keyspaces/1";

/// Manifests, tables and blobs: whatever ends with a list.
fn lists(image: &Image) -> Vec<PathBuf> {
    let mut files = image.files();
    files.retain(|file| {
        let folder = file.parent().unwrap();
        folder.ends_with("tables") || folder.ends_with("blobs")
    });
    files.extend((0..3).map(|id| manifest(image.path(), &format!("data/keyspaces/{id}"))));
    files
}

/// The manifest that a keyspace goes by.
fn manifest(folder: &Path, keyspace: &str) -> PathBuf {
    let keyspace = Path::new(keyspace);
    let current = fs::read(folder.join(keyspace).join("current")).unwrap();
    let version = u64::from_le_bytes(*current.first_chunk().unwrap());
    keyspace.join(format!("v{version}"))
}

fn is_manifest(file: &Path) -> bool {
    file.file_name().unwrap().to_str().unwrap().starts_with('v')
}

/// Where the list and what tells of it are.
fn list(bytes: &[u8]) -> Range<usize> {
    let from = bytes.windows(START.len()).rposition(|it| it == START);
    from.unwrap()..bytes.len() - UNREAD
}

/// Where the count of the list is.
fn count(bytes: &[u8]) -> Range<usize> {
    let from = list(bytes).start + START.len();
    from..from + 4
}

/// Where the count of the blob files is that a table refers to, if it does.
fn links(bytes: &[u8]) -> Option<Range<usize>> {
    count_in(bytes, b"linked_blob_files")
}

/// Where the count is that a section begins with, if there is that section.
fn count_in(bytes: &[u8], section: &[u8]) -> Option<Range<usize>> {
    let name = bytes.windows(section.len()).rposition(|it| it == section)?;
    let (rest, _length) = bytes[..name - 2].split_last_chunk::<8>().unwrap();
    let from = u64::from_le_bytes(*rest.last_chunk().unwrap()) as usize;
    Some(from..from + 4)
}

fn flip(file: &Path, sound: &[u8], bit: usize) {
    let mut bytes = sound.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs::write(file, bytes).unwrap();
}

/// The store is refused by the name of the file that is damaged.
#[track_caller]
fn expect_refusal(folder: &Path, file: &Path, damage: &str) {
    let Err(refused) = EmbeddedStore::open(folder) else {
        // No manifest names it: the crash left it behind, and the database removes it unread.
        return assert!(!folder.join(file).exists(), "{damage} is not seen");
    };
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
    // A manifest has a sum elsewhere, and is told by its keyspace.
    let name = match is_manifest(file) {
        true => "the manifest of keyspace",
        false => file.to_str().unwrap(),
    };
    assert!(refused.to_string().contains(name), "{damage}: {refused}");
}

#[tokio::test]
async fn a_flipped_bit_in_any_list_is_refused_by_name() {
    let image = Arc::new(Image::new().await);
    let lists = lists(&image);
    for kind in ["keyspaces/1/tables", "keyspaces/1/blobs", "keyspaces/2/v"] {
        let is_kind = |file: &PathBuf| file.to_str().unwrap().contains(kind);
        assert!(lists.iter().any(is_kind), "no {kind}: {lists:?}");
    }
    each(lists, move |file| {
        let image = Arc::clone(&image);
        async move {
            let copy = image.copy();
            let path = copy.path().join(&file);
            let sound = fs::read(&path).unwrap();
            let bytes = list(&sound).chain(links(&sound).into_iter().flatten());
            for bit in bytes.flat_map(|byte| byte * 8..byte * 8 + 8) {
                flip(&path, &sound, bit);
                let damage = format!("bit {bit} of {}", file.display());
                expect_refusal(copy.path(), &file, &damage);
            }
            // Whoever refuses has changed nothing.
            fs::write(&path, &sound).unwrap();
            let opened = open(copy.path(), &image.acknowledged).await;
            assert!(matches!(opened, Opened::Whole), "{opened:?}");
        }
    });
}

#[tokio::test]
async fn a_store_that_has_something_to_tidy_up_opens() {
    let folder = scratch();
    let has_stale = || {
        let bytes = fs::read(folder.path().join(manifest(folder.path(), RECORDS))).unwrap();
        bytes[count_in(&bytes, b"blob_gc_stats").unwrap()] != [0; 4]
    };
    let mut acknowledged = Acknowledged::new();
    let mut n = 0;
    loop {
        let options = EmbeddedStore::at(folder.path()).sync(false);
        let store = options.journal(8 << 10).open().unwrap();
        // Every other one goes again: then a part of a blob file is of no use any more.
        for _ in 0..200 {
            put(&store, &mut acknowledged, 5 * n + 4).await;
            if n % 2 == 0 {
                let slot = records::slot(&(5 * n + 4).to_string());
                let gone = acknowledged.remove(&slot).unwrap();
                let removed = store.remove(slot, gone.fence, Timestamp::NEVER).await;
                assert_eq!(removed.unwrap().value, Swap::Done);
            }
            n += 1;
        }
        drop(store);
        if has_stale() {
            break;
        }
        assert!(n < 100_000, "nothing is ever stale");
    }
    let opened = open(folder.path(), &acknowledged).await;
    assert!(matches!(opened, Opened::Whole), "{opened:?}");
}

#[tokio::test]
async fn what_nobody_reads_of_a_list_does_no_harm() {
    let image = Arc::new(Image::new().await);
    let tables = lists(&image).into_iter();
    let tables = tables.filter(|file| !is_manifest(file));
    each(tables, move |file| {
        let image = Arc::clone(&image);
        async move {
            let copy = image.copy();
            let path = copy.path().join(&file);
            let sound = fs::read(&path).unwrap();
            flip(&path, &sound, sound.len() * 8 - 1);
            let opened = open(copy.path(), &image.acknowledged).await;
            let what = file.display();
            assert!(matches!(opened, Opened::Whole), "{what}: {opened:?}");
        }
    });
}

#[tokio::test]
async fn a_store_with_a_count_that_is_off_is_repaired() {
    let image = Arc::new(Image::new().await);
    let cases = lists(&image).into_iter().flat_map(|file| {
        let bytes = fs::read(image.path().join(&file)).unwrap();
        let count = count(&bytes);
        let bits = [count.start * 8, count.end * 8 - 1];
        bits.map(|bit| (file.clone(), bit))
    });
    let cases = Vec::from_iter(cases);
    each(cases, move |(file, bit)| {
        let image = Arc::clone(&image);
        async move {
            let damage = format!("bit {bit} of {}", file.display());
            let copy = image.copy();
            let path = copy.path().join(&file);
            let sound = fs::read(&path).unwrap();
            flip(&path, &sound, bit);
            let rehearsed = repair_dry_run(copy.path()).unwrap();
            let repaired = repair(copy.path()).unwrap();
            assert_eq!(rehearsed.records, repaired.records, "{damage}");
            let store = EmbeddedStore::open(copy.path()).unwrap();
            let there = present(&store, &image.acknowledged).await;
            if there < image.acknowledged.len() {
                assert_ne!(repaired.loss(), Loss::Nothing, "{damage}: {repaired:?}");
            }
            fs::remove_dir_all(repaired.original.unwrap()).unwrap();
        }
    });
}

#[tokio::test]
async fn tables_are_read_without_what_only_tidying_up_looks_at() {
    let image = Image::new().await;
    let copy = image.copy();
    let mut tables = 0;
    for file in lists(&image) {
        let path = copy.path().join(&file);
        let sound = fs::read(&path).unwrap();
        if let Some(count) = links(&sound) {
            flip(&path, &sound, count.end * 8 - 1);
            tables += 1;
        }
    }
    assert!(tables > 0);
    // Cut in its first batch, so that nothing is read from the journal in their place.
    let journal = newest_journal(copy.path());
    let sound = fs::read(&journal).unwrap();
    flip(&journal, &sound, 8 * 40);
    let repaired = repair(copy.path()).unwrap();
    assert!(!repaired.journals_only, "{repaired:?}");
    assert!(repaired.records > 0, "{repaired:?}");
    fs::remove_dir_all(repaired.original.unwrap()).unwrap();
}

#[tokio::test]
async fn a_manifest_that_nothing_vouches_for_does_not_end_a_repair() {
    let image = Arc::new(Image::new().await);
    let manifest = manifest(image.path(), RECORDS);
    let bytes = fs::read(image.path().join(&manifest)).unwrap().len();
    // Of every number, one that is a little off and one that is huge.
    let bits = Vec::from_iter((0..bytes).flat_map(|byte| [byte * 8, byte * 8 + 7]));
    each(bits, move |bit| {
        let (image, manifest) = (Arc::clone(&image), manifest.clone());
        async move {
            let copy = image.copy();
            let path = copy.path().join(&manifest);
            let sound = fs::read(&path).unwrap();
            flip(&path, &sound, bit);
            fs::remove_file(path.with_file_name("current")).unwrap();
            let repaired = repair(copy.path()).unwrap();
            drop(EmbeddedStore::open(copy.path()).unwrap());
            fs::remove_dir_all(repaired.original.unwrap()).unwrap();
        }
    });
}
