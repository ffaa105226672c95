//! Pages: lists and sweeps, which go through the partitions one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use onceward::store::{Error, Filter, Page, Reply, Swept};
use onceward::{Record, SlotId, Timestamp};
use redis::{Cmd, Value};

use super::KIND;
use super::ask::{Ask, Nature, Target};
use super::layout::Partition;
use super::reply::{self, Said};
use super::script::{NEVER, answer};
use super::state::Inner;
use crate::reckon::Terms;

/// How many partitions are asked at a time.
const WINDOW: usize = 256;

/// How many records a page looks at, whatever passes the filter.
const LOOKED_AT: usize = 2_000;

/// How many records are read at a time.
const READ: usize = 256;

/// When something was asked, and under which terms.
#[derive(Clone, Copy)]
struct Asked {
    terms: Terms,
    sent: Duration,
}

/// Which slots of a partition are asked for.
#[derive(Clone, Copy)]
struct Bounds {
    /// Those that are due before this time alone.
    before: Option<u64>,
    /// How many at the most, those first that are due first; below zero, all.
    each_max: i64,
}

/// Reads a page.
pub(super) async fn list(
    inner: &Inner,
    filter: &Filter,
    after: Option<SlotId>,
    limit: usize,
) -> Result<Reply<Page>, Error> {
    let limit = limit.max(1);
    let asked = Asked::now(inner);
    let first = after.map_or(Partition::FIRST, Partition::of);
    let partitions: Vec<_> = first.onwards().collect();
    let mut page = Page::default();
    let (mut at, mut looked_at) = (0, 0);
    while at < partitions.len() {
        let found = filed(inner, &partitions[at..], Bounds::NONE).await?;
        at += found.len();
        let mut slots: Vec<_> = found.into_iter().flatten().collect();
        slots.retain(|slot| after.is_none_or(|after| *slot > after));
        slots.sort_unstable();
        for some in slots.chunks(READ) {
            for (slot, record) in records(inner, some).await? {
                if filter.passes(&record) {
                    page.records.push((slot, record));
                }
                looked_at += 1;
                if page.records.len() == limit || looked_at == LOOKED_AT {
                    page.next = Some(slot);
                    return reply(inner, page, asked).await;
                }
            }
        }
    }
    reply(inner, page, asked).await
}

/// The slots that are filed in the first of these partitions, in at least one of them.
async fn filed(
    inner: &Inner,
    partitions: &[Partition],
    bounds: Bounds,
) -> Result<Vec<Vec<SlotId>>, Error> {
    let window = &partitions[..partitions.len().min(WINDOW)];
    let (before, each_max) = (bounds.before(), bounds.each_max);
    if !inner.hub.is_cluster() {
        let script = &inner.scripts.filed;
        let mut command = script.call(window.len(), 3, 32 * window.len());
        for partition in window {
            command.arg(inner.layout.index(*partition));
        }
        command.arg(before).arg(each_max).arg(LOOKED_AT);
        let target = Target::Slot(inner.layout.clock_slot());
        let ask = Ask::new(target, command, Nature::Read).of_script(script);
        return match run(inner, ask).await? {
            Value::Array(each) if !each.is_empty() => Ok(each.into_iter().map(slots_of).collect()),
            _ => Err(reply::strange()),
        };
    }
    // The partitions of a cluster are on several servers, and no script may ask for them at once.
    let asks = window.iter().map(|partition| {
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command
            .arg(inner.layout.index(*partition))
            .arg("-inf")
            .arg(&before)
            .arg("LIMIT")
            .arg(0)
            .arg(each_max);
        ask(inner, *partition, command)
    });
    let answered = join_all(asks).await.into_iter();
    answered.map(|it| it.map(slots_of)).collect()
}

/// What these slots hold. One that was emptied meanwhile is left out.
async fn records(inner: &Inner, slots: &[SlotId]) -> Result<Vec<(SlotId, Arc<Record>)>, Error> {
    let asks = slots.iter().map(|slot| {
        let mut command = redis::cmd("GET");
        command.arg(inner.layout.record(*slot));
        ask(inner, Partition::of(*slot), command)
    });
    let mut records = Vec::with_capacity(slots.len());
    for (slot, answered) in slots.iter().zip(join_all(asks).await) {
        if let Value::BulkString(bytes) = answered? {
            records.push((*slot, reply::record(*slot, &Bytes::from(bytes))?));
        }
    }
    Ok(records)
}

/// Takes one step of a sweep: goes through the partitions from where the last step stopped.
pub(super) async fn sweep(
    inner: &Inner,
    before: Timestamp,
    limit: usize,
) -> Result<Reply<Swept>, Error> {
    let asked = Asked::now(inner);
    let horizon = before.as_micros().min(NEVER - 1);
    let begin = *inner.sweeping.lock();
    let partitions: Vec<_> = begin.around().collect();
    let mut swept = Swept::default();
    let (mut at, mut room) = (0, limit.max(1));
    // What the scripts reckon may be a little later: those come up in the next step.
    let floor = u64::try_from(asked.terms.floor).unwrap_or(0);
    while at < partitions.len() && room > 0 {
        let bounds = Bounds {
            before: Some(horizon.min(floor)),
            each_max: i64::try_from(room).unwrap_or(i64::MAX),
        };
        let due = filed(inner, &partitions[at..], bounds).await?;
        let window = &partitions[at..at + due.len()];
        at += due.len();
        let mut some = Vec::new();
        for (partition, slots) in window.iter().zip(due) {
            if room == 0 {
                break;
            }
            // What stays due must not keep others from their turn.
            *inner.sweeping.lock() = partition.next().unwrap_or(Partition::FIRST);
            let count = slots.len().min(room);
            room -= count;
            some.extend_from_slice(&slots[..count]);
        }
        settle(inner, &some, horizon, asked.terms, &mut swept).await?;
    }
    swept.more = room == 0;
    reply(inner, swept, asked).await
}

/// Removes what expires by itself, and gathers what is a matter for the protocol.
async fn settle(
    inner: &Inner,
    slots: &[SlotId],
    horizon: u64,
    terms: Terms,
    swept: &mut Swept,
) -> Result<(), Error> {
    let asks = slots.iter().map(|slot| {
        let partition = Partition::of(*slot);
        let mut command = inner.scripts.sweep.call(2, 5, 256);
        command
            .arg(inner.layout.record(*slot))
            .arg(inner.layout.index(partition))
            .arg(slot.as_bytes())
            .arg(terms.shift)
            .arg(terms.floor)
            .arg(horizon)
            .arg(&inner.me);
        let target = Target::Slot(inner.layout.hash_slot(partition));
        // What was removed is gone, and is found gone the second time.
        let ask = Ask::new(target, command, Nature::Read);
        inner.hub.run(ask.of_script(&inner.scripts.sweep))
    });
    for (slot, answered) in slots.iter().zip(join_all(asks).await) {
        let answered = answered.map_err(|trouble| trouble.into_error(false))?;
        let said = Said::read(answered.value)?;
        match (said.what, said.found) {
            (answer::DONE, _) => {
                swept.removed += 1;
                inner.changes.hint([*slot]);
            }
            (answer::FOUND, Some(bytes)) => match reply::record(*slot, &bytes) {
                Ok(record) => swept.lapsed.push((*slot, record)),
                // One that cannot be read stays, and is no reason to leave the others.
                Err(error) => tracing::error!(%error, "a record that is due cannot be read"),
            },
            _ => {}
        }
    }
    Ok(())
}

/// Asks for something that is in a partition.
async fn ask(inner: &Inner, partition: Partition, command: Cmd) -> Result<Value, Error> {
    let target = Target::Slot(inner.layout.hash_slot(partition));
    run(inner, Ask::new(target, command, Nature::Read)).await
}

async fn run(inner: &Inner, ask: Ask) -> Result<Value, Error> {
    let answered = inner.hub.run(ask).await;
    let answered = answered.map_err(|trouble| trouble.into_error(false));
    answered.map(|answer| answer.value)
}

/// The slots in an answer.
fn slots_of(answer: Value) -> Vec<SlotId> {
    let Value::Array(members) = answer else {
        return Vec::new();
    };
    let slots = members.into_iter().filter_map(|member| match member {
        Value::BulkString(bytes) => bytes.try_into().ok().map(SlotId::from_bytes),
        _ => None,
    });
    slots.collect()
}

// === impl Asked ===

impl Asked {
    fn now(inner: &Inner) -> Self {
        let leader = inner.hub.owner(inner.layout.clock_slot());
        Self {
            terms: inner.clocks.terms(leader),
            sent: inner.clocks.stopwatch(),
        }
    }
}

// === impl Bounds ===

impl Bounds {
    /// All of them.
    const NONE: Self = Self {
        before: None,
        each_max: -1,
    };

    /// The upper end of a range of scores.
    fn before(&self) -> String {
        match self.before {
            Some(time) => format!("({time}"),
            None => "+inf".to_owned(),
        }
    }
}

/// Gives `value` with the time of the server that the store's time follows.
async fn reply<T>(inner: &Inner, value: T, asked: Asked) -> Result<Reply<T>, Error> {
    let target = Target::Slot(inner.layout.clock_slot());
    let ask = Ask::new(target, redis::cmd("TIME"), Nature::Read);
    let answered = inner.hub.run(ask).await;
    let answered = answered.map_err(|trouble| trouble.into_error(false))?;
    let time: Result<(i64, i64), _> = redis::from_redis_value(answered.value);
    let (seconds, rest) = time.map_err(|error| Error::unavailable(KIND, error))?;
    let raw = seconds * 1_000_000 + rest;
    inner.clocks.observe(answered.node, raw, asked.sent);
    let now = inner.clocks.now(answered.node, raw, asked.terms);
    Ok(Reply::new(value, inner.clocks.tell(now)))
}
