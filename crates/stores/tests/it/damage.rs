//! Folders in which something does not read back as it was written.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use onceward_stores::OpenError;
use onceward_stores::embedded::{EmbeddedStore, Loss, repair, repair_dry_run};

use crate::image::{Acknowledged, Image, Opened, copy, each, open, present, put, scratch};

/// How many bits are flipped, file by file.
const FLIPS: usize = 300;

/// A damaged folder is served whole or refused; and then, having been opened once in vain,
/// what a repair says about its loss is true.
async fn is_never_silently_less(folder: &Path, acknowledged: &Acknowledged, damage: &str) {
    match open(folder, acknowledged).await {
        Opened::Whole => {}
        Opened::Refused(refused) => {
            assert!(!refused.hint().is_empty() && !refused.to_string().contains('\n'));
            if !matches!(refused, OpenError::Newer { .. }) {
                is_repaired(folder, acknowledged, damage).await;
            }
        }
        Opened::Silently(missing) => panic!("{damage}: {missing:?} are silently gone"),
    }
}

async fn is_repaired(folder: &Path, acknowledged: &Acknowledged, damage: &str) {
    let rehearsed = repair_dry_run(folder).unwrap_or_else(|error| panic!("{damage}: {error:?}"));
    let repaired = repair(folder).unwrap_or_else(|error| panic!("{damage}: {error:?}"));
    assert_eq!(rehearsed.records, repaired.records, "{damage}");
    let original = repaired.original.clone().unwrap();
    assert!(
        original.join("data").exists() || damage.contains("data"),
        "{damage}"
    );
    let store = EmbeddedStore::open(folder).unwrap_or_else(|error| panic!("{damage}: {error:?}"));
    let there = present(&store, acknowledged).await;
    if there < acknowledged.len() {
        assert_ne!(repaired.loss(), Loss::Nothing, "{damage}: {repaired:?}");
    }
    fs::remove_dir_all(original).unwrap();
}

#[tokio::test]
async fn a_flipped_bit_is_never_silent() {
    let image = Arc::new(Image::new().await);
    let mut rng = fastrand::Rng::with_seed(7);
    let files = image.files();
    let cases = files.iter().cycle().take(FLIPS).map(|file| {
        let bits = fs::metadata(image.path().join(file)).unwrap().len() * 8;
        (file.clone(), rng.u64(..bits.max(1)))
    });
    let cases = Vec::from_iter(cases);
    each(cases, move |(file, bit)| {
        let image = Arc::clone(&image);
        async move {
            let copy = image.copy();
            let path = copy.path().join(&file);
            let mut bytes = fs::read(&path).unwrap();
            if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
            fs::write(&path, bytes).unwrap();
            let damage = format!("bit {bit} of {}", file.display());
            is_never_silently_less(copy.path(), &image.acknowledged, &damage).await;
        }
    });
}

#[tokio::test]
async fn a_missing_file_is_never_silent() {
    let image = Arc::new(Image::new().await);
    each(image.files(), move |file| {
        let image = Arc::clone(&image);
        async move {
            for is_empty in [false, true] {
                let copy = image.copy();
                let path = copy.path().join(&file);
                match is_empty {
                    true => fs::write(&path, "").unwrap(),
                    false => fs::remove_file(&path).unwrap(),
                }
                let damage = format!("{} is empty: {is_empty}", file.display());
                is_never_silently_less(copy.path(), &image.acknowledged, &damage).await;
            }
        }
    });
}

#[tokio::test]
async fn a_missing_folder_is_never_silent() {
    let image = Arc::new(Image::new().await);
    let folders = ["data", "data/keyspaces"].map(str::to_owned).into_iter();
    let keyspaces = (0..3).map(|id| format!("data/keyspaces/{id}"));
    each(folders.chain(keyspaces), move |folder| {
        let image = Arc::clone(&image);
        async move {
            let copy = image.copy();
            fs::remove_dir_all(copy.path().join(&folder)).unwrap();
            is_never_silently_less(copy.path(), &image.acknowledged, &folder).await;
        }
    });
}

#[tokio::test]
async fn a_sound_store_loses_nothing_in_a_repair() {
    let image = Image::new().await;
    let copy = image.copy();
    let dry = repair_dry_run(copy.path()).unwrap();
    assert_eq!((dry.loss(), dry.original.clone()), (Loss::Nothing, None));
    let repaired = repair(copy.path()).unwrap();
    assert_eq!(repaired.loss(), Loss::Nothing);
    assert_eq!(repaired.records as usize, image.acknowledged.len());
    let opened = open(copy.path(), &image.acknowledged).await;
    assert!(matches!(opened, Opened::Whole), "{opened:?}");
    fs::remove_dir_all(repaired.original.unwrap()).unwrap();
}

#[tokio::test]
async fn a_journal_cut_by_a_repair_is_told_and_everything_before_it_saved() {
    let image = Image::new().await;
    let copy = image.copy();
    let journal = crate::image::newest_journal(copy.path());
    let mut bytes = fs::read(&journal).unwrap();
    let [_, second, _] = image.last_batches;
    // In the last batch but one, so that it cannot be a torn one.
    bytes[second as usize - 40] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let refused = EmbeddedStore::open(copy.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
    let repaired = repair(copy.path()).unwrap();
    assert!(repaired.cut.is_some());
    assert_ne!(repaired.loss(), Loss::Nothing);
    assert_eq!(repaired.records as usize, image.acknowledged.len() - 2);
    fs::remove_dir_all(repaired.original.unwrap()).unwrap();
}

#[tokio::test]
async fn what_follows_from_the_records_can_be_rebuilt_without_a_loss() {
    let image = Arc::new(Image::new().await);
    let lost = [
        ("FORMAT", Loss::Nothing),
        ("HEAD", Loss::Possible),
        ("data/version", Loss::Nothing),
        ("data/keyspaces/0", Loss::Nothing),
        ("data/keyspaces/0/current", Loss::Nothing),
        ("data/keyspaces/1/current", Loss::Nothing),
        ("data/keyspaces/2", Loss::Nothing),
        ("data/keyspaces/2/current", Loss::Nothing),
    ];
    each(lost, move |(name, loss)| {
        let image = Arc::clone(&image);
        async move {
            let copy = image.copy();
            let path = copy.path().join(name);
            match path.is_dir() {
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
            // In vain, and without making it worse.
            let refused = EmbeddedStore::open(copy.path()).unwrap_err();
            assert!(
                matches!(refused, OpenError::Damaged { .. }),
                "{name}: {refused:?}"
            );
            let repaired = repair(copy.path()).unwrap();
            assert_eq!(repaired.loss(), loss, "{name}: {repaired:?}");
            let opened = open(copy.path(), &image.acknowledged).await;
            assert!(matches!(opened, Opened::Whole), "{name}: {opened:?}");
            fs::remove_dir_all(repaired.original.unwrap()).unwrap();
        }
    });
}

#[tokio::test]
async fn keyspaces_that_end_at_different_batches_are_refused() {
    let folder = scratch();
    let options = EmbeddedStore::at(folder.path()).journal(8 << 10);
    let store = options.open().unwrap();
    let mut acknowledged = Acknowledged::new();
    put(&store, &mut acknowledged, 0).await;
    store.close();
    let older = copy(folder.path());
    let options = EmbeddedStore::at(folder.path()).journal(8 << 10);
    let store = options.open().unwrap();
    while folder.path().join("data/0.jnl").exists() {
        let n = acknowledged.len();
        put(&store, &mut acknowledged, n).await;
    }
    store.close();
    // The records of now, and everything else as it was.
    let records = "data/keyspaces/1";
    fs::remove_dir_all(older.path().join(records)).unwrap();
    fs::rename(folder.path().join(records), older.path().join(records)).unwrap();
    let folder = older;
    let refused = EmbeddedStore::open(folder.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
    assert!(refused.to_string().contains("end at batches"), "{refused}");
}
