//! A victim: a real process on a real store, what it said, and what must still be there.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use onceward::record::StateName;
use onceward::{Engine, Key, Scope, Slot, Store};
use onceward_stores::{OpenError, StoreUrl};

/// A process that pays under one key after the other until it is killed.
pub(crate) struct Victim {
    child: Child,
    lines: BufReader<ChildStdout>,
    said: Said,
}

/// What a victim said so far.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) ready: bool,
    /// Keys whose work was about to happen.
    pub(crate) effects: BTreeSet<u64>,
    /// Keys whose outcome was stored.
    pub(crate) done: BTreeSet<u64>,
    /// Keys whose callers were told that nobody knows.
    pub(crate) unknown: BTreeSet<u64>,
    /// How many calls failed and were retried.
    pub(crate) failed: u64,
}

// === impl Victim ===

impl Victim {
    /// Starts a victim on the store in `folder`, for `count` keys from `from` on.
    pub(crate) fn start<'a>(
        url: &str,
        (from, count): (u64, u64),
        environment: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
    ) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_victim"))
            .args([url, &from.to_string(), &count.to_string(), "8"])
            .envs(environment)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the victim starts");
        let lines = BufReader::new(child.stdout.take().expect("its stdout is a pipe"));
        Self {
            child,
            lines,
            said: Said::default(),
        }
    }

    /// Listens until the victim has said `lines` more lines, or all it has to say.
    pub(crate) fn hear(&mut self, lines: usize) {
        for _ in 0..lines {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("its lines are text");
            // A line cut off by the kill says nothing.
            if read == 0 || !line.ends_with('\n') {
                return;
            }
            self.said.note(line.trim_end());
        }
    }

    /// Kills the victim, as an operating system out of memory does.
    pub(crate) fn kill(mut self) -> Said {
        self.child.kill().expect("the victim can be killed");
        self.end().1
    }

    /// Waits for the victim to end by itself.
    pub(crate) fn end(mut self) -> (ExitStatus, Said) {
        self.hear(usize::MAX);
        let status = self.child.wait().expect("the victim ends");
        (status, self.said)
    }
}

// === impl Said ===

impl Said {
    fn note(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = || {
            rest.split(' ')
                .next()
                .and_then(|number| number.parse().ok())
        };
        match (word, number()) {
            ("ready", _) => self.ready = true,
            ("effect", Some(number)) => assert!(self.effects.insert(number), "{number} twice"),
            ("done", Some(number)) => assert!(self.done.insert(number), "{number} twice"),
            ("unknown", Some(number)) => drop(self.unknown.insert(number)),
            ("failed", Some(_)) => self.failed += 1,
            _ => panic!("the victim said {line:?}"),
        }
    }

    /// Asserts that everything the victim was promised is in the store, and nothing is hidden.
    pub(crate) fn check(&self, folder: &Path) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime starts");
        runtime.block_on(async {
            let url = format!("embedded:{}", folder.display());
            let url: StoreUrl = url.parse().expect("the URL is good");
            let store = open(&url).await.expect("the store opens after any crash");
            let engine = Engine::builder(store).build();
            for number in self.effects.union(&self.done) {
                let state = state(&engine, *number).await;
                match self.done.contains(number) {
                    true => assert_eq!(state, Some(StateName::Completed), "key {number} is lost"),
                    false => assert!(
                        matches!(state, Some(StateName::Completed | StateName::Unknown)),
                        "the effect of key {number} is forgotten: {state:?}"
                    ),
                }
            }
        });
    }
}

/// The state of a key's record; a completed one has to hold the very answer.
async fn state(engine: &Engine, number: u64) -> Option<StateName> {
    let key = Key::parse(&format!("key-{number}")).expect("printable");
    let slot = Slot::new(Scope::new("victim", "pay"), key);
    let id = engine.id_of(&slot).await.expect("the secret is there");
    let found = engine.inspect(id).await.expect("every record reads")?;
    if let Some(outcome) = found.record.outcome() {
        let receipt = format!("receipt-{number}-{}", "x".repeat(300));
        assert_eq!(outcome.body().map(AsRef::as_ref), Some(receipt.as_bytes()));
    }
    Some(found.record.state.name())
}

/// Compiles the shim that makes file operations fail.
pub(crate) fn shim(folder: &Path) -> PathBuf {
    let library = folder.join("faults.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/faults.c");
    let compiled = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .expect("a C compiler is there");
    assert!(compiled.success(), "the shim compiles");
    library
}

/// Opens a store that another process may hold for a moment longer: whatever was open here when
/// somebody else started a program is open there, too, until that program runs.
async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, OpenError> {
    for _ in 0..500 {
        match onceward_stores::open(url) {
            Err(OpenError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            opened => return opened,
        }
    }
    onceward_stores::open(url)
}
