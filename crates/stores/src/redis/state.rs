//! The inner state: what the store's callers and its own tasks share, and the calls themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use onceward::bugs::{Bug, seeded};
use onceward::store::{Error, Reply};
use onceward::{Durability, Fence, Record, SlotId, Timestamp, codec};
use parking_lot::Mutex;
use redis::Cmd;

use super::ask::{Answer, Ask, Nature, Target};
use super::clocks::Clocks;
use super::durability::{self, Found};
use super::layout::{Layout, Partition};
use super::link::Hub;
use super::reply::{Became, Said};
use super::script::{self, ARGUMENTS, KEYS, SHARED, Script, argument};
use super::{KIND, SERVER};
use crate::reckon::{Terms, micros};
use crate::server::{Changes, Class};

/// What callers and the store's own tasks share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) hub: Arc<Hub>,
    pub(super) layout: Layout,
    pub(super) scripts: Scripts,
    pub(super) clocks: Clocks,
    /// Who tells of changes: hints of our own are known already.
    pub(super) me: [u8; 8],
    pub(super) channel: String,
    /// Hints at changed slots. `None` once the store is closed.
    pub(super) changes: Changes,
    class: Class,
    /// A replica was seen, if only for a while.
    saw_replica: AtomicBool,
    /// Why no claims are taken: the server throws records away.
    evicts: Mutex<Option<String>>,
    /// The same, cheaper to look at.
    is_evicting: AtomicBool,
    /// Something was written since the clock was last put on record.
    pub(super) has_written: AtomicBool,
    /// Where the next step of a sweep begins.
    pub(super) sweeping: Mutex<Partition>,
}

/// The scripts of a store.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) write: Arc<Script>,
    pub(super) read: Arc<Script>,
    pub(super) filed: Arc<Script>,
    pub(super) sweep: Arc<Script>,
    pub(super) clock: Arc<Script>,
}

/// A kind of write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Insert,
    Replace,
    Remove,
}

// === impl Inner ===

impl Inner {
    pub(super) fn new(hub: Arc<Hub>, scripts: Scripts, layout: Layout, clocks: Clocks) -> Self {
        Self {
            channel: hub.settings().channel(),
            hub,
            layout,
            scripts,
            clocks,
            me: fastrand::u64(..).to_be_bytes(),
            changes: Changes::default(),
            class: Class::new(Durability::D3),
            saw_replica: AtomicBool::new(false),
            evicts: Mutex::default(),
            is_evicting: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
            sweeping: Mutex::new(Partition::FIRST),
        }
    }

    /// Compares and swaps.
    pub(super) async fn write(
        &self,
        op: Op,
        slot: SlotId,
        seen: Option<Fence>,
        record: Option<&Record>,
        not_after: Timestamp,
    ) -> Result<Reply<Became>, Error> {
        if op == Op::Insert {
            self.takes_claims()?;
        }
        let hash_slot = self.layout.hash_slot(Partition::of(slot));
        let draft = record.map(|record| (record, codec::encode(record)));
        let deadline = self.clocks.stopwatch() + self.hub.settings().timeout;
        let mut is_in_doubt = false;
        loop {
            let terms = self.clocks.terms(self.hub.owner(hash_slot));
            let sent = self.clocks.stopwatch();
            let command = self.command(op, slot, seen, draft.as_ref(), not_after, terms);
            let again = Script::place_of(KEYS, argument::AGAIN);
            let mut ask = Ask::new(Target::Slot(hash_slot), command, Nature::Write { again });
            if is_in_doubt {
                ask = ask.again();
            }
            let answer = self.hub.run(ask.of_script(&self.scripts.write)).await;
            let Answer {
                value,
                times,
                node,
                is_again,
                replicas,
            } = answer.map_err(|trouble| trouble.into_error(op == Op::Insert))?;
            let said = Said::of_many(value, times)?;
            self.clocks.observe(node, said.raw, sent);
            let now = said.now;
            match said.became() {
                Some(Became::Done) => {
                    self.has_written.store(true, Ordering::Relaxed);
                    self.changes.hint([slot]);
                    self.check_replicas(replicas)?;
                    return Ok(Reply::new(Became::Done, self.clocks.tell(now)));
                }
                // What was sent before may have happened, and been overtaken since.
                Some(_) if is_again => {
                    return Err(Error::unavailable(KIND, "the answer to the write was lost"));
                }
                // What is shown counts for its reader: an own record that no replica has, too.
                Some(became) => {
                    self.check_replicas(replicas)?;
                    return Ok(Reply::new(became, self.clocks.tell(now)));
                }
                None if self.clocks.stopwatch() < deadline => is_in_doubt = is_again,
                None => return Err(Error::unavailable(KIND, "the server's clock jumps")),
            }
        }
    }

    /// The command that compares and swaps, as [`script::write`] takes it.
    fn command(
        &self,
        op: Op,
        slot: SlotId,
        seen: Option<Fence>,
        draft: Option<&(&Record, Vec<u8>)>,
        not_after: Timestamp,
        terms: Terms,
    ) -> Cmd {
        let partition = Partition::of(slot);
        let bytes = draft.map_or(0, |(_, bytes)| bytes.len());
        let script = &self.scripts.write;
        let mut command = script.call(KEYS, SHARED + ARGUMENTS, bytes + 320);
        command
            .arg(self.layout.record(slot))
            .arg(self.layout.index(partition))
            .arg(terms.shift)
            .arg(terms.floor)
            .arg(&self.me)
            .arg("0")
            .arg(op.as_str())
            .arg(not_after.as_micros())
            .arg(slot.as_bytes());
        match seen {
            Some(seen) => command.arg(&seen.bits().to_be_bytes()),
            None => command.arg(""),
        };
        match draft {
            Some((record, bytes)) => {
                let mut head = [b'0' + record.state.name() as u8; 17];
                head[1..].copy_from_slice(&record.fence.bits().to_be_bytes());
                command.arg(&head).arg(bytes);
                match micros(record.due_after()) {
                    i64::MAX => command.arg(""),
                    due_after => command.arg(due_after),
                };
            }
            None => {
                command.arg("").arg("").arg("");
            }
        }
        command
    }

    /// Reads what is in a slot.
    pub(super) async fn get(&self, slot: SlotId) -> Result<Reply<Option<Bytes>>, Error> {
        let hash_slot = self.layout.hash_slot(Partition::of(slot));
        let terms = self.clocks.terms(self.hub.owner(hash_slot));
        let sent = self.clocks.stopwatch();
        let mut command = self.scripts.read.call(1, 0, 96);
        command.arg(self.layout.record(slot));
        let ask = Ask::new(Target::Slot(hash_slot), command, Nature::Read);
        let answer = self.hub.run(ask.of_script(&self.scripts.read)).await;
        let answer = answer.map_err(|trouble| trouble.into_error(false))?;
        self.check_replicas(answer.replicas)?;
        let said = Said::read(answer.value)?;
        self.clocks.observe(answer.node, said.raw, sent);
        let now = self.clocks.now(answer.node, said.raw, terms);
        Ok(Reply::new(said.found, self.clocks.tell(now)))
    }

    /// Refuses claims while the server throws records away.
    fn takes_claims(&self) -> Result<(), Error> {
        if !self.is_evicting.load(Ordering::Relaxed) {
            return Ok(());
        }
        let policy = self.evicts.lock().clone().unwrap_or_default();
        Err(Error::Full {
            store: KIND,
            why: format!("maxmemory-policy is {policy}: set noeviction"),
        })
    }

    fn check_replicas(&self, have: Option<usize>) -> Result<(), Error> {
        let wanted = self.hub.settings().wait;
        match have {
            Some(have) if have < wanted && !seeded(Bug::WaitUnchecked) => Err(Error::unavailable(
                KIND,
                format!("{have} replicas have the write, and {wanted} were waited for"),
            )),
            _ => Ok(()),
        }
    }

    /// What an acknowledged write survives, as far as was last found out.
    pub(super) fn durability(&self) -> Durability {
        self.class.get()
    }

    /// Takes note of what was found out about the servers, and tells of a change.
    ///
    /// A replica that was seen once counts from then on: one that has lost its link is the one
    /// that lacks the last writes when it is promoted.
    pub(super) fn found(&self, mut found: Vec<Found>, is_first: bool) {
        let saw =
            self.saw_replica.load(Ordering::Relaxed) || found.iter().any(|it| it.replicas > 0);
        self.saw_replica.store(saw, Ordering::Relaxed);
        for it in &mut found {
            it.replicas = it.replicas.max(u64::from(saw));
        }
        let policy = found.iter().find_map(Found::evicts).map(str::to_owned);
        self.is_evicting.store(policy.is_some(), Ordering::Relaxed);
        if let Some(policy) = &policy {
            tracing::error!(policy, "Redis throws records away: no claims are taken");
        }
        *self.evicts.lock() = policy;
        let Some(class) = durability::weakest(&found).map(Found::class) else {
            return;
        };
        match is_first {
            true => self.class.set(class),
            false => self.class.change(class, SERVER),
        }
    }
}

// === impl Scripts ===

impl Scripts {
    pub(super) fn new(channel: &str) -> Self {
        Self {
            write: Arc::new(script::write(channel)),
            read: Arc::new(script::read()),
            filed: Arc::new(script::filed()),
            sweep: Arc::new(script::sweep(channel)),
            clock: Arc::new(script::clock()),
        }
    }
}

// === impl Op ===

impl Op {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "i",
            Self::Replace => "r",
            Self::Remove => "d",
        }
    }
}
