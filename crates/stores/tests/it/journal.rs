//! A journal that ends too early.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use onceward::testing::records;
use onceward::{Outcome, Record, SlotId, State, Store as _, Timestamp};
use onceward_stores::OpenError;
use onceward_stores::embedded::{EmbeddedStore, Loss, repair};

use crate::filing::{At, Gate};
use crate::image::{
    Acknowledged, Image, Opened, all, copy, each, newest_journal, open, present, put, scratch,
    written,
};

#[tokio::test]
async fn a_torn_last_batch_is_cut_at_whatever_byte_and_all_earlier_ones_stay() {
    let image = Arc::new(Image::new().await);
    let [first, _, third] = image.last_batches;
    each(first..=third, move |end| {
        let image = Arc::clone(&image);
        async move {
            let copy = image.copy();
            fs::write(copy.path().join("HEAD"), &image.older_head).unwrap();
            let journal = newest_journal(copy.path());
            let bytes = fs::read(&journal).unwrap();
            fs::write(&journal, &bytes[..end as usize]).unwrap();
            if end % 2 == 0 {
                // As it is before the store is opened again: with emptiness behind.
                let file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
                file.set_len(1 << 20).unwrap();
            }
            let missing = image.last_batches.iter().filter(|it| **it > end).count();
            let expected = image.acknowledged.len() - missing;
            let store = EmbeddedStore::open(copy.path()).unwrap();
            assert_eq!(
                present(&store, &image.acknowledged).await,
                expected,
                "cut at {end}"
            );
        }
    });
}

#[tokio::test]
async fn a_batch_with_a_gap_before_the_end_of_a_sector_is_cut() {
    let folder = scratch();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let mut acknowledged = Acknowledged::new();
    for n in 0..5 {
        put(&store, &mut acknowledged, n).await;
    }
    let head = fs::read(folder.path().join("HEAD")).unwrap();
    let before = written(&newest_journal(folder.path())).len();
    // Text, for an answer of its own may end in zeros by chance.
    let large = Record {
        state: State::Completed(Outcome::success(vec![b'x'; 2000])),
        ..records::completed(records::LONG)
    };
    let reply = store.insert(records::slot("large"), &large, Timestamp::NEVER);
    reply.await.unwrap();
    let after = written(&newest_journal(folder.path())).len();
    let ends: Vec<_> = (before..after).filter(|at| at % 512 == 0).collect();
    assert!(ends.len() >= 3, "{before} to {after}");
    for end in ends.into_iter().filter(|end| end - 16 > before) {
        for gap in [16, 40, 500].into_iter().filter(|gap| end - gap > before) {
            let copy = copy(folder.path());
            fs::write(copy.path().join("HEAD"), &head).unwrap();
            let journal = newest_journal(copy.path());
            let file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
            file.write_all_at(&vec![0; gap], (end - gap) as u64)
                .unwrap();
            let opened = open(copy.path(), &acknowledged).await;
            assert!(
                matches!(opened, Opened::Whole),
                "{gap} before {end}: {opened:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_batch_that_head_knows_of_is_not_cut() {
    let image = Image::new().await;
    // Opening renews HEAD, so the copy's promises everything.
    let promised = image.copy();
    drop(EmbeddedStore::open(promised.path()).unwrap());
    let head = fs::read(promised.path().join("HEAD")).unwrap();
    let [_, second, third] = image.last_batches;
    for end in [second, second + 1, third - 1] {
        let copy = image.copy();
        fs::write(copy.path().join("HEAD"), &head).unwrap();
        let journal = newest_journal(copy.path());
        let bytes = fs::read(&journal).unwrap();
        fs::write(&journal, &bytes[..end as usize]).unwrap();
        let opened = open(copy.path(), &image.acknowledged).await;
        assert!(
            matches!(opened, Opened::Refused(_)),
            "cut at {end}: {opened:?}"
        );
        assert_eq!(
            fs::read(&journal).unwrap().len() as u64,
            end,
            "evidence is left alone"
        );
    }
}

#[tokio::test]
async fn garbage_behind_the_last_batch_is_cut() {
    let image = Image::new().await;
    let copy = image.copy();
    let journal = newest_journal(copy.path());
    let mut bytes = fs::read(&journal).unwrap();
    bytes.extend_from_slice(&[0xee; 700]);
    fs::write(&journal, bytes).unwrap();
    let opened = open(copy.path(), &image.acknowledged).await;
    assert!(matches!(opened, Opened::Whole), "{opened:?}");
}

#[tokio::test]
async fn a_store_that_was_never_completed_is_begun_anew() {
    let folder = scratch();
    fs::write(folder.path().join("NEW"), "").unwrap();
    fs::create_dir_all(folder.path().join("data/keyspaces")).unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    assert!(all(&store).await.is_empty());
}

#[tokio::test]
async fn a_completed_store_is_not_taken_for_one_that_never_was() {
    let folder = scratch();
    drop(EmbeddedStore::open(folder.path()).unwrap());
    fs::write(folder.path().join("NEW"), "").unwrap();
    drop(EmbeddedStore::open(folder.path()).unwrap());
    fs::remove_file(folder.path().join("FORMAT")).unwrap();
    let refused = EmbeddedStore::open(folder.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
}

/// Puts answers of `len` bytes into slots of their own until `is_enough`.
async fn put_until(
    store: &EmbeddedStore,
    acknowledged: &mut Acknowledged,
    len: usize,
    is_enough: impl Fn() -> bool,
) {
    let first = acknowledged.len();
    while !is_enough() {
        let n = acknowledged.len();
        assert!(n < first + 5_000, "it never comes to that");
        let record = Record {
            state: State::Completed(Outcome::success(records::bytes(len))),
            ..records::completed(records::LONG)
        };
        let slot = records::slot(&n.to_string());
        let reply = store.insert(slot, &record, Timestamp::NEVER).await.unwrap();
        acknowledged.insert(slot, record.stamped(reply.now));
    }
}

#[tokio::test]
async fn journals_may_begin_late_but_not_with_one_missing() {
    let folder = scratch();
    let at = || EmbeddedStore::at(folder.path()).journal(8 << 10);
    let journal = |id: u64| folder.path().join(format!("data/{id}.jnl"));
    let mut acknowledged = Acknowledged::new();
    // The first is filed and gone, and perhaps more of them.
    let store = at().open().unwrap();
    put_until(&store, &mut acknowledged, 100, || !journal(0).exists()).await;
    store.close();
    drop(store);
    let one = number(&newest_journal(folder.path()));
    let other = one + 1;
    // The next one is not filed.
    let (gate, keeper) = Gate::new(At::Begin);
    let store = at().disk(gate).open().unwrap();
    put_until(&store, &mut acknowledged, 100, || journal(other).exists()).await;
    drop(keeper);
    store.close();
    drop(store);
    assert!(journal(one).exists() && journal(other).exists() && !journal(one - 1).exists());

    let elsewhere = folder.path().with_extension("jnl");
    fs::rename(journal(one), &elsewhere).unwrap();
    let refused = EmbeddedStore::open(folder.path()).unwrap_err();
    let expected = format!("journal {one} is missing");
    assert!(refused.to_string().contains(&expected), "{refused}");
    fs::rename(&elsewhere, journal(one)).unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    assert_eq!(present(&store, &acknowledged).await, acknowledged.len());
}

/// A number in a store's HEAD.
fn in_head(folder: &Path, name: &str) -> u64 {
    let head = fs::read_to_string(folder.join("HEAD")).unwrap();
    let mut lines = head.lines();
    let number = lines.find_map(|line| line.strip_prefix(name)).unwrap();
    number.trim().parse().unwrap()
}

/// The number of a journal.
fn number(journal: &Path) -> u64 {
    let name = journal.file_stem().unwrap().to_str().unwrap();
    name.parse().unwrap()
}

/// How many journals have anything in them, those that are gone included.
fn written_to(folder: &Path) -> u64 {
    let newest = newest_journal(folder);
    let id = number(&newest);
    let mut first = [0];
    let file = fs::File::open(newest).unwrap();
    file.read_exact_at(&mut first, 0).unwrap();
    id + u64::from(first != [0])
}

#[tokio::test]
async fn head_knows_where_the_journal_ends_even_after_it_went_on_in_another() {
    let folder = scratch();
    let options = EmbeddedStore::at(folder.path())
        .sync(false)
        .journal(16 << 20);
    let store = options.open().unwrap();
    let mut last = Acknowledged::new();
    let large = Record {
        state: State::Completed(Outcome::success(records::bytes(1 << 20))),
        ..records::completed(records::LONG)
    };
    // A new one is begun with the first table after 64 MB.
    while written_to(folder.path()) < 2 {
        let slot = SlotId::from_bytes(std::array::from_fn(|_| fastrand::u8(..)));
        let reply = store.insert(slot, &large, Timestamp::NEVER).await.unwrap();
        last = Acknowledged::from([(slot, large.stamped(reply.now))]);
    }
    store.close();
    let journal = newest_journal(folder.path());
    let id = journal.file_stem().unwrap().to_str().unwrap();
    assert!(
        id.parse::<u64>().unwrap() > 0,
        "it never went on in another journal"
    );
    assert_eq!(in_head(folder.path(), "journal ").to_string(), id);
    assert_eq!(
        in_head(folder.path(), "length "),
        written(&journal).len() as u64
    );
    let opened = open(folder.path(), &last).await;
    assert!(matches!(opened, Opened::Whole), "{opened:?}");
}

#[tokio::test]
async fn a_head_that_is_ahead_is_refused_by_name() {
    let image = Image::new().await;
    let copy = image.copy();
    let head = fs::read_to_string(copy.path().join("HEAD")).unwrap();
    let body = head.rsplit_once("crc ").unwrap().0;
    let lines = body
        .lines()
        .map(|line| match line.split_once(' ').unwrap() {
            ("sequence", number) => format!("sequence {}\n", number.parse::<u64>().unwrap() + 100),
            _ => format!("{line}\n"),
        });
    let body: String = lines.collect();
    let sum = crc32fast::hash(body.as_bytes());
    fs::write(copy.path().join("HEAD"), format!("{body}crc {sum:08x}\n")).unwrap();
    let refused = EmbeddedStore::open(copy.path()).unwrap_err();
    assert!(
        matches!(refused, OpenError::AcknowledgedMissing { .. }),
        "{refused:?}"
    );
    assert!(refused.hint().contains("onceward repair --store embedded:"));
}

#[tokio::test]
async fn a_missing_journal_is_noticed_while_its_batches_are_not_in_tables() {
    let folder = scratch();
    let (gate, keeper) = Gate::new(At::Begin);
    let store = EmbeddedStore::at(folder.path()).journal(8 << 10).disk(gate);
    let store = store.open().unwrap();
    let journal = |id: u64| folder.path().join(format!("data/{id}.jnl"));
    let mut acknowledged = Acknowledged::new();
    put_until(&store, &mut acknowledged, 100, || {
        written_to(folder.path()) > 1
    })
    .await;
    let n = acknowledged.len();
    drop(keeper);
    store.close();
    drop(store);
    fs::remove_file(journal(0)).unwrap();

    let refused = EmbeddedStore::open(folder.path()).unwrap_err();
    assert!(
        refused.to_string().contains("journal 0 is missing"),
        "{refused}"
    );
    let repaired = repair(folder.path()).unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    assert!(all(&store).await.len() < n);
    assert_ne!(repaired.loss(), Loss::Nothing, "{repaired:?}");
    fs::remove_dir_all(repaired.original.unwrap()).unwrap();
}

#[tokio::test]
async fn a_table_shorter_than_its_trailer_is_damage_and_no_trouble_with_the_disk() {
    let image = Image::new().await;
    let copy = image.copy();
    let files = image.files();
    let mut tables = files
        .iter()
        .filter(|it| it.to_string_lossy().contains("/tables/"));
    let table = copy.path().join(tables.next().unwrap());
    let table = fs::OpenOptions::new().write(true).open(table).unwrap();
    table.set_len(19).unwrap();
    let refused = EmbeddedStore::open(copy.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
}
