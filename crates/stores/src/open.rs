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

    /// Nothing answers there, or not in time.
    #[error("{server} at {place} cannot be reached")]
    Unreachable {
        /// What kind of server.
        server: &'static str,
        /// Host, port and database.
        place: String,
        /// What was said about it.
        source: BoxError,
    },

    /// The server does not let this role in.
    #[error("{server} at {place} does not let {user} in: {why}")]
    Password {
        /// What kind of server.
        server: &'static str,
        /// Host, port and database.
        place: String,
        /// The role.
        user: String,
        /// What the server said.
        why: String,
    },

    /// The role may not do what a store has to.
    #[error("{user} may not use the tables at {place}: {why}")]
    Rights {
        /// Host, port and database.
        place: String,
        /// The role.
        user: String,
        /// What the server said.
        why: String,
    },

    /// There is no such database.
    #[error("PostgreSQL at {place} has no database {database}")]
    NoDatabase {
        /// Host, port and database.
        place: String,
        /// The database.
        database: String,
    },

    /// The server is older than what the statements are written for.
    #[error("{server} at {place} is version {found}, and {oldest} is the oldest that will do")]
    TooOld {
        /// What kind of server.
        server: &'static str,
        /// Host, port and database.
        place: String,
        /// The version of the server.
        found: String,
        /// The oldest version that will do.
        oldest: i32,
    },

    /// The server takes no writes.
    #[error("{server} at {place} is a read-only replica")]
    ReadOnly {
        /// What kind of server.
        server: &'static str,
        /// Host, port and database.
        place: String,
    },

    /// A newer Onceward made the tables.
    #[error("the tables at {place} have version {found}, this program knows up to {known}")]
    NewerSchema {
        /// Host, port and database.
        place: String,
        /// The version found.
        found: i32,
        /// The newest version that this program knows.
        known: i32,
    },

    /// The tables are missing or old, and this program was told to leave them alone.
    #[error("the tables at {place} have version {found}, and version {known} is needed")]
    MigrationNeeded {
        /// Host, port and database.
        place: String,
        /// The version found: 0 where there are none.
        found: i32,
        /// The version that is needed.
        known: i32,
    },

    /// The line to the server cannot be made safe.
    #[error("no TLS with {server} at {place}: {why}")]
    Tls {
        /// What kind of server.
        server: &'static str,
        /// Host, port and database.
        place: String,
        /// What went wrong.
        why: String,
    },

    /// The server said something else.
    #[error("{server} at {place} cannot be used: {why}")]
    Server {
        /// What kind of server.
        server: &'static str,
        /// Host, port and database.
        place: String,
        /// What it said.
        why: String,
    },

    /// The user may not run what a store has to.
    #[error("{user} may not do what a store has to at {place}: {why}")]
    Commands {
        /// Hosts and ports.
        place: String,
        /// The user.
        user: String,
        /// What the server said.
        why: String,
    },

    /// The server throws records away when its memory is full. Serving from it would repeat work.
    #[error(
        "Redis at {place} throws keys away when its memory is full: maxmemory-policy is {policy}"
    )]
    Evicts {
        /// Hosts and ports.
        place: String,
        /// The setting.
        policy: String,
    },

    /// A cache was named beside a store that gains nothing by it.
    #[error("a cache goes in front of a PostgreSQL store, not of {store}")]
    NothingToCache {
        /// The URL of the store.
        store: String,
    },

    /// This program was built without that kind of store.
    #[error("this program was built without the {store} store")]
    NotBuilt {
        /// The kind of store.
        store: &'static str,
    },
}

/// What Redis and its kin are called in errors.
pub(crate) const REDIS: &str = "Redis";

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
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(settings) => {
            let settings = settings.as_ref().clone();
            Ok(Arc::new(crate::postgres::PostgresStore::open(settings)?))
        }
        #[cfg(feature = "redis")]
        StoreUrl::Redis(settings) => {
            let settings = settings.as_ref().clone();
            Ok(Arc::new(crate::redis::RedisStore::open(settings)?))
        }
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
            Self::NothingToCache { .. } => {
                "leave --cache out, or name a database with --store postgres://USER@HOST/DATABASE"
                    .to_owned()
            }
            Self::NotBuilt { store } => format!("build it with the feature {store}"),
            Self::Unreachable { .. }
            | Self::Password { .. }
            | Self::Rights { .. }
            | Self::NoDatabase { .. }
            | Self::TooOld { .. }
            | Self::ReadOnly { .. }
            | Self::NewerSchema { .. }
            | Self::MigrationNeeded { .. }
            | Self::Tls { .. }
            | Self::Commands { .. }
            | Self::Evicts { .. }
            | Self::Server { .. } => self.server_hint(),
        }
    }

    /// What to do about a server.
    fn server_hint(&self) -> String {
        match self {
            Self::Unreachable { .. } => {
                "see that the server runs, that host and port are right, and that nothing stands \
                 between"
                    .to_owned()
            }
            Self::Password { server, .. } if *server == REDIS => {
                "give user and password in the URL, or the password in ONCEWARD_REDIS_PASSWORD, and \
                 see what ACL LIST says about this user"
                    .to_owned()
            }
            Self::Commands { user, .. } => format!(
                "let {user} run scripts on the keys of the prefix and publish on its channel: \
                 ACL SETUSER {user} ~onceward* &onceward* +@all -@dangerous +info +config|get +role"
            ),
            Self::Evicts { .. } => {
                "run: CONFIG SET maxmemory-policy noeviction, and the same in redis.conf".to_owned()
            }
            Self::Password { .. } => {
                "give the password in PGPASSWORD or in the URL, and see what pg_hba.conf says \
                 about this role and host"
                    .to_owned()
            }
            Self::Rights { user, .. } => format!(
                "let an owner run: onceward migrate, then GRANT USAGE on the schema and SELECT, \
                 INSERT, UPDATE, DELETE on its tables to {user}"
            ),
            Self::NoDatabase { database, .. } => format!("create it with: createdb {database}"),
            Self::TooOld { server, oldest, .. } => format!("use {server} {oldest} or newer"),
            Self::ReadOnly { .. } => "name the primary: keys cannot be claimed on a replica, and \
                 what is read there is old"
                .to_owned(),
            Self::NewerSchema { .. } => "use the version that made them, or a newer one".to_owned(),
            Self::MigrationNeeded { .. } => {
                "run: onceward migrate --store URL, or leave migrate=off out of the URL".to_owned()
            }
            Self::Tls { server, .. } if *server == REDIS => {
                "see sslrootcert, sslcert and sslkey in the URL, the names in the server's \
                 certificate, and whether the server has TLS on this port"
                    .to_owned()
            }
            Self::Tls { .. } => {
                "see sslmode, sslrootcert, sslcert and sslkey in the URL, the names in the \
                 server's certificate, and whether the server has TLS at all"
                    .to_owned()
            }
            _ => "see the server's log".to_owned(),
        }
    }

    /// The error and its causes on one line.
    pub fn line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            line = format!("{line}: {next}");
            cause = next.source();
        }
        line
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
