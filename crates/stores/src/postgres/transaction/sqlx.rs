//! The same inside the transactions of sqlx.

use std::borrow::Cow;
use std::ops::DerefMut;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use onceward::BoxError;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnection, PgPool, PgRow, Postgres};
use sqlx::{AssertSqlSafe, Row as _, Transaction};

use super::session::{Answers, Call, Calls, Cells, Fault, Value};
use super::source::{Finished, Open, Opened, Source, Unfinished};
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

    fn open<'a>(&'a self, calls: &'a [Call<'a>]) -> BoxFuture<'a, Opened<Self::Open>> {
        Box::pin(async move {
            let mut transaction = self.begin().await?;
            let rows = send(&mut transaction, calls).await?;
            Ok((transaction, rows))
        })
    }
}

impl Open for Transaction<'static, Postgres> {
    type Target = PgConnection;

    fn target(&self) -> &PgConnection {
        self
    }

    fn finish<'a>(mut self, call: Call<'a>) -> BoxFuture<'a, Finished>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let calls = [call];
            let rows = send(&mut self, &calls).await.map_err(Unfinished::No)?;
            match self.commit().await {
                Ok(()) => Ok(rows),
                Err(error) => Err(Unfinished::at_commit(error.into())),
            }
        })
    }
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
    })
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(DatabaseError::code);
        let code = code.map(Cow::into_owned);
        Self::of(code.as_deref(), BoxError::from(error))
    }
}
