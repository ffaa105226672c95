//! The processes of a server, and the programs that they run.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

use onceward::clock::{Clock as _, SystemClock};
use rustix::process::{Pid, Signal, kill_process};

use super::{CLOCK_OFFSET, DATA, DEADLINE, PAUSE};

/// Where PostgreSQL's programs are, and who runs them.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folder: PathBuf,
    version: String,
    /// Root runs them as somebody else, by user and group.
    user: Option<(u32, u32)>,
}

/// A server that runs, with a guard beside it that ends it when this process is gone.
#[derive(Debug)]
pub(super) struct Process {
    guard: Child,
    /// While it is open the guard waits; a line on it says to keep the folder.
    leash: Option<ChildStdin>,
    postmaster: Pid,
}

/// Starts the server and waits until whoever holds the other end of stdin is gone, or says that
/// the folder is still needed.
const GUARD: &str = r#"
folder=$1 && shift
"$@" >>"$folder/log" 2>&1 </dev/null &
pid=$!
echo "$pid"
if read -r _; then keep=yes; else keep=; fi
kill -QUIT "$pid" 2>/dev/null && kill -CONT "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
[ "$keep" ] || rm -rf -- "$folder"
"#;

// === impl Programs ===

impl Programs {
    /// Finds them on the path, or where Debian keeps them, the newest first.
    pub(super) fn find() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
        // A link on the path leads to one program, and to the folder that holds them all.
        let real = |folder: PathBuf| {
            let server = folder.join("postgres").canonicalize().ok()?;
            server.parent().map(Path::to_path_buf)
        };
        let folder = on_path
            .into_iter()
            .chain(debian())
            .filter_map(real)
            .find(|folder| folder.join("initdb").exists())
            .expect("PostgreSQL is installed: apt-get install postgresql");
        let output = std::process::Command::new(folder.join("postgres"))
            .arg("--version")
            .output()
            .expect("the server says its version");
        let version = String::from_utf8_lossy(&output.stdout);
        let version = version
            .split(|char: char| !char.is_ascii_digit() && char != '.')
            .find(|part| !part.is_empty())
            .expect("a version has digits");
        Self {
            version: version.to_owned(),
            user: rustix::process::getuid().is_root().then(somebody),
            folder,
        }
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Whom to run them as, if not as whoever runs this.
    pub(super) fn user(&self) -> Option<(u32, u32)> {
        self.user
    }

    /// Whom their files belong to.
    pub(super) fn owner(&self) -> u32 {
        let own = || rustix::process::getuid().as_raw();
        self.user.map_or_else(own, |(user, _)| user)
    }

    /// A command of PostgreSQL, as the user that may run it.
    pub(super) fn command(&self, name: &str) -> tokio::process::Command {
        self.command_of_system(self.folder.join(name))
    }

    /// A command of the system, as the same user.
    pub(super) fn command_of_system(&self, name: impl AsRef<Path>) -> tokio::process::Command {
        let mut command = std::process::Command::new(name.as_ref());
        self.dress(&mut command);
        command.into()
    }

    /// Runs a command to its end.
    pub(super) async fn run(&self, mut command: tokio::process::Command) {
        let output = command.stdin(Stdio::null()).output().await;
        let output = output.expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
    }

    fn dress(&self, command: &mut std::process::Command) {
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        // Where this process stands may be closed to that user.
        command.current_dir("/");
    }
}

/// Debian's folders, the newest version first.
fn debian() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .flatten()
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

/// The user that Debian makes for the server, or the one with no rights.
fn somebody() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").expect("there are users");
    let find = |name: &str| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next() == Some(name);
            let ids = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            found.then_some(ids)
        })
    };
    find("postgres")
        .or_else(|| find("nobody"))
        .expect("the user postgres is there")
}

// === impl Process ===

impl Process {
    /// Starts the server of a folder.
    pub(super) fn spawn(programs: &Programs, folder: &Path, shim: Option<&Path>) -> Self {
        let mut command = std::process::Command::new("sh");
        programs.dress(&mut command);
        command
            .args(["-c", GUARD, "sh"])
            .arg(folder)
            .arg("env")
            .arg(format!(
                "CLOCK_OFFSET={}",
                folder.join(CLOCK_OFFSET).display()
            ));
        if let Some(shim) = shim {
            command.arg(format!("LD_PRELOAD={}", shim.display()));
        }
        let mut guard = command
            .arg(programs.folder.join("postgres"))
            .arg("-D")
            .arg(folder.join(DATA))
            // What ends a whole group of processes ends its owner, and so this too.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell is there");
        let mut line = String::new();
        let said = guard.stdout.take().expect("it is a pipe");
        BufReader::new(said)
            .read_line(&mut line)
            .expect("it is text");
        let number = line.trim().parse().ok();
        Self {
            leash: guard.stdin.take(),
            guard,
            postmaster: number.and_then(Pid::from_raw).expect("it says its number"),
        }
    }

    /// Whether the server has not ended.
    pub(super) fn is_alive(&mut self) -> bool {
        is_alive(self.postmaster)
    }

    /// Kills every process of the server, and returns when they are gone.
    pub(super) async fn kill(self) {
        let all = self.freeze();
        for pid in &all {
            signal(*pid, Signal::KILL);
        }
        gone(&all).await;
        self.keep();
    }

    /// Ends the server in an orderly way.
    pub(super) async fn stop(self) {
        signal(self.postmaster, Signal::INT);
        gone(&[self.postmaster]).await;
        self.keep();
    }

    /// Ends the server in no orderly way, and has its folder removed.
    pub(super) fn end(mut self, folder: &Path) {
        for pid in self.freeze() {
            signal(pid, Signal::KILL);
        }
        drop(self.leash.take());
        let _ = self.guard.wait();
        let _ = fs::remove_dir_all(folder);
    }

    /// Stops every process where it stands.
    pub(super) fn pause(&self) {
        self.freeze();
    }

    /// Lets every process go on.
    pub(super) fn resume(&self) {
        for child in children(self.postmaster) {
            signal(child, Signal::CONT);
        }
        signal(self.postmaster, Signal::CONT);
    }

    /// Stops every process of the server and returns them: the first one first, so that it starts
    /// no other.
    fn freeze(&self) -> Vec<Pid> {
        signal(self.postmaster, Signal::STOP);
        while !matches!(state(self.postmaster), None | Some('T' | 'Z' | 'X')) {
            std::thread::yield_now();
        }
        let mut all = children(self.postmaster);
        for child in &all {
            signal(*child, Signal::STOP);
        }
        all.push(self.postmaster);
        all
    }

    /// Ends the guard, with the folder left as it is.
    fn keep(mut self) {
        let mut leash = self.leash.take().expect("it is ended once");
        let _ = leash.write_all(b"keep\n");
        let _ = self.guard.wait();
    }
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
        tokio::time::sleep(PAUSE / 10).await;
    }
}

/// Whether a process is there and more than a number that nobody has asked for yet.
fn is_alive(pid: Pid) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// What a process does, in the system's letter.
fn state(pid: Pid) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

/// The children of a process.
fn children(parent: Pid) -> Vec<Pid> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
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
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name is in parentheses, and may hold anything.
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
