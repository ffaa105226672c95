use super::*;
use crate::embedded::EmbeddedStore;

#[test]
fn the_original_survives_a_swap_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("store");
    drop(EmbeddedStore::open(&path).unwrap());
    fs::write(path.join("data/version"), "rotten").unwrap();
    let repair = Repair::begin(&path).unwrap();
    let workshop = repair.workshop.clone();
    // In the way of the original.
    let taken = beside(&path, ".before-repair-1");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("letters.txt"), "dear").unwrap();
    let stuck = repair.run(false).unwrap_err();
    assert!(matches!(stuck, OpenError::Folder { .. }), "{stuck:?}");
    let originals = [workshop.join("new"), path].map(|it| fs::read(it.join("data/version")));
    let is_rotten = |it: &io::Result<Vec<u8>>| it.as_ref().is_ok_and(|it| it == b"rotten");
    assert!(originals.iter().any(is_rotten), "{originals:?}");
}

#[test]
fn a_repair_leaves_nothing_but_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(EmbeddedStore::open(&path).unwrap());
    let repaired = repair(&path).unwrap();
    assert!(!repaired.secret_kept, "there was none");
    let names = fs::read_dir(folder.path()).unwrap();
    let mut names = Vec::from_iter(names.map(|it| it.unwrap().file_name()));
    names.sort();
    assert_eq!(names, ["store", "store.before-repair-1"]);
}

#[test]
fn a_mount_point_is_told_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!is_mount_point(&folder.path().canonicalize().unwrap()).unwrap());
    assert!(is_mount_point(Path::new("/proc")).unwrap());
}
