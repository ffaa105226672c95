//! The SDKs, installed once into the target folder with the versions that are written down.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

/// Where a language's packages and the adapter that uses them are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    Python,
    Node,
}

// === impl Language ===

impl Language {
    /// Returns the command that starts this language's adapter, with its packages installed.
    pub(crate) fn adapter(self) -> Command {
        let folder = self.installed();
        let mut command = match self {
            Self::Python => Command::new(folder.join("venv/bin/python")),
            Self::Node => Command::new(self.interpreter()),
        };
        command.arg(sources().join(match self {
            Self::Python => "python/adapter.py",
            Self::Node => "node/adapter.js",
        }));
        // No proxy, profile or retry mode of whoever runs this gets into the SDKs.
        command.env_clear().env("HOME", &folder);
        if let Some(path) = env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.current_dir(folder);
        command
    }

    /// Installs the packages unless exactly these are there, and returns their folder.
    ///
    /// Tests run as processes of their own, so the first to come installs under a lock. What is
    /// there needs no network.
    fn installed(self) -> PathBuf {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk");
        let folder = root.join(self.name());
        fs::create_dir_all(&root).unwrap();
        let lock = File::create(root.join(format!("{}.lock", self.name()))).unwrap();
        lock.lock().unwrap();
        let wanted = self.wanted();
        let stamp = folder.join("installed");
        if fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
            return folder;
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir(&folder).unwrap();
        self.install(&folder);
        fs::write(stamp, wanted).unwrap();
        folder
    }

    fn install(self, folder: &Path) {
        match self {
            Self::Python => {
                run(Command::new(self.interpreter())
                    .args(["-m", "venv"])
                    .arg(folder.join("venv")));
                run(Command::new(folder.join("venv/bin/python"))
                    .args(["-m", "pip", "install", "--quiet", "--no-deps"])
                    .args(["--disable-pip-version-check", "--requirement"])
                    .arg(self.list()));
            }
            Self::Node => {
                fs::copy(self.list(), folder.join("package.json")).unwrap();
                run(Command::new("npm")
                    .args(["install", "--no-package-lock", "--ignore-scripts"])
                    .args(["--no-audit", "--no-fund", "--silent"])
                    .current_dir(folder));
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
        }
    }

    /// What is to be installed, and for which interpreter: another one needs other files.
    fn wanted(self) -> String {
        let version = run(Command::new(self.interpreter()).arg("--version"));
        version + &fs::read_to_string(self.list()).unwrap()
    }

    fn interpreter(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Node => "node",
        }
    }

    /// The file that names the packages.
    fn list(self) -> PathBuf {
        sources().join(match self {
            Self::Python => "python/requirements.txt",
            Self::Node => "node/package.json",
        })
    }
}

fn sources() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk"))
}

/// Runs a command to its end, and returns what it says.
fn run(command: &mut Command) -> String {
    let out = command.output();
    let out = out.unwrap_or_else(|error| {
        panic!("{command:?} does not start: {error}; scripts/test installs what is missing")
    });
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let told = String::from_utf8_lossy(&out.stderr);
    let status = out.status;
    assert!(status.success(), "{command:?}: {status}\n{told}\n{said}");
    said
}
