//! An SDK in a process of its own, told over pipes which calls to make.

use std::{
    collections::HashMap,
    fmt,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::packages::Language;

/// Longer than any call takes, also on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(90);

/// A running adapter.
pub(crate) struct Adapter {
    child: Child,
    stdin: Mutex<ChildStdin>,
    waiting: Arc<Mutex<HashMap<u64, Sender<Said>>>>,
    name: String,
}

/// A call to make.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Where the SDK is pointed at.
    pub(crate) url: String,
    /// The key, or none where the SDK makes its own.
    pub(crate) key: Option<String>,
    /// What differs between payloads.
    pub(crate) name: &'static str,
    /// Whether the SDK may retry as it does by default.
    pub(crate) retries: bool,
    /// When the SDK gives up on one attempt.
    pub(crate) timeout: Option<Duration>,
}

/// A call that was started.
pub(crate) struct Started(Receiver<Said>);

/// What a call came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    /// It returned a resource with this id.
    Made(String),
    /// It raised an error.
    Raised(Raised),
}

/// An error as the SDK raised it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Raised {
    /// The name of its class.
    pub(crate) class: String,
    /// Whether the class is the SDK's, and not that of a library or of the language.
    pub(crate) own: bool,
    /// All text a program can get out of it.
    pub(crate) message: String,
}

// === impl Adapter ===

impl Adapter {
    /// Starts the adapter of an SDK.
    pub(crate) fn start(language: Language, sdk: &str) -> Self {
        let mut command = language.adapter();
        command
            .arg(sdk)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = Mutex::new(child.stdin.take().unwrap());
        let waiting = Arc::default();
        let stdout = child.stdout.take().unwrap();
        let told = Arc::clone(&waiting);
        thread::spawn(move || listen(stdout, &told));
        Self {
            child,
            stdin,
            waiting,
            name: format!("{language:?} {sdk}"),
        }
    }

    /// Starts a call.
    pub(crate) fn call(&self, call: &Call) -> Started {
        let (sender, receiver) = channel();
        let mut waiting = self.waiting.lock().unwrap();
        let id = waiting.len() as u64;
        waiting.insert(id, sender);
        drop(waiting);
        let line = json!({
            "id": id,
            "url": call.url,
            "key": call.key,
            "name": call.name,
            "retries": call.retries,
            "timeout": call.timeout.map(|timeout| timeout.as_secs()),
        });
        let mut stdin = self.stdin.lock().unwrap();
        writeln!(stdin, "{line}").unwrap_or_else(|error| panic!("{}: {error}", self.name));
        Started(receiver)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // It may be in the middle of a call that nobody waits for any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hands every answer to whoever waits for it.
fn listen(stdout: ChildStdout, waiting: &Mutex<HashMap<u64, Sender<Said>>>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(Ok(said)) = line.map(|line| serde_json::from_str::<Value>(&line)) else {
            break;
        };
        let id = said["id"].as_u64().unwrap();
        if let Some(sender) = waiting.lock().unwrap().get(&id) {
            // A scenario that failed has stopped listening.
            let _ = sender.send(Said::of(&said));
        }
    }
    // Nobody is to wait for an adapter that has ended.
    waiting.lock().unwrap().clear();
}

// === impl Started ===

impl Started {
    /// Waits for what the call comes to.
    pub(crate) fn wait(self) -> Result<Said, String> {
        self.0
            .recv_timeout(ANSWERED_WITHIN)
            .map_err(|error| format!("the SDK has said nothing: {error}"))
    }
}

// === impl Said ===

impl Said {
    fn of(said: &Value) -> Self {
        if let Some(made) = said["made"].as_str() {
            return Self::Made(made.into());
        }
        let error = &said["error"];
        Self::Raised(Raised {
            class: error["class"].as_str().unwrap_or("nothing").into(),
            own: error["own"].as_bool().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().into(),
        })
    }

    /// Returns the id of what was made.
    pub(crate) fn made(self) -> Result<String, String> {
        match self {
            Self::Made(id) => Ok(id),
            Self::Raised(raised) => Err(format!("raised {raised}")),
        }
    }

    /// Returns the error that was raised.
    pub(crate) fn raised(self) -> Result<Raised, String> {
        match self {
            Self::Raised(raised) => Ok(raised),
            Self::Made(id) => Err(format!("made {id}, where an error belongs")),
        }
    }
}

// === impl Raised ===

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.own { "its own" } else { "a foreign" };
        write!(f, "{whose} {}: {}", self.class, self.message)
    }
}
