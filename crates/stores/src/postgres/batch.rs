//! Running a batch: one statement, and what follows from its rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use onceward::bugs::{Bug, seeded};
use onceward::record::StateName;
use onceward::{Fence, SlotId};
use tokio_postgres::Row;

use super::hub::{Hub, in_time, later};
use super::lane::is_end;
use super::queue::{Answer, Batch, Became, Job, Kind, Raw};
use super::rows::{Said, Told};
use super::send::send;
use super::session::{Prepared, Session};
use super::settle::settle;
use super::trouble::{Trouble, What};
use crate::reckon::Terms;
use crate::server::chance;

/// How long a call waits that met somebody else's lock: at first, and at most.
const LOCKED: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Runs a batch and answers its callers. An error says that the connection is lost.
pub(super) async fn run(
    hub: &Arc<Hub>,
    session: &Session,
    prepared: &Prepared,
    batch: Batch,
) -> Result<(), Trouble> {
    let terms = hub.reckoning.terms();
    let slots: Vec<_> = batch.jobs.iter().collect();
    let told = ask(hub, session, prepared, &batch, &slots, batch.kind, terms).await;
    drop(slots);
    if session.is_in_doubt() && !seeded(Bug::StandbyWarningIgnored) {
        // It is in the table and may be nowhere else: it counts as neither done nor undone. What a
        // reader hears of is a write before it, whose caller did not wait for the answer.
        hub.doubts.raise();
        if batch.kind.is_write() {
            let trouble = Trouble::lost("the server did not wait for its standby");
            fail(hub, batch, &trouble);
            return Ok(());
        }
    }
    let mut told = match told {
        Ok(told) => told,
        Err(trouble) => return fall_back(hub, batch, trouble),
    };
    // What the statement says nothing of did not happen: what is there instead?
    let silent: Vec<_> = batch
        .jobs
        .iter()
        .filter(|job| !told.knows(job.slot))
        .collect();
    let is_consent = batch.kind == Kind::Insert && seeded(Bug::SilenceTakenForDone);
    if !silent.is_empty() && !is_consent {
        let found = ask(hub, session, prepared, &batch, &silent, Kind::Get, terms).await;
        match found {
            Ok(found) => told.add(found),
            Err(trouble) => {
                drop(silent);
                return answer_known(hub, batch, &told, terms, trouble);
            }
        }
    }
    if hub.doubts.is_open()
        && told.tells_of_others()
        && let Err(trouble) = settle(hub, session, hub.connector.settings.timeout).await
    {
        told.keep_done();
        return answer_known(hub, batch, &told, terms, trouble);
    }
    answer(hub, batch, &told, terms);
    Ok(())
}

/// Sends the statement of a kind for some jobs of a batch and reads its rows. Callers whose
/// deadline passes are answered meanwhile.
async fn ask(
    hub: &Hub,
    session: &Session,
    prepared: &Prepared,
    batch: &Batch,
    jobs: &[&Job],
    kind: Kind,
    terms: Terms,
) -> Result<Told, Trouble> {
    let sent = hub.reckoning.stopwatch();
    let last = sent + hub.connector.settings.timeout;
    let mut query = std::pin::pin!(send(session, prepared, jobs, kind, terms));
    let rows: Vec<Row> = loop {
        let next = batch.next_deadline().unwrap_or(last).min(last);
        let left = next.saturating_sub(hub.reckoning.stopwatch());
        let sleep = std::pin::pin!(tokio::time::sleep(left));
        match select(query.as_mut(), sleep).await {
            Either::Left((rows, _)) => break rows.map_err(|error| Trouble::of(&error))?,
            Either::Right(_) => {
                let now = hub.reckoning.stopwatch();
                let trouble = Trouble::lost("the server did not answer in time");
                batch.give_up(now, &trouble);
                if now >= last {
                    // A commit that waits for its standby is not cancelled: it would be there for
                    // all to see, and nowhere else.
                    if kind == Kind::Get {
                        session.cancel();
                    }
                    return Err(trouble);
                }
            }
        }
    };
    let told = Told::read(kind, &rows)?;
    if let Some(raw) = told.raw {
        hub.reckoning.observe(raw, sent);
    }
    Ok(told)
}

/// Answers all callers of a batch by what was told of their slots.
fn answer(hub: &Arc<Hub>, batch: Batch, told: &Told, terms: Terms) {
    let kind = batch.kind;
    let now = told
        .raw
        .map_or(terms.floor, |raw| hub.reckoning.now(raw, terms));
    let changed: Vec<_> = told.done().collect();
    let mut ended = Vec::new();
    let mut free = Vec::with_capacity(batch.jobs.len());
    for job in batch.jobs {
        // Nobody waits for a claim, or for the name of an identity.
        let begins = |job: &Job| {
            let names = [StateName::Claimed, StateName::Reserved].map(|it| it as i16);
            job.draft
                .as_ref()
                .is_some_and(|it| names.contains(&it.state))
        };
        if !begins(&job) {
            ended.push(job.slot);
        }
        match verdict(&job, told, now) {
            Some((became, now)) => {
                free.push(job.slot);
                conclude(hub, job, became, now);
            }
            None => again(hub, job),
        }
    }
    hub.queue.lock().release(kind, free);
    if !changed.is_empty() {
        hub.has_written.store(true, Ordering::Relaxed);
        // Both are in the order of slots.
        hub.changed(&changed, |slot| ended.binary_search(&slot).is_ok());
    }
}

/// What became of a call, and when; `None` if it has to be sent again.
fn verdict(job: &Job, told: &Told, now: i64) -> Option<(Became, i64)> {
    match (told.of(job.slot), job.kind) {
        (Some(Said::Done(at)), _) => Some((Became::Done, *at)),
        (Some(Said::There(there)), Kind::Get) => Some((Became::Found(raw_of(there)), now)),
        (_, _) if now > job.not_after => Some((Became::Late, now)),
        (Some(Said::Taken(there)), _) => Some((Became::Found(Some(there.clone())), now)),
        (None, Kind::Insert) if seeded(Bug::SilenceTakenForDone) => Some((Became::Done, now)),
        // Somebody was about to fill it, and did not.
        (Some(Said::There(None)), Kind::Insert) => None,
        // It is as it was seen: somebody held it.
        (Some(Said::There(Some((fence, _)))), _)
            if Some(*fence) == job.seen && !seeded(Bug::HeldTakenForMoved) =>
        {
            None
        }
        (Some(Said::There(there)), _) => Some((Became::Found(raw_of(there)), now)),
        (None, _) => None,
    }
}

fn raw_of(there: &Option<(Fence, Raw)>) -> Option<Raw> {
    there.as_ref().map(|(_, raw)| raw.clone())
}

/// Answers a caller and those who follow it: whoever wanted an empty slot beside the one who got
/// it finds that one's record there.
fn conclude(hub: &Arc<Hub>, mut job: Job, became: Became, now: i64) {
    let at = hub.reckoning.tell(now);
    let followers = std::mem::take(&mut job.followers);
    let theirs = match (&became, job.kind, job.draft.take()) {
        (Became::Done, Kind::Insert, Some(draft))
            if !followers.is_empty() && !seeded(Bug::FollowersWin) =>
        {
            Became::Found(Some(Raw {
                written: at,
                bytes: draft.record.into(),
            }))
        }
        (became, ..) => became.clone(),
    };
    job.reply(Ok(Answer { became, now: at }));
    for follower in followers {
        let is_late = now > follower.not_after;
        let became = match &theirs {
            // The first came too late for itself alone.
            Became::Late if !is_late => {
                let put = hub.queue.lock().push(follower);
                if let Err(refused) = put {
                    refused.answer();
                }
                continue;
            }
            _ if is_late => Became::Late,
            theirs => theirs.clone(),
        };
        follower.reply(Ok(Answer { became, now: at }));
    }
}

/// Sends a call again after a while: its slot was held by somebody else.
fn again(hub: &Arc<Hub>, job: Job) {
    let Some(mut job) = in_time(hub, job) else {
        return;
    };
    let (first, most) = LOCKED;
    let wait = first.saturating_mul(1 << job.tries.min(10)).min(most);
    job.tries += 1;
    let left = job.deadline.saturating_sub(hub.reckoning.stopwatch());
    later(hub, job, wait.mul_f64(chance()).min(left));
}

/// What follows when a statement failed.
fn fall_back(hub: &Arc<Hub>, mut batch: Batch, trouble: Trouble) -> Result<(), Trouble> {
    match trouble.what() {
        // Nothing was written. One of them may be the reason, and the others are to go on.
        What::Again | What::Refused | What::Full if batch.jobs.len() > 1 => {
            hub.queue.lock().split(batch);
            Ok(())
        }
        What::Again => {
            if let Some(job) = batch.jobs.pop() {
                again(hub, job);
            }
            Ok(())
        }
        what if is_end(what) && batch.kind == Kind::Get => {
            // Nothing is lost by reading again elsewhere, until the deadline.
            let jobs = std::mem::take(&mut batch.jobs);
            hub.queue.lock().put_back(jobs);
            Err(trouble)
        }
        what => {
            fail(hub, batch, &trouble);
            if is_end(what) { Err(trouble) } else { Ok(()) }
        }
    }
}

/// Answers those whose write happened, and the others with an error: what is in their slots could
/// not be found out.
fn answer_known(
    hub: &Arc<Hub>,
    batch: Batch,
    told: &Told,
    terms: Terms,
    trouble: Trouble,
) -> Result<(), Trouble> {
    let kind = batch.kind;
    let (known, silent) = batch.jobs.into_iter().partition(|job| told.knows(job.slot));
    answer(hub, Batch { kind, jobs: known }, told, terms);
    fail(hub, Batch { kind, jobs: silent }, &trouble);
    if is_end(trouble.what()) {
        Err(trouble)
    } else {
        Ok(())
    }
}

/// Answers all callers of a batch with an error.
fn fail(hub: &Hub, batch: Batch, trouble: &Trouble) {
    let slots: Vec<SlotId> = batch.jobs.iter().map(|job| job.slot).collect();
    hub.queue.lock().release(batch.kind, slots);
    for job in batch.jobs {
        job.answer(Err(trouble.clone()));
    }
}
