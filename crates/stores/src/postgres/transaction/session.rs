//! Sessions: the caller's own transaction, whichever driver it is of.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join, join_all};
use onceward::BoxError;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Transaction};

use super::super::doubts::Doubts;
use super::fault::Fault;
use super::notices::{Notices, drive};
use super::opening::Opening;
use super::statements::{Sql, Statement};

/// A transaction that the caller has begun, and will commit or roll back.
///
/// A reference to a transaction or client of tokio-postgres, to a [`Connection`], or (with the
/// feature `sqlx`) a mutable one to a connection or transaction of sqlx. A client on which no
/// `BEGIN` was sent is no transaction: each statement would stand alone.
pub trait Session: Calls {}

impl<S: Calls> Session for S {}

/// Asks the database. Not nameable elsewhere, so that drivers are added here alone.
pub trait Calls: Send {
    /// Sends `calls`, in one go where the driver can, and returns the row of each.
    #[doc(hidden)]
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers>;

    /// Lets a store hear of commits here that did not wait for their standby, where that is seen.
    #[doc(hidden)]
    fn tell(&self, _: &Arc<Doubts>) {}
}

/// The rows of some calls, in their order.
pub(super) type Answers = Result<Vec<Option<Cells>>, Fault>;

/// One statement with its values.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub(super) statement: &'a Statement,
    pub(super) values: &'a [Value<'a>],
}

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// A number.
    Int(i64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A text.
    Text(&'a str),
}

/// The columns that every statement answers with.
#[derive(Debug)]
pub struct Cells {
    pub(super) yes: bool,
    pub(in super::super) number: i64,
    pub(super) written: Option<i64>,
    pub(super) record: Option<Bytes>,
    /// When the transaction began, in microseconds, where that is asked for.
    pub(super) began: i64,
}

/// A connection of tokio-postgres that keeps the statements prepared on it.
///
/// A plain `Client` works as well, but has its statements planned anew each time, which takes
/// about as long again as executing them.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    prepared: Mutex<Arc<Prepared>>,
    opening: Opening,
    notices: Arc<Notices>,
    /// Whether it once did not answer in time.
    is_late: AtomicBool,
}

/// A transaction on a [`Connection`]: what [`Connection::transaction`] returns.
pub struct PreparedTransaction<'a> {
    inner: Transaction<'a>,
    prepared: Arc<Prepared>,
    notices: Arc<Notices>,
}

/// The statements of one connection, each prepared when it is first used.
///
/// They are those of the tables that were first used on it. Those of other tables are not kept:
/// they work as on a plain client.
#[derive(Default)]
pub(super) struct Prepared([OnceCell<(Arc<str>, tokio_postgres::Statement)>; Sql::COUNT]);

// === impl Connection ===

impl Connection {
    /// Returns `client` with room for its statements. The other half of the connection has to be
    /// driven as always; whoever drives it is told of commits that did not wait for their standby,
    /// and [`Transactional::run`](super::Transactional::run) is not: see [`Connection::watched`].
    pub fn new(client: Client) -> Self {
        Self::with(client, Arc::default())
    }

    /// Returns both halves of a connection, of which the other has to be driven by whoever calls,
    /// as in `tokio::spawn(driver)`. A commit that did not wait for its synchronous standby is then
    /// in doubt for [`Transactional::run`](super::Transactional::run) as well.
    pub fn watched<S, T>(
        client: Client,
        connection: tokio_postgres::Connection<S, T>,
    ) -> (Self, impl Future<Output = ()> + use<S, T>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let notices = Arc::default();
        let driver = drive(connection, Arc::clone(&notices));
        (Self::with(client, notices), driver)
    }

    fn with(client: Client, notices: Arc<Notices>) -> Self {
        Self {
            client,
            prepared: Mutex::default(),
            opening: Opening::default(),
            notices,
            is_late: AtomicBool::new(false),
        }
    }

    /// The same without statements that are prepared in SQL, which save a little of the time that
    /// [`Transactional::run`](super::Transactional::run) takes. For proxies that do not share a
    /// connection any more on which something was prepared that way.
    #[must_use]
    pub fn without_names(self) -> Self {
        self.opening.close();
        self
    }

    /// Whether it is of no more use: closed, or it did not answer in time and nobody knows what
    /// it is still about. A pool drops such a connection and does not give it out again.
    pub fn is_spent(&self) -> bool {
        self.is_late.load(Ordering::Relaxed) || self.client.is_closed()
    }

    /// It did not answer in time.
    pub(super) fn spend(&self) {
        self.is_late.store(true, Ordering::Relaxed);
    }

    /// How many commits on it did not wait for their standby, as far as that is seen.
    pub(super) fn unwaited(&self) -> u64 {
        self.notices.unwaited()
    }

    /// Begins a transaction.
    pub async fn transaction(&mut self) -> Result<PreparedTransaction<'_>, tokio_postgres::Error> {
        let prepared = self.prepared();
        Ok(PreparedTransaction {
            notices: Arc::clone(&self.notices),
            inner: self.client.transaction().await?,
            prepared,
        })
    }

    /// Begins a transaction and sends its first calls, all in one go. A connection that has
    /// forgotten its statements, as `DISCARD ALL` makes it, is told them anew.
    pub(super) async fn begin(&self, calls: &[Call<'_>]) -> Answers {
        match self.try_begin(calls).await {
            Err(Fault::Forgotten(_)) => {
                self.opening.close();
                *self.prepared.lock() = Arc::default();
                self.client.batch_execute("ROLLBACK").await?;
                self.try_begin(calls).await
            }
            began => began,
        }
    }

    async fn try_begin(&self, calls: &[Call<'_>]) -> Answers {
        if let Some(rows) = self.opening.begin(&self.client, calls).await? {
            return Ok(rows);
        }
        self.prepare(calls).await?;
        let mut session = self;
        // Still one round trip, in this order.
        let begin = self.client.batch_execute("BEGIN");
        let (began, rows) = join(begin, session.calls(calls)).await;
        began?;
        rows
    }

    /// Prepares what is not prepared yet.
    pub(super) async fn prepare(&self, calls: &[Call<'_>]) -> Result<(), Fault> {
        self.prepared().fill(&self.client, calls).await
    }

    fn prepared(&self) -> Arc<Prepared> {
        Arc::clone(&self.prepared.lock())
    }
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

// === impl PreparedTransaction ===

impl<'a> PreparedTransaction<'a> {
    /// Commits the transaction.
    pub async fn commit(self) -> Result<(), tokio_postgres::Error> {
        self.inner.commit().await
    }

    /// Rolls the transaction back, as dropping it does.
    pub async fn rollback(self) -> Result<(), tokio_postgres::Error> {
        self.inner.rollback().await
    }
}

impl<'a> Deref for PreparedTransaction<'a> {
    type Target = Transaction<'a>;

    fn deref(&self) -> &Transaction<'a> {
        &self.inner
    }
}

impl<'a> DerefMut for PreparedTransaction<'a> {
    fn deref_mut(&mut self) -> &mut Transaction<'a> {
        &mut self.inner
    }
}

impl fmt::Debug for PreparedTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedTransaction")
            .finish_non_exhaustive()
    }
}

// === impl Prepared ===

impl Prepared {
    /// Prepares what is not prepared yet.
    async fn fill(&self, client: &Client, calls: &[Call<'_>]) -> Result<(), Fault> {
        for Call { statement, .. } in calls {
            let cell = &self.0[statement.at];
            // Nearly always it is, and then there is nothing to wait for.
            if !cell.initialized() {
                let prepare = async || {
                    let prepared = client.prepare(&statement.text).await?;
                    Ok::<_, tokio_postgres::Error>((Arc::clone(&statement.text), prepared))
                };
                cell.get_or_try_init(prepare).await?;
            }
        }
        Ok(())
    }

    /// The statement as it is prepared here, unless another one is in its place.
    fn get(&self, statement: &Statement) -> Option<&tokio_postgres::Statement> {
        let (text, prepared) = self.0[statement.at].get()?;
        (*text == statement.text).then_some(prepared)
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.iter().filter(|cell| cell.initialized()).count();
        write!(f, "Prepared({count})")
    }
}

// === impl Calls ===

impl<C: Calls + ?Sized> Calls for &mut C {
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers> {
        (**self).calls(calls)
    }

    fn tell(&self, doubts: &Arc<Doubts>) {
        (**self).tell(doubts);
    }
}

impl Calls for &Client {
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers> {
        send(self, None, calls).boxed()
    }
}

impl Calls for &Transaction<'_> {
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers> {
        send(self.client(), None, calls).boxed()
    }
}

impl Calls for &Connection {
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers> {
        let prepared = self.prepared();
        async move { send(&self.client, Some(&prepared), calls).await }.boxed()
    }

    fn tell(&self, doubts: &Arc<Doubts>) {
        self.notices.tell(doubts);
    }
}

impl Calls for &PreparedTransaction<'_> {
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers> {
        send(self.inner.client(), Some(&self.prepared), calls).boxed()
    }

    fn tell(&self, doubts: &Arc<Doubts>) {
        self.notices.tell(doubts);
    }
}

/// Sends all calls before it waits for the first answer: one round trip for all of them.
async fn send(client: &Client, prepared: Option<&Prepared>, calls: &[Call<'_>]) -> Answers {
    // Before any of them: what is prepared in between would change their order.
    if let Some(prepared) = prepared {
        prepared.fill(client, calls).await?;
    }
    if let [call] = calls {
        return Ok(vec![one(client, prepared, call).await?]);
    }
    // Polled in order, and each is on its way once it was polled.
    let sent = calls.iter().map(|call| one(client, prepared, call));
    join_all(sent).await.into_iter().collect()
}

async fn one(
    client: &Client,
    prepared: Option<&Prepared>,
    call: &Call<'_>,
) -> Result<Option<Cells>, Fault> {
    let row = match prepared.and_then(|prepared| prepared.get(call.statement)) {
        Some(statement) => {
            let values = call.values.iter().map(|value| value as &(dyn ToSql + Sync));
            client
                .query_opt(statement, &values.collect::<Vec<_>>())
                .await?
        }
        None => {
            let values = call.values.iter();
            let values = values.map(|value| (value as &(dyn ToSql + Sync), value.kind()));
            let typed = values.collect::<Vec<_>>();
            client.query_typed_opt(&call.statement.text, &typed).await?
        }
    };
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Cells {
        yes: row.try_get(0)?,
        number: row.try_get(1)?,
        written: row.try_get(2)?,
        record: row
            .try_get::<_, Option<&[u8]>>(3)?
            .map(Bytes::copy_from_slice),
        began: row.try_get(4)?,
    }))
}

// === impl Value ===

impl Value<'_> {
    fn kind(&self) -> Type {
        match self {
            Self::Int(_) => Type::INT8,
            Self::Bytes(_) => Type::BYTEA,
            Self::Text(_) => Type::TEXT,
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self {
            Self::Int(number) => number.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
