//! The programs of PostgreSQL, and the processes that run them.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{CLOCK_OFFSET, DATA, DEADLINE};
use crate::guard::Guard;

/// Where PostgreSQL's programs are, and who runs them.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folder: PathBuf,
    version: String,
    /// Root runs them as somebody else, by user and group.
    user: Option<(u32, u32)>,
}

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
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = tokio::time::timeout(2 * DEADLINE, output).await;
        let output = output.unwrap_or_else(|_| panic!("{command:?} does not end"));
        let output = output.expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
    }

    /// Starts the server of a folder.
    pub(super) fn serve(&self, folder: &Path, shim: Option<&Path>) -> Guard {
        // Its word for "at once, whatever is under way".
        let mut command = Guard::command(folder, "QUIT");
        self.dress(&mut command);
        let offset = folder.join(CLOCK_OFFSET);
        command
            .arg("env")
            .arg(format!("CLOCK_OFFSET={}", offset.display()));
        if let Some(shim) = shim {
            command.arg(format!("LD_PRELOAD={}", shim.display()));
        }
        command.arg(self.folder.join("postgres")).arg("-D");
        command.arg(folder.join(DATA));
        Guard::spawn(command)
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
