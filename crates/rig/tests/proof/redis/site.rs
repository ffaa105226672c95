//! Stores and sites on Redis.

use std::collections::BTreeSet;
use std::sync::Arc;

use onceward::{Effect, Store};
use onceward_rig::history::Check;
use onceward_rig::tally::Tally;
use onceward_stores::OpenError;
use onceward_stores::redis::{RedisStore, Settings};

pub(super) use crate::site::{Site, run};

/// Opens a site on the servers of `url`, for work of one class.
pub(super) async fn open(url: &str, effect: Effect) -> Site {
    open_beside(url, url, effect).await
}

/// Opens a site whose records are read in the end by another way than the nodes' own.
pub(super) async fn open_beside(url: &str, reads: &str, effect: Effect) -> Site {
    Site::over([store(url), store(url)], store(reads), effect).await
}

/// A store on a server, which gives up on a silent one soon.
pub(super) fn store(url: &str) -> Arc<dyn Store> {
    let between = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{between}timeout=1500ms");
    let settings: Settings = url.parse().expect("the URL is good");
    let mut tries = 0;
    loop {
        tries += 1;
        match RedisStore::open(settings.clone()) {
            Ok(store) => return Arc::new(store),
            // A busy machine may be slow to let anybody in.
            Err(OpenError::Unreachable { .. }) if tries < 10 => {}
            Err(error) => panic!("the store does not open: {}", error.line()),
        }
    }
}

/// The rules that hold for keyed work on a store that forgets: one effect, one answer, and nothing
/// for anybody else. The others speak of records, which may be gone.
const KEPT: [Check; 5] = [Check::C1, Check::C2, Check::C7, Check::C8, Check::C9];

/// Ends a site of keyed work whose servers have forgotten some of it, and sees that no caller can
/// tell: every key was charged for once, and its answer is still the first one.
pub(super) async fn close_forgetful(site: Site, proof: &str, trials: u64, note: &str) {
    let forgotten = site.missing().await;
    let others = site.ask_again().await;
    let verdict = site.close().await;
    let kept = BTreeSet::from(KEPT);
    let broken: BTreeSet<_> = verdict.broken.intersection(&kept).collect();
    let violations = others + verdict.charged_twice + broken.len() as u64;
    let note = format!(
        "{note}; of {} keys acknowledged {forgotten} records were forgotten, charged twice {}, \
         answered otherwise {others}",
        verdict.acknowledged, verdict.charged_twice
    );
    println!("{proof}: {trials} trials; {note}");
    Tally::record(proof, trials, None, violations, &note);
    assert_eq!(verdict.charged_twice, 0, "keys were charged for twice");
    assert_eq!(others, 0, "keys have another answer than before");
    assert!(broken.is_empty(), "{broken:?}: {:?}", verdict.wrong);
    assert!(verdict.acknowledged > 10, "the callers hardly worked");
}
