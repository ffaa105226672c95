//! Guards: shells that end a server when the process that started it is gone, however that ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use rustix::process::{Pid, Signal, kill_process};

/// A server that runs, with a shell beside it that waits for this process.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    /// While it is open the shell waits; a line on it says to keep the folder.
    leash: Option<ChildStdin>,
    server: Pid,
}

/// How long a process may take to end.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long to wait before looking once more.
const PAUSE: Duration = Duration::from_millis(1);

/// Starts the server and waits until whoever holds the other end of stdin is gone, or says that
/// the folder is still needed.
const SCRIPT: &str = r#"
folder=$1 && signal=$2 && shift 2
"$@" >>"$folder/log" 2>&1 </dev/null &
pid=$!
echo "$pid"
if read -r _; then keep=yes; else keep=; fi
kill "-$signal" "$pid" 2>/dev/null && kill -CONT "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
[ "$keep" ] || rm -rf -- "$folder"
"#;

// === impl Guard ===

impl Guard {
    /// Returns a shell that is to guard a server in `folder`, which `signal` ends at once. What is
    /// added to it is the server's command.
    pub(crate) fn command(folder: &Path, signal: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "sh"])
            .arg(folder)
            .arg(signal)
            // What ends a whole group of processes ends its owner, and so this too.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    /// Starts a server by such a command.
    ///
    /// # Panics
    ///
    /// Panics if there is no shell.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut shell = command.spawn().expect("a shell is there");
        let mut line = String::new();
        let said = shell.stdout.take().expect("it is a pipe");
        BufReader::new(said)
            .read_line(&mut line)
            .expect("it is text");
        let number = line.trim().parse().ok();
        Self {
            leash: shell.stdin.take(),
            shell,
            server: number.and_then(Pid::from_raw).expect("it says its number"),
        }
    }

    /// The server's first process.
    pub(crate) fn server(&self) -> Pid {
        self.server
    }

    /// Stops every process of the server and returns them: the first one first, so that it starts
    /// no other.
    pub(crate) fn freeze(&self) -> Vec<Pid> {
        signal(self.server, Signal::STOP);
        while !matches!(state(self.server), None | Some('T' | 'Z' | 'X')) {
            std::thread::yield_now();
        }
        let mut all = children(self.server);
        for child in &all {
            signal(*child, Signal::STOP);
        }
        all.push(self.server);
        all
    }

    /// Lets every process go on.
    pub(crate) fn resume(&self) {
        for child in children(self.server) {
            signal(child, Signal::CONT);
        }
        signal(self.server, Signal::CONT);
    }

    /// Kills every process of the server, and returns when they are gone. The folder stays.
    pub(crate) async fn kill(self) {
        let all = self.freeze();
        for pid in &all {
            signal(*pid, Signal::KILL);
        }
        gone(&all).await;
        self.keep();
    }

    /// Ends the server by a signal that it obeys, and returns when it is gone. The folder stays.
    pub(crate) async fn stop(self, by: Signal) {
        signal(self.server, by);
        gone(&[self.server]).await;
        self.keep();
    }

    /// Kills every process of the server, and has its folder removed.
    pub(crate) fn end(mut self, folder: &Path) {
        for pid in self.freeze() {
            signal(pid, Signal::KILL);
        }
        drop(self.leash.take());
        let _ = self.shell.wait();
        let _ = std::fs::remove_dir_all(folder);
    }

    /// Ends the shell, with the folder left as it is.
    fn keep(mut self) {
        let mut leash = self.leash.take().expect("it is ended once");
        let _ = leash.write_all(b"keep\n");
        let _ = self.shell.wait();
    }
}

/// Whether a process is there and more than a number that nobody has asked for yet.
pub(crate) fn is_alive(pid: Pid) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// A process that has ended by itself is no mistake.
fn signal(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

async fn gone(all: &[Pid]) {
    let start = SystemClock.stopwatch();
    while all.iter().any(|pid| is_alive(*pid)) {
        let waited = SystemClock.stopwatch() - start;
        assert!(waited < DEADLINE, "the server does not end");
        tokio::time::sleep(PAUSE).await;
    }
}

/// What a process does, in the system's letter.
fn state(pid: Pid) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

/// The children of a process.
fn children(parent: Pid) -> Vec<Pid> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(number)
    });
    let is_child =
        |pid: &Pid| stat(*pid).is_some_and(|(_, number)| number == parent.as_raw_nonzero().get());
    pids.filter(is_child).collect()
}

/// The state and the parent of a process.
fn stat(pid: Pid) -> Option<(char, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name is in parentheses, and may hold anything.
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
