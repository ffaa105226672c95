//! A store on disk, prepared through the library as a service would leave it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use onceward::{
    Claim, Engine, Fingerprint, Key, Policy, Reason, Record, Scope, Secret, Slot, SlotId,
    testing::{ExpectVerdict as _, ManualClock},
};
use onceward_stores::embedded::EmbeddedStore;
use tempfile::TempDir;

use crate::{Run, STARTING, onceward};

/// A folder with a store in it.
pub(crate) struct Deployment {
    folder: TempDir,
    secret: Option<Secret>,
}

/// A service that runs on the store.
pub(crate) struct Service {
    pub(crate) engine: Engine,
}

// === impl Deployment ===

impl Deployment {
    /// Returns a deployment whose store nobody has used yet.
    pub(crate) fn new() -> Self {
        let deployment = Self {
            folder: tempfile::tempdir().unwrap(),
            secret: None,
        };
        deployment.serve(async |_| ());
        deployment
    }

    /// Returns a deployment with an unknown record under the key `lost`, and a completed one
    /// under `paid`.
    pub(crate) fn with_records() -> Self {
        let deployment = Self::new();
        deployment.serve(async |service| {
            service.complete("paid", "charged 100").await;
            service.abandon("lost").await;
        });
        deployment
    }

    /// The same deployment with a secret from outside.
    pub(crate) fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// The folder of the store.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The folder around the store.
    pub(crate) fn around(&self) -> &Path {
        self.folder.path()
    }

    /// The URL of the store.
    pub(crate) fn url(&self) -> String {
        format!("embedded:{}", self.path().display())
    }

    /// Runs a service on the store, and stops it.
    pub(crate) fn serve<T>(&self, work: impl AsyncFnOnce(&Service) -> T) -> T {
        self.serve_on(EmbeddedStore::open(self.path()).unwrap(), work)
    }

    /// Runs a service on the store two years ago, and stops it.
    pub(crate) fn serve_long_ago<T>(&self, work: impl AsyncFnOnce(&Service) -> T) -> T {
        let clock = ManualClock::new();
        clock.step_back(Duration::from_secs(2 * 365 * 86_400));
        // The folder knows that it was opened today, and its clock never goes back.
        fs::remove_dir_all(self.path()).unwrap();
        let store = EmbeddedStore::at(self.path()).clock(Arc::new(clock));
        self.serve_on(store.open().unwrap(), work)
    }

    fn serve_on<T>(&self, store: EmbeddedStore, work: impl AsyncFnOnce(&Service) -> T) -> T {
        let store = Arc::new(store);
        let engine = Engine::builder(store.clone());
        let engine = match &self.secret {
            Some(secret) => engine.secret(secret.clone()).build(),
            None => engine.build(),
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let done = runtime.block_on(work(&Service { engine }));
        drop(runtime);
        drop(store);
        self.wait_until_free();
        done
    }

    /// Waits until nobody has the store open: a process that another test has just started may
    /// have, for a moment.
    pub(crate) fn wait_until_free(&self) {
        let _none = STARTING.write();
        for lock in ["LOCK", "data/lock"] {
            let lock = fs::File::open(self.path().join(lock)).unwrap();
            lock.lock().unwrap();
        }
    }

    /// The record under `key`.
    pub(crate) fn record(&self, key: &str) -> Option<Arc<Record>> {
        self.serve(async |service| {
            let found = service.engine.inspect(service.id(key).await).await;
            found.unwrap().map(|found| found.record)
        })
    }

    /// The slot of `key`.
    pub(crate) fn id(&self, key: &str) -> SlotId {
        self.serve(async |service| service.id(key).await)
    }

    /// Returns the executable, ready to run with the words of `line` on the store.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = onceward(line.split_whitespace());
        command.args(["--store", &self.url()]).env("USER", "ann");
        command
    }

    /// Runs the words of `line` on the store.
    pub(crate) fn run(&self, line: &str) -> Run {
        Run::of(&mut self.command(line))
    }

    /// Replaces a file of the folder by `change` of it, with its checksum made right.
    pub(crate) fn forge(&self, name: &str, change: impl FnOnce(&str) -> String) {
        let file = self.path().join(name);
        let text = fs::read_to_string(&file).unwrap();
        let (body, _) = text.split_at(text.rfind("crc ").unwrap());
        let body = change(body);
        let sum = crc32fast::hash(body.as_bytes());
        fs::write(file, format!("{body}crc {sum:08x}\n")).unwrap();
    }

    /// Lets HEAD promise more than the folder holds.
    pub(crate) fn lose_acknowledged_writes(&self) {
        self.forge("HEAD", |head| {
            let lines = head
                .lines()
                .map(|line| match line.strip_prefix("sequence ") {
                    Some(number) => format!("sequence {}\n", number.parse::<u64>().unwrap() + 1000),
                    None => format!("{line}\n"),
                });
            lines.collect()
        });
    }
}

// === impl Service ===

impl Service {
    /// The same service with other rules.
    pub(crate) fn policy(&self, change: impl FnOnce(Policy) -> Policy) -> Self {
        Self {
            engine: self.engine.with_policy(change(Policy::default())),
        }
    }

    /// Arrives as tenant `acct_42` for operation `pay`, and gets to execute.
    pub(crate) async fn claim(&self, key: &str) -> Claim {
        let verdict = self.engine.begin(&slot(key), Fingerprint::of(b"100")).await;
        verdict.unwrap().expect_claim()
    }

    /// Does the work of `key`.
    pub(crate) async fn complete(&self, key: &str, answer: impl Into<Vec<u8>>) {
        let claim = self.claim(key).await;
        claim.complete(answer.into()).await.unwrap();
    }

    /// Loses the answer of the work of `key`.
    pub(crate) async fn abandon(&self, key: &str) {
        let claim = self.claim(key).await;
        claim.abandon(Reason::new("no answer")).await.unwrap();
    }

    /// The slot of `key`.
    pub(crate) async fn id(&self, key: &str) -> SlotId {
        self.engine.id_of(&slot(key)).await.unwrap()
    }

    /// The answer that a retry of `key` gets.
    pub(crate) async fn replay(&self, key: &str) -> String {
        let verdict = self.engine.begin(&slot(key), Fingerprint::of(b"100")).await;
        verdict.unwrap().expect_replay()
    }
}

fn slot(key: &str) -> Slot {
    Slot::new(Scope::new("acct_42", "pay"), Key::parse(key).unwrap())
}
