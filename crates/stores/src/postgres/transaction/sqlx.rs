//! The same inside the transactions of sqlx.

use std::ops::DerefMut;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use onceward::BoxError;
use sqlx::postgres::{PgConnection, PgDatabaseError, PgPool, PgRow, PgSeverity, Postgres};
use sqlx::{AssertSqlSafe, Row as _, Transaction};
use tokio::time::timeout;

use super::fault::{Fault, Said, Unfinished};
use super::session::{Answers, Call, Calls, Cells, Value};
use super::source::{Finished, LATE, Open, Opened, Source};
use super::tx::Tx;

impl Calls for PgConnection {
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers> {
        send(self, calls).boxed()
    }
}

impl Calls for Transaction<'_, Postgres> {
    fn calls<'a>(&'a mut self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Answers> {
        send(self, calls).boxed()
    }
}

impl Source for PgPool {
    type Open = Transaction<'static, Postgres>;

    fn open<'a>(
        &'a self,
        calls: &'a [Call<'a>],
        within: Duration,
    ) -> BoxFuture<'a, Opened<Self::Open>> {
        let open = async move {
            let connection = self.acquire().await?;
            // In a task of its own, which goes on if nobody waits for it: sqlx counts a transaction
            // once its beginning is answered, and rolls back what it has counted. One that is given
            // up before that would go back to the pool open, for the next caller to write in. It is
            // what `begin` of a pool does with the connection that it takes.
            let begun = tokio::spawn(Transaction::begin(connection, None)).await;
            let mut transaction = begun.map_err(|error| Fault::Gone(error.into()))??;
            let rows = send(&mut transaction, calls).await?;
            Ok((transaction, rows))
        };
        Box::pin(async move {
            let opened = timeout(within, open).await;
            opened.unwrap_or_else(|_| Err(Fault::Gone(LATE.into())))
        })
    }
}

impl Open for Transaction<'static, Postgres> {
    type Target = PgConnection;

    fn target(&self) -> &PgConnection {
        self
    }

    fn finish<'a>(mut self, call: Call<'a>, within: Duration) -> BoxFuture<'a, Finished>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let calls = [call];
            match timeout(within, send(&mut self, &calls)).await {
                Ok(sent) => sent.map_err(Unfinished::No)?,
                Err(_) => return Err(Unfinished::No(Fault::Gone(LATE.into()))),
            };
            match timeout(within, self.commit()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(Unfinished::InDoubt(LATE.into())),
            }
        })
    }

    /// The pool of sqlx tries a connection before it gives it out again, and drops it then.
    fn spend(&self) {}
}

impl DerefMut for Tx<Transaction<'static, Postgres>> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.parts_mut().0
    }
}

/// One after the other: sqlx has no way to send a statement before the last one was answered.
async fn send(connection: &mut PgConnection, calls: &[Call<'_>]) -> Answers {
    let mut rows = Vec::with_capacity(calls.len());
    for call in calls {
        // Made of our own words and the names of our tables; values are bound.
        let text = AssertSqlSafe(call.statement.text.clone());
        let mut query = sqlx::query::<Postgres>(text);
        for value in call.values {
            query = match *value {
                Value::Int(number) => query.bind(number),
                Value::Bytes(bytes) => query.bind(bytes),
                Value::Text(text) => query.bind(text),
            };
        }
        let row = query.fetch_optional(&mut *connection).await?;
        rows.push(row.map(|row| cells(&row)).transpose()?);
    }
    Ok(rows)
}

fn cells(row: &PgRow) -> Result<Cells, sqlx::Error> {
    Ok(Cells {
        yes: row.try_get(0)?,
        number: row.try_get(1)?,
        written: row.try_get(2)?,
        record: row.try_get::<Option<Vec<u8>>, _>(3)?.map(Into::into),
        began: row.try_get(4)?,
    })
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::of(said(&error).as_ref(), BoxError::from(error))
    }
}

impl From<sqlx::Error> for Unfinished {
    /// Of a commit.
    fn from(error: sqlx::Error) -> Self {
        Self::at_commit(said(&error).as_ref(), BoxError::from(error))
    }
}

/// What the server said, if it is the server's error.
fn said(error: &sqlx::Error) -> Option<Said> {
    let said = error.as_database_error()?;
    let said = said.try_downcast_ref::<PgDatabaseError>()?;
    Some(Said {
        code: said.code().to_owned(),
        is_fatal: matches!(said.severity(), PgSeverity::Fatal | PgSeverity::Panic),
    })
}
