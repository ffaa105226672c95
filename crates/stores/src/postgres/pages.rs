//! Lists and sweeps: what looks at more than the slots it is asked about.

use std::sync::Arc;

use bytes::Bytes;
use onceward::record::StateName;
use onceward::store::{Error, Filter, Page, Reply, Swept};
use onceward::{Record, SlotId, Timestamp};
use tokio_postgres::Row;

use super::hub::{Hub, Parameters};
use super::trouble::Trouble;
use super::{KIND, decode_bytes, rows};
use crate::reckon::{as_i64, timestamp};

/// How many records a page with a filter looks at: those that do not pass take time as well.
const WINDOW: i64 = 5_000;

/// Reads a page.
pub(super) async fn list(
    hub: &Hub,
    filter: &Filter,
    after: Option<SlotId>,
    limit: usize,
) -> Result<Reply<Page>, Error> {
    let limit = limit.max(1);
    let begin = after.map_or_else(Vec::new, |slot| slot.as_bytes().to_vec());
    let end = match *filter == Filter::default() {
        true => None,
        false => window(hub, begin.clone()).await?,
    };
    let terms = hub.reckoning.terms();
    let sent = hub.reckoning.stopwatch();
    let parameters: Parameters = vec![
        Box::new(begin),
        Box::new(end.map(|slot| slot.as_bytes().to_vec())),
        Box::new(filter.tenant.clone()),
        Box::new(filter.operation.clone()),
        Box::new(filter.state.map(codes)),
        Box::new(filter.written_before.map(as_i64)),
        Box::new(i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1),
    ];
    let listed = run(hub, &hub.connector.statements.list, parameters).await?;
    let (clock, listed) = listed.split_first().ok_or_else(nothing)?;
    let raw = column(clock, 1)?;
    hub.reckoning.observe(raw, sent);
    let now = hub.reckoning.tell(hub.reckoning.now(raw, terms));

    let mut records = listed
        .iter()
        .take(limit)
        .map(record)
        .collect::<Result<Vec<_>, _>>()?;
    let next = match listed.len() > limit {
        true => records.last().map(|(slot, _)| *slot),
        false => end,
    };
    records.shrink_to_fit();
    Ok(Reply::new(Page { records, next }, now))
}

/// Where the window of a page ends: `None` if it reaches to the end.
async fn window(hub: &Hub, begin: Vec<u8>) -> Result<Option<SlotId>, Error> {
    let parameters: Parameters = vec![Box::new(begin), Box::new(WINDOW - 1)];
    let found = run(hub, &hub.connector.statements.window, parameters).await?;
    let end = found.first().map(|row| rows::slot(row, 0)).transpose();
    end.map_err(|error| unavailable(&Trouble::of(&error)))
}

/// Takes one step of a sweep.
pub(super) async fn sweep(
    hub: &Hub,
    before: Timestamp,
    limit: usize,
) -> Result<Reply<Swept>, Error> {
    let terms = hub.reckoning.terms();
    let sent = hub.reckoning.stopwatch();
    let wanted = i64::try_from(limit).unwrap_or(i64::MAX);
    let parameters: Parameters = vec![
        Box::new(as_i64(before)),
        Box::new(wanted),
        Box::new(terms.shift),
        Box::new(terms.floor),
    ];
    let found = run(hub, &hub.connector.statements.sweep, parameters).await?;
    let (head, lapsed) = found.split_first().ok_or_else(nothing)?;
    let removed: Option<i64> = column(head, 1)?;
    let raw = column(head, 3)?;
    hub.reckoning.observe(raw, sent);
    let now = hub.reckoning.tell(hub.reckoning.now(raw, terms));

    let removed = usize::try_from(removed.unwrap_or(0)).unwrap_or(0);
    let room = limit.saturating_sub(removed);
    let more = removed >= limit.max(1) || lapsed.len() > room || lapsed.len() >= limit.max(1);
    let lapsed = lapsed.iter().take(room).map(record);
    // One that cannot be read stays, and is no reason to leave the others.
    let lapsed = lapsed.filter(|read| match read {
        Err(error @ Error::Unreadable { .. }) => {
            tracing::error!(%error, "a record that is due cannot be read");
            false
        }
        _ => true,
    });
    let lapsed = lapsed.collect::<Result<Vec<_>, _>>()?;
    let swept = Swept {
        removed,
        lapsed,
        more,
    };
    Ok(Reply::new(swept, now))
}

/// How the states that somebody means by `state` are numbered.
fn codes(state: StateName) -> Vec<i16> {
    let meant = StateName::ALL.into_iter().filter(|it| state.covers(*it));
    meant.map(|it| i16::from(it as u8)).collect()
}

async fn run(hub: &Hub, text: &str, parameters: Parameters) -> Result<Vec<Row>, Error> {
    let ran = hub.run(text, parameters).await;
    ran.map_err(|trouble| unavailable(&trouble))
}

/// `slot`, `written`, `record`.
fn record(row: &Row) -> Result<(SlotId, Arc<Record>), Error> {
    let slot = rows::slot(row, 0).map_err(|error| unavailable(&Trouble::of(&error)))?;
    let written: i64 = column(row, 1)?;
    let bytes: &[u8] = column(row, 2)?;
    let bytes = Bytes::copy_from_slice(bytes);
    Ok((slot, decode_bytes(slot, &bytes, timestamp(written))?))
}

fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Error> {
    let value = row.try_get(at);
    value.map_err(|error| unavailable(&Trouble::of(&error)))
}

fn unavailable(trouble: &Trouble) -> Error {
    Error::unavailable(KIND, trouble.to_string())
}

fn nothing() -> Error {
    Error::unavailable(KIND, "nothing came back")
}
