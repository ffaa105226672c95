//! Sources: where transactions come from, so that nobody keeps one while waiting.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join};
use onceward::BoxError;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::super::doubts::Doubts;
use super::super::{Settings, tls};
use super::fault::{Fault, Unfinished};
use super::session::{Answers, Call, Calls, Cells, Connection};

/// Where [`Transactional::run`](super::Transactional::run) gets its transactions from: a
/// [`Checkout`], or (with the feature `sqlx`) a `sqlx::PgPool`.
pub trait Source: Send + Sync {
    /// A connection with an open transaction.
    type Open: Open;

    /// Takes a connection, begins a transaction, and sends `calls` in it, all `within` that time.
    #[doc(hidden)]
    fn open<'a>(
        &'a self,
        calls: &'a [Call<'a>],
        within: Duration,
    ) -> BoxFuture<'a, Opened<Self::Open>>;
}

/// A transaction that was begun, with the answers to its first calls.
pub(super) type Opened<O> = Result<(O, Vec<Option<Cells>>), Fault>;

/// A connection with an open transaction. Dropping it rolls back.
pub trait Open: Calls {
    /// What the work's own statements go to.
    type Target;

    #[doc(hidden)]
    fn target(&self) -> &Self::Target;

    /// Sends `call` and commits, both in one go where that is safe. What is not answered `within`
    /// that time is in doubt.
    #[doc(hidden)]
    fn finish<'a>(self, call: Call<'a>, within: Duration) -> BoxFuture<'a, Finished>
    where
        Self: 'a;

    /// The connection did not answer in time, and is not to be used again.
    #[doc(hidden)]
    fn spend(&self);
}

/// What a transaction that was to be committed came to.
pub(super) type Finished = Result<(), Unfinished>;

/// A pool of tokio-postgres.
///
/// What it gives out has to go back when it is dropped, unless it [is
/// spent](Connection::is_spent). A pool of another crate, such as deadpool or bb8, makes its
/// connections with [`Connection::watched`] and gives them out here.
pub trait Checkout: Send + Sync {
    /// What is given out.
    type Given: Deref<Target = Connection> + Send + Sync + 'static;

    /// Takes a connection, or says why there is none.
    fn checkout(&self) -> impl Future<Output = Result<Self::Given, BoxError>> + Send;
}

/// A small pool of connections to the store's own database.
///
/// Connections are made when they are needed, up to a limit; whoever finds all of them taken
/// waits for one, as long as the settings' timeout says.
///
/// Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Connections(Arc<Shared>);

struct Shared {
    settings: Settings,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

/// What is said of a transaction whose connection is not used any more.
pub(super) const LATE: &str = "the database did not answer in time";

/// What is said of a commit that is on the server, and may not be on its standby.
const UNWAITED: &str = "the server did not wait for its standby";

/// Connects as the settings say, and returns the connection with what has to be driven.
pub(in super::super) async fn connect(
    settings: &Settings,
) -> Result<(Connection, impl Future<Output = ()> + Send + use<>), BoxError> {
    let tls = tls::connector(settings)?;
    let mut refused: BoxError = "the server did not answer in time".into();
    for (config, share) in settings.turns(settings.timeout()) {
        match timeout(share, config.connect(tls.clone())).await {
            Ok(Ok((client, connection))) => return Ok(Connection::watched(client, connection)),
            Ok(Err(error)) => refused = error.into(),
            // It has had its share.
            Err(_) => {}
        }
    }
    Err(refused)
}

/// A connection of a pool, which it goes back to when dropped.
#[derive(Debug)]
pub struct Lent {
    pool: Connections,
    connection: Option<Connection>,
    _permit: OwnedSemaphorePermit,
}

/// A connection of tokio-postgres with an open transaction.
#[derive(Debug)]
pub struct OpenOn<C: Deref<Target = Connection>> {
    connection: C,
    stage: Stage,
}

/// How far a transaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It has yet to be ended.
    Open,
    /// Its commit is on its way, and nobody knows what becomes of it.
    Committing,
    /// There is nothing to roll back any more.
    Ended,
}

// === impl Source ===

impl<C: Checkout> Source for C {
    type Open = OpenOn<C::Given>;

    fn open<'a>(
        &'a self,
        calls: &'a [Call<'a>],
        within: Duration,
    ) -> BoxFuture<'a, Opened<Self::Open>> {
        Box::pin(async move {
            let given = timeout(within, self.checkout()).await;
            let given = given.map_err(|_| Fault::Gone("there was no connection in time".into()))?;
            let opened = OpenOn {
                connection: given.map_err(Fault::Gone)?,
                stage: Stage::Open,
            };
            let rows = timeout(within, opened.connection.begin(calls)).await;
            let rows = rows.map_err(|_| {
                opened.spend();
                Fault::Gone(LATE.into())
            })??;
            Ok((opened, rows))
        })
    }
}

// === impl OpenOn ===

impl<C: Deref<Target = Connection>> OpenOn<C> {
    fn reach(&mut self, stage: Stage) {
        self.stage = stage;
    }
}

impl<C: Deref<Target = Connection> + Send + Sync> Calls for OpenOn<C> {
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers> {
        async move { (&*self.connection).calls(calls).await }.boxed()
    }

    fn tell(&self, doubts: &Arc<Doubts>) {
        (&*self.connection).tell(doubts);
    }
}

impl<C: Deref<Target = Connection> + Send + Sync> Open for OpenOn<C> {
    type Target = Client;

    fn target(&self) -> &Client {
        &self.connection
    }

    fn finish<'a>(mut self, call: Call<'a>, within: Duration) -> BoxFuture<'a, Finished>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let connection = &*self.connection;
            let calls = [call];
            let prepared = timeout(within, connection.prepare(&calls)).await;
            let prepared = prepared.map_err(|_| {
                self.spend();
                Unfinished::No(Fault::Gone(LATE.into()))
            })?;
            prepared.map_err(Unfinished::No)?;
            self.reach(Stage::Committing);
            let connection = &*self.connection;
            let mut session = connection;
            // The write breaks the transaction where it cannot be made, and then the commit
            // behind it is a rollback: nobody has to look in between.
            let unwaited = connection.unwaited();
            let commit = connection.batch_execute("COMMIT");
            let answers = timeout(within, join(session.calls(&calls), commit)).await;
            let answers = answers.inspect_err(|_| self.spend());
            // The warning comes before the answer.
            let waited = connection.unwaited() == unwaited;
            self.reach(Stage::Ended);
            match answers {
                Err(_) => Err(Unfinished::InDoubt(LATE.into())),
                Ok((Err(fault), _)) => Err(Unfinished::before_commit(fault)),
                Ok((Ok(_), Err(error))) => Err(error.into()),
                // It is there for all to see, and may be nowhere else.
                Ok((Ok(_), Ok(()))) if !waited => Err(Unfinished::InDoubt(UNWAITED.into())),
                Ok((Ok(_), Ok(()))) => Ok(()),
            }
        })
    }

    fn spend(&self) {
        self.connection.spend();
    }
}

impl<C: Deref<Target = Connection>> Drop for OpenOn<C> {
    /// Sends the rollback and does not wait for its answer: whatever is sent on the connection
    /// next comes after it. Behind a commit that waits for its standby it would come too late, so
    /// a connection on which one is on its way is not used again.
    fn drop(&mut self) {
        match self.stage {
            Stage::Open => drop(self.connection.batch_execute("ROLLBACK").now_or_never()),
            Stage::Committing => self.connection.spend(),
            Stage::Ended => {}
        }
    }
}

// === impl Connections ===

impl Connections {
    /// Returns a pool of at most `limit` connections to the database of `settings`, none of
    /// which is made yet.
    pub fn new(settings: &Settings, limit: usize) -> Self {
        Self(Arc::new(Shared {
            settings: settings.clone(),
            permits: Arc::new(Semaphore::new(limit.max(1))),
            idle: Mutex::default(),
        }))
    }

    /// Takes a connection, or makes one. It goes back when it is dropped.
    ///
    /// Needs a tokio runtime, on which the connection is driven.
    pub async fn get(&self) -> Result<Lent, BoxError> {
        let permit = self.0.permits.clone().acquire_owned();
        let permit = timeout(self.0.settings.timeout(), permit).await;
        let permit = permit.map_err(|_| "every connection of the pool is taken")??;
        let connection = match self.idle() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Lent {
            pool: self.clone(),
            connection: Some(connection),
            _permit: permit,
        })
    }

    fn idle(&self) -> Option<Connection> {
        let mut idle = self.0.idle.lock();
        std::iter::from_fn(|| idle.pop()).find(|connection| !connection.is_spent())
    }

    async fn connect(&self) -> Result<Connection, BoxError> {
        let (connection, driver) = connect(&self.0.settings).await?;
        // Ends when its client is dropped.
        tokio::spawn(driver);
        Ok(connection)
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("settings", &self.0.settings)
            .field("free", &self.0.permits.available_permits())
            .finish_non_exhaustive()
    }
}

impl Checkout for Connections {
    type Given = Lent;

    async fn checkout(&self) -> Result<Lent, BoxError> {
        self.get().await
    }
}

// === impl Lent ===

impl Deref for Lent {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        let connection = self.connection.as_ref();
        connection.expect("it is there until it is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Connection {
        let connection = self.connection.as_mut();
        connection.expect("it is there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !connection.is_spent()
        {
            self.pool.0.idle.lock().push(connection);
        }
    }
}
