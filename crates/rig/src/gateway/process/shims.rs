//! Libraries that stand between a process and its system: clocks that jump, disks that fill up.

use std::path::{Path, PathBuf};

use super::{CLOCK_OFFSET, Launch};

/// The file whose presence lets faults strike.
const ARMED: &str = "armed";

// === impl Launch ===

impl Launch {
    /// Gives it a wall clock that can be [moved](super::Gateway::move_clock).
    ///
    /// # Panics
    ///
    /// Panics without a C compiler.
    #[must_use]
    pub fn movable_clock(self) -> Self {
        let library = shim("clock", self.folder()).display().to_string();
        let offset = self.file(CLOCK_OFFSET, "0").display().to_string();
        self.variable("LD_PRELOAD", &library)
            .variable("CLOCK_OFFSET", &offset)
    }

    /// Lets calls on its store's files fail: `kind:ERROR:from:count`, as the [`shim`] named
    /// `faults` says, whose library this is. They are counted once [`arm`](Self::arm) was called.
    #[must_use]
    pub fn faults(self, library: &Path, orders: &str) -> Self {
        let below = self.folder().join("store").display().to_string();
        let struck = self.struck().display().to_string();
        let armed = self.folder().join(ARMED).display().to_string();
        self.variable("LD_PRELOAD", &library.display().to_string())
            .variable("FAULTS", orders)
            .variable("FAULTS_BELOW", &below)
            .variable("FAULTS_NOTE", &struck)
            .variable("FAULTS_WHEN", &armed)
    }

    /// Lets faults strike from now on.
    pub fn arm(&self) {
        self.file(ARMED, "");
    }

    /// Lets nothing fail from the next start on.
    #[must_use]
    pub fn without_faults(self) -> Self {
        self.without_variable("LD_PRELOAD")
    }

    /// Whether a fault has struck.
    pub fn was_struck(&self) -> bool {
        self.struck().exists()
    }

    fn struck(&self) -> PathBuf {
        self.folder().join("struck")
    }
}

/// Compiles one of the shims into `folder`, and returns the library.
///
/// # Panics
///
/// Panics without a C compiler.
pub fn shim(name: &str, folder: &Path) -> PathBuf {
    let library = folder.join(format!("{name}.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("shim/{name}.c"));
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]);
    let compiled = compiler.args([&library, &source]).status();
    let compiled = compiled.expect("there is a C compiler");
    assert!(compiled.success(), "{name} does not compile");
    library
}
