//! Folders that cannot be opened, and what is said about them.

use std::fs;

use onceward_stores::embedded::{EmbeddedStore, repair};
use onceward_stores::{OpenError, StoreUrl, open};

use crate::image::scratch;

#[test]
fn a_folder_is_open_once() {
    let folder = scratch();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let second = EmbeddedStore::open(folder.path()).unwrap_err();
    assert!(matches!(second, OpenError::InUse { .. }), "{second:?}");
    let repaired = repair(folder.path()).unwrap_err();
    assert!(matches!(repaired, OpenError::InUse { .. }), "{repaired:?}");
    drop(store);
    EmbeddedStore::open(folder.path()).unwrap();
}

#[test]
fn somebody_else_s_folder_is_left_alone() {
    let folder = scratch();
    fs::write(folder.path().join("letters.txt"), "dear").unwrap();
    let refused = EmbeddedStore::open(folder.path()).unwrap_err();
    assert!(
        matches!(refused, OpenError::NotAStore { .. }),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_newer_format_is_refused_by_name() {
    for (file, text) in [
        ("FORMAT", "onceward-store 2\n"),
        ("HEAD", "onceward-head 2\n"),
    ] {
        let folder = scratch();
        drop(EmbeddedStore::open(folder.path()).unwrap());
        let sum = crc32fast::hash(text.as_bytes());
        fs::write(folder.path().join(file), format!("{text}crc {sum:08x}\n")).unwrap();
        for refused in [
            EmbeddedStore::open(folder.path()).unwrap_err(),
            repair(folder.path()).unwrap_err(),
        ] {
            let OpenError::Newer { found, known, .. } = refused else {
                panic!("{refused:?}");
            };
            assert_eq!((found, known), (2, 1));
        }
    }
}

#[test]
fn a_folder_without_its_format_is_no_new_folder() {
    let folder = scratch();
    drop(EmbeddedStore::open(folder.path()).unwrap());
    fs::remove_file(folder.path().join("FORMAT")).unwrap();
    let refused = EmbeddedStore::open(folder.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
}

#[test]
fn a_path_that_is_no_folder_is_said_to_be_none() {
    let folder = scratch();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = EmbeddedStore::open(file.join("store")).unwrap_err();
    assert!(matches!(refused, OpenError::Folder { .. }), "{refused:?}");
    assert!(refused.hint().contains("store"));
}

#[test]
fn there_is_nothing_to_repair_in_an_empty_folder() {
    let folder = scratch();
    let refused = repair(folder.path()).unwrap_err();
    assert!(
        matches!(refused, OpenError::NotAStore { .. }),
        "{refused:?}"
    );
}

#[test]
fn every_opening_has_an_epoch_of_its_own() {
    let folder = scratch();
    let epochs = (0..3).map(|_| {
        let store = EmbeddedStore::open(folder.path()).unwrap();
        let head = fs::read_to_string(folder.path().join("HEAD")).unwrap();
        drop(store);
        let line = head
            .lines()
            .find(|line| line.starts_with("epoch "))
            .unwrap();
        line.to_owned()
    });
    assert_eq!(Vec::from_iter(epochs), ["epoch 1", "epoch 2", "epoch 3"]);
}

#[test]
fn a_store_is_opened_by_its_url() {
    let folder = scratch();
    let path = folder.path().join("new");
    let url = |rest: &str| -> StoreUrl {
        format!("embedded:{}{rest}", path.display())
            .parse()
            .unwrap()
    };
    let durability = |rest| open(&url(rest)).unwrap().durability();
    assert_eq!(durability(""), onceward::Durability::D2);
    assert_eq!(durability("?durability=os"), onceward::Durability::D1);
}

#[test]
fn no_new_store_is_begun_where_a_repair_ended_halfway() {
    for left in ["store.before-repair-1", "store.repair-12"] {
        let folder = scratch();
        let path = folder.path().join("store");
        fs::create_dir(folder.path().join(left)).unwrap();
        let refused = EmbeddedStore::open(&path).unwrap_err();
        assert!(matches!(refused, OpenError::HalfRepaired { .. }));
        assert!(refused.hint().contains(left), "{}", refused.hint());
        assert!(!path.exists(), "the way back is free");
        fs::create_dir(&path).unwrap();
        let refused = EmbeddedStore::open(&path).unwrap_err();
        assert!(matches!(refused, OpenError::HalfRepaired { .. }));
        fs::remove_dir(folder.path().join(left)).unwrap();
        fs::create_dir(folder.path().join("store.repair-manual")).unwrap();
        drop(EmbeddedStore::open(&path).unwrap());
        // A store that is there is opened, whatever lies beside it.
        fs::create_dir(folder.path().join(left)).unwrap();
        drop(EmbeddedStore::open(&path).unwrap());
    }
}

#[test]
fn nobody_else_may_look_into_a_new_folder() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = scratch();
    let path = folder.path().join("deep/store");
    drop(EmbeddedStore::open(&path).unwrap());
    for created in [path.parent().unwrap(), &path] {
        let mode = fs::metadata(created).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", created.display());
    }
}

#[test]
fn a_disk_that_does_not_answer_is_no_damage() {
    let folder = scratch();
    drop(EmbeddedStore::open(folder.path()).unwrap());
    let version = folder.path().join("data/version");
    fs::remove_file(&version).unwrap();
    let missing = EmbeddedStore::open(folder.path()).unwrap_err();
    assert!(matches!(missing, OpenError::Damaged { .. }), "{missing:?}");
    // Reading it is an error of the system.
    fs::create_dir(&version).unwrap();
    let refused = EmbeddedStore::open(folder.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Folder { .. }), "{refused:?}");
}
