//! Sending: the parameters of each statement, one array for each column.

use onceward::Fence;
use onceward::bugs::{Bug, seeded};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};
use uuid::Uuid;

use super::queue::{Draft, Job, Kind};
use super::session::{Prepared, Session};
use crate::reckon::Terms;

/// Sends the statement of a kind for these jobs, and returns its rows.
pub(super) async fn send(
    session: &Session,
    prepared: &Prepared,
    jobs: &[&Job],
    kind: Kind,
    terms: Terms,
) -> Result<Vec<Row>, Error> {
    if let ([job], Kind::Insert | Kind::Replace) = (jobs, kind)
        && !(kind == Kind::Insert && seeded(Bug::SilenceTakenForDone))
    {
        return send_one(session, prepared, job, kind, terms).await;
    }
    let slots: Vec<&[u8]> = jobs.iter().map(|job| &job.slot.as_bytes()[..]).collect();
    if kind == Kind::Get {
        return ask(session, &prepared.read, &[&slots]).await;
    }
    let not_after: Vec<i64> = jobs.iter().map(|job| job.not_after).collect();
    let seen = || -> Vec<Uuid> {
        let seen = |job: &&Job| uuid(job.seen.expect("a write over a record saw its fence"));
        jobs.iter().map(seen).collect()
    };
    let Terms { shift, floor } = terms;
    if kind == Kind::Remove {
        let parameters: &[&(dyn ToSql + Sync)] = &[&slots, &seen(), &not_after, &shift, &floor];
        return ask(session, &prepared.remove, parameters).await;
    }

    let drafts: Vec<&Draft> = jobs
        .iter()
        .map(|job| job.draft.as_ref().expect("there is something to write"))
        .collect();
    let fences: Vec<Uuid> = drafts.iter().map(|it| uuid(it.fence)).collect();
    let states: Vec<i16> = drafts.iter().map(|it| it.state).collect();
    let due_after: Vec<i64> = drafts.iter().map(|it| it.due_after).collect();
    let tenants: Vec<&str> = drafts.iter().map(|it| it.scope.tenant()).collect();
    let operations: Vec<&str> = drafts.iter().map(|it| it.scope.operation()).collect();
    let records: Vec<&[u8]> = drafts.iter().map(|it| &it.record[..]).collect();
    let common: [&(dyn ToSql + Sync); 10] = [
        &slots,
        &fences,
        &states,
        &due_after,
        &tenants,
        &operations,
        &records,
        &not_after,
        &shift,
        &floor,
    ];
    if kind == Kind::Insert {
        return ask(session, &prepared.insert, &common).await;
    }
    let seen = seen();
    let mut parameters = common.to_vec();
    parameters.push(&seen);
    ask(session, &prepared.replace, &parameters).await
}

/// A lone write goes without arrays, which saves a good part of what it costs.
async fn send_one(
    session: &Session,
    prepared: &Prepared,
    job: &Job,
    kind: Kind,
    terms: Terms,
) -> Result<Vec<Row>, Error> {
    let draft = job.draft.as_ref().expect("there is something to write");
    let seen = job.seen.map(uuid);
    let common: [&(dyn ToSql + Sync); 11] = [
        &&job.slot.as_bytes()[..],
        &uuid(draft.fence),
        &draft.state,
        &draft.due_after,
        &draft.scope.tenant(),
        &draft.scope.operation(),
        &&draft.record[..],
        &job.not_after,
        &terms.shift,
        &terms.floor,
        &seen,
    ];
    match kind {
        Kind::Replace => ask(session, &prepared.replace_one, &common).await,
        _ => ask(session, &prepared.insert_one, &common[..10]).await,
    }
}

async fn ask(
    session: &Session,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    session.client.query(statement, parameters).await
}

/// A fence as the table has it: its hex digits are those that a fence shows.
pub(super) fn uuid(fence: Fence) -> Uuid {
    Uuid::from_u128(fence.bits())
}
