//! Opening a store by its URL.

use std::io;
#[cfg(feature = "embedded")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use onceward::{BoxError, MemoryStore, Store};

use crate::StoreUrl;

/// Why a store could not be opened: each a different thing to do, which [`OpenError::hint`] says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder cannot be read or written.
    #[error("cannot read or write the store in {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The folder holds something else.
    #[error("{} is not the folder of a store: it holds {found}", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// A file that no store puts there.
        found: String,
    },

    /// Another process has it open, or this one has.
    #[error("the store in {} is in use", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },

    /// A newer Onceward wrote it.
    #[error(
        "the store in {} has format {found}, this program reads up to {known}",
        path.display()
    )]
    Newer {
        /// The folder.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },

    /// It holds less than was acknowledged. Serving it would repeat work.
    #[error(
        "the store in {} ends at batch {found}, but batch {acknowledged} was acknowledged",
        path.display()
    )]
    AcknowledgedMissing {
        /// The folder.
        path: PathBuf,
        /// The last batch found.
        found: u64,
        /// The last batch known to have been acknowledged.
        acknowledged: u64,
    },

    /// Something in it does not read back as it was written.
    #[error("the store in {} is damaged: {what}", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is damaged.
        what: String,
        /// What was said about it.
        source: Option<BoxError>,
    },

    /// There is no store, but a repair that ended halfway left something beside it.
    #[error(
        "no store is in {}, but a repair left {}",
        path.display(),
        found.display()
    )]
    HalfRepaired {
        /// The folder.
        path: PathBuf,
        /// What the repair left.
        found: PathBuf,
    },

    /// A repair has to rename the folder, which cannot be done.
    #[error("{} is a mount point, which no repair can put elsewhere", path.display())]
    MountPoint {
        /// The folder.
        path: PathBuf,
    },

    /// The disk is full.
    #[error("no space is left for the store in {}", path.display())]
    NoSpace {
        /// The folder.
        path: PathBuf,
    },

    /// The process may not open as many files as the store needs.
    #[error("too many open files to open the store in {}", path.display())]
    TooManyFiles {
        /// The folder.
        path: PathBuf,
    },

    /// This program was built without that kind of store.
    #[error("this program was built without the {store} store")]
    NotBuilt {
        /// The kind of store.
        store: &'static str,
    },
}

/// Opens the store that `url` names.
///
/// Blocks until the store can serve: an embedded store reads its journals first.
///
/// ```
/// use onceward_stores::{StoreUrl, open};
///
/// let url: StoreUrl = "memory:".parse().unwrap();
/// let store = open(&url).unwrap();
/// assert_eq!(store.kind(), "memory");
/// ```
pub fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, OpenError> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new())),
        #[cfg(feature = "embedded")]
        StoreUrl::Embedded { path, sync } => {
            let store = crate::embedded::EmbeddedStore::at(path).sync(*sync);
            Ok(Arc::new(store.open()?))
        }
        #[cfg(not(feature = "embedded"))]
        StoreUrl::Embedded { .. } => Err(OpenError::NotBuilt { store: "embedded" }),
    }
}

// === impl OpenError ===

impl OpenError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Folder { path, .. } => format!(
                "see that {} exists and that this user may read and write it",
                path.display()
            ),
            Self::NotAStore { .. } => "name an empty folder, or one that does not exist".to_owned(),
            Self::InUse { .. } => "stop the other process".to_owned(),
            Self::Newer { .. } => "use the version that wrote it, or a newer one".to_owned(),
            Self::AcknowledgedMissing { path, .. } => format!(
                "bring the missing files back, or accept the loss with: \
                 onceward repair --store embedded:{}",
                path.display()
            ),
            Self::Damaged { path, .. } => format!(
                "restore it from a backup, or see what can be saved with: \
                 onceward repair --store embedded:{}",
                path.display()
            ),
            Self::HalfRepaired { path, found } => format!(
                "if {} holds the store, or has a folder in it that does, move that to {}; if not, \
                 move it away",
                found.display(),
                path.display()
            ),
            Self::MountPoint { path } => format!(
                "copy what is in {} to a folder beside others on a disk, and repair that",
                path.display()
            ),
            Self::NoSpace { path } => format!("make room on the disk of {}", path.display()),
            Self::TooManyFiles { .. } => {
                "raise the limit of open files, for example with: ulimit -n 4096".to_owned()
            }
            Self::NotBuilt { store } => format!("build it with the feature {store}"),
        }
    }
}

#[cfg(feature = "embedded")]
impl OpenError {
    /// Sorts what the system said about the folder.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        let too_many = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
        let code = source.raw_os_error();
        if too_many
            .iter()
            .any(|errno| code == Some(errno.raw_os_error()))
        {
            return Self::TooManyFiles { path };
        }
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
            _ => Self::Folder { path, source },
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
            source: None,
        }
    }

    pub(crate) fn damaged_by(
        path: &Path,
        what: impl Into<String>,
        source: impl Into<BoxError>,
    ) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
            source: Some(source.into()),
        }
    }
}
