//! The contract of every store, in both classes of durability.

use onceward::conformance;
use onceward_stores::embedded::EmbeddedStore;
use tempfile::TempDir;

use crate::image::scratch;

fn fresh(folder: TempDir, sync: bool) -> (EmbeddedStore, TempDir) {
    let store = EmbeddedStore::at(folder.path()).sync(sync).open().unwrap();
    (store, folder)
}

conformance!(synced, fresh(tempfile::tempdir().unwrap(), true));
conformance!(handed_to_the_system, fresh(scratch(), false));
