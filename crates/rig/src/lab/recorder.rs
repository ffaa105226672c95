//! The recorder: what was seen, with a time that orders it.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onceward::clock::{Clock, SystemClock};
use onceward::store::Reply;
use onceward::testing::ManualClock;
use onceward::{Fence, Outcome, Record, RunError, Seal, SlotId, Unsettled, Verdict};
use parking_lot::Mutex;

use crate::history::{self, Answer, Event, FinalRead, History, Kind, LedgerRow, State, Verb};

/// Writes down what happens, once for all processes of a lab.
#[derive(Debug)]
pub struct Recorder {
    clock: Arc<dyn Passing>,
    ticks: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<Event>,
    ledger: Vec<LedgerRow>,
    /// How a history names each slot that was touched.
    slots: BTreeMap<SlotId, Named>,
    /// How a history names each payload.
    payloads: HashMap<[u8; 32], Arc<str>>,
    /// Whose write a fence was: the mark and the generation of its record.
    fences: HashMap<Fence, (Option<Fence>, Fence)>,
    /// When a claim with this mark was sent, if that was earlier than it arrived.
    sent: HashMap<Fence, u64>,
    /// The payload that the caller brought to whom a claim was granted, by the claim's mark.
    brought: HashMap<Fence, Arc<str>>,
    /// Whose receipt it is.
    receipts: HashMap<Arc<str>, SlotId>,
    /// Which work has taken an identity: its slot and its generation, by the identity's slot.
    reserved: HashMap<SlotId, (SlotId, Fence)>,
}

/// A slot's tenant and key in a history. Made once: a run has few slots and many events.
#[derive(Clone, Debug)]
struct Named {
    tenant: Arc<str>,
    key: Arc<str>,
}

/// A clock that a store call may move on by a moment, so that no two of them happen at once.
pub trait Passing: Clock {
    /// Lets time pass.
    fn pass(&self, span: Duration);
}

/// What a caller asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// When it asked.
    pub(crate) at: u64,
    pub(crate) tenant: &'a str,
    pub(crate) slot: SlotId,
    /// The digest of the payload it brought, as [`digest`] writes it.
    pub(crate) payload: &'a Arc<str>,
}

/// The callers of a lab are processes too; they have the numbers from here on.
const CALLERS: u32 = 1_000;

// === impl Recorder ===

impl Recorder {
    pub(crate) fn new(clock: Arc<dyn Passing>) -> Self {
        Self {
            clock,
            ticks: AtomicU64::new(0),
            seen: Mutex::default(),
        }
    }

    /// A moment later than every earlier one: the clock's time, and a tick for each look.
    pub(crate) fn now(&self) -> u64 {
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed);
        self.clock.monotonic().as_nanos() as u64 + tick
    }

    /// Lets a moment pass.
    pub(super) fn pass_time(&self) {
        self.clock.pass(Duration::from_micros(1));
    }

    /// A number that no other operation has.
    pub(super) fn number(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn push(&self, event: Event) {
        self.seen.lock().events.push(event);
    }

    /// Returns the line that begins an operation on a slot.
    pub(super) fn invoke(&self, verb: Verb, tenant: &str, slot: SlotId) -> Event {
        let mut seen = self.seen.lock();
        let named = seen.slots.entry(slot).or_insert_with(|| Named {
            tenant: tenant.into(),
            key: name(slot),
        });
        Event::invoke(verb, &named.tenant, &named.key)
    }

    /// A payload's name in a history, as [`digest`] writes it.
    pub(crate) fn payload(&self, seal: &Seal) -> Arc<str> {
        let mut seen = self.seen.lock();
        let known = seen.payloads.entry(seal.digest);
        known.or_insert_with(|| digest(seal)).clone()
    }

    /// Remembers whose write a fence is, and which work has taken an identity.
    pub(super) fn wrote(&self, slot: SlotId, record: &Record) {
        let whose = (record.mark, record.generation);
        let mut seen = self.seen.lock();
        seen.fences.insert(record.fence, whose);
        if let Some(work) = record.reservation() {
            seen.reserved.insert(slot, (work.slot, work.generation));
        }
    }

    /// Notes that a record is gone.
    pub(super) fn removed(&self, slot: SlotId) {
        self.seen.lock().reserved.remove(&slot);
    }

    /// How many identities the work of this generation has taken.
    pub(crate) fn reserved_for(&self, slot: SlotId, generation: Fence) -> usize {
        let seen = self.seen.lock();
        let taken = seen.reserved.values();
        taken.filter(|work| **work == (slot, generation)).count()
    }

    /// Whether this is the receipt of work in another slot.
    pub(super) fn is_of_another(&self, slot: SlotId, receipt: &Arc<str>) -> bool {
        let seen = self.seen.lock();
        seen.receipts.get(receipt).is_some_and(|own| *own != slot)
    }

    /// Notes that a claim with this mark is sent now, and arrives later: its fence is of now.
    pub(crate) fn sent(&self, mark: Fence) {
        let now = self.now();
        self.seen.lock().sent.insert(mark, now);
    }

    /// When a claim with this mark was asked for.
    pub(super) fn asked_at(&self, mark: Fence) -> u64 {
        let sent = self.seen.lock().sent.get(&mark).copied();
        sent.unwrap_or_else(|| self.now())
    }

    /// Whose write a fence was.
    pub(crate) fn writer(&self, fence: Fence) -> Option<(Option<Fence>, Fence)> {
        self.seen.lock().fences.get(&fence).copied()
    }

    /// The payload that the holder of the claim with this mark brought.
    pub(crate) fn brought(&self, mark: Fence) -> Option<Arc<str>> {
        self.seen.lock().brought.get(&mark).cloned()
    }

    pub(crate) fn accepted(
        &self,
        slot: SlotId,
        mark: Fence,
        payload: Option<Arc<str>>,
        receipt: &str,
    ) {
        let t = self.now();
        let mut seen = self.seen.lock();
        let receipt: Arc<str> = receipt.into();
        seen.receipts.insert(receipt.clone(), slot);
        let named = seen.slots.get(&slot).cloned();
        let (tenant, key) = named.map_or_else(
            || (Arc::default(), name(slot)),
            |named| (named.tenant, named.key),
        );
        seen.ledger.push(LedgerRow {
            tenant,
            key,
            mark: Some(fence(mark)),
            fingerprint: payload,
            resp_hash: Some(receipt),
            t,
            ..LedgerRow::default()
        });
    }

    /// Writes down what a caller of `run` was told.
    pub(crate) fn told(&self, asked: Asked<'_>, answer: &Result<onceward::Answer, RunError>) {
        match answer {
            Ok(answer) => self.caller(asked, Answer::Replayed, Some(&answer.outcome)),
            Err(RunError::Unknown(unsettled)) => self.unknown(asked, unsettled),
            Err(RunError::Busy(_)) => self.caller(asked, Answer::Busy, None),
            Err(RunError::Mismatch) => self.caller(asked, Answer::Mismatch, None),
            Err(_) => {}
        }
    }

    /// Writes down what a caller of `begin` was told. A grant is written down at the store; here
    /// it is noted with which payload its holder goes on.
    pub(crate) fn judged(&self, asked: Asked<'_>, verdict: &Verdict) {
        match verdict {
            Verdict::Replay(replay) => {
                self.caller(asked, Answer::Replayed, Some(&replay.outcome));
            }
            Verdict::Unknown(unsettled) => self.unknown(asked, unsettled),
            Verdict::Busy(_) => self.caller(asked, Answer::Busy, None),
            Verdict::Mismatch => self.caller(asked, Answer::Mismatch, None),
            Verdict::Elsewhere(_) => {}
            Verdict::Execute(claim) => {
                let mut seen = self.seen.lock();
                seen.brought.insert(claim.fence(), asked.payload.clone());
            }
        }
    }

    /// Writes down that a caller was told that nobody knows: of its own slot, or of that of a twin,
    /// to which it brought no payload.
    fn unknown(&self, asked: Asked<'_>, unsettled: &Unsettled) {
        match unsettled.slot == asked.slot {
            true => self.caller(asked, Answer::Unknown, None),
            false => {
                let invoke = Event {
                    mono_ns: asked.at,
                    proc: CALLERS,
                    op_id: self.number(),
                    ..self.invoke(Verb::Claim, asked.tenant, unsettled.slot)
                };
                self.tell(invoke, Answer::Unknown, None);
            }
        }
    }

    fn caller(&self, asked: Asked<'_>, answer: Answer, outcome: Option<&Outcome>) {
        let invoke = Event {
            mono_ns: asked.at,
            proc: CALLERS,
            op_id: self.number(),
            fingerprint: Some(asked.payload.clone()),
            ..self.invoke(Verb::Claim, asked.tenant, asked.slot)
        };
        self.tell(invoke, answer, outcome);
    }

    fn tell(&self, invoke: Event, answer: Answer, outcome: Option<&Outcome>) {
        let told = Event {
            answer: Some(answer),
            body_hash: outcome.map(hash),
            ..invoke.ended(Kind::Ok, self.now())
        };
        self.push(invoke);
        self.push(told);
    }

    pub(crate) fn slots(&self) -> Vec<SlotId> {
        self.seen.lock().slots.keys().copied().collect()
    }

    pub(crate) fn last_read(
        &self,
        tenant: &str,
        slot: SlotId,
        reply: &Reply<Option<Arc<Record>>>,
    ) -> FinalRead {
        let found = reply
            .value
            .as_deref()
            .filter(|record| !record.has_expired(reply.now));
        FinalRead {
            mono_ns: self.now(),
            tenant: tenant.into(),
            key: name(slot),
            state: found.map_or(State::Absent, |record| match &record.state {
                onceward::State::Claimed(_) => State::Claimed,
                onceward::State::Completed(_) => State::Completed,
                onceward::State::Unknown(_) => State::Unknown,
                onceward::State::Open => State::Open,
                onceward::State::Reserved(_) => State::Absent,
            }),
            body_hash: found.and_then(Record::outcome).map(hash),
            mark: found.and_then(|record| record.mark).map(fence),
            generation: found.map(|record| fence(record.generation)),
        }
    }

    /// What was seen so far, in the order of time.
    pub(super) fn history(&self) -> History {
        let seen = self.seen.lock();
        in_order(seen.events.clone(), seen.ledger.clone())
    }

    /// What was seen, in the order of time, for a run that is over.
    pub(crate) fn take(&self) -> History {
        let mut seen = self.seen.lock();
        in_order(mem::take(&mut seen.events), mem::take(&mut seen.ledger))
    }
}

// === impl ManualClock ===

impl Passing for ManualClock {
    fn pass(&self, span: Duration) {
        self.advance(span);
    }
}

// === impl SystemClock ===

/// Real time passes by itself, and looks at it are told apart by their ticks.
impl Passing for SystemClock {
    fn pass(&self, _: Duration) {}
}

/// A history of these events, in the order of time.
fn in_order(mut events: Vec<Event>, ledger: Vec<LedgerRow>) -> History {
    events.sort_by_key(|event| event.mono_ns);
    History {
        events,
        ledger,
        ..History::default()
    }
}

/// A slot's name in a history: all of it, for the few digits that a log shows are those of two slots
/// in one of some hundred runs with thousands of keys.
pub(super) fn name(slot: SlotId) -> Arc<str> {
    slot.to_string().into()
}

/// A payload's name in a history: the same text for the same payload under the same slot.
pub(super) fn digest(seal: &Seal) -> Arc<str> {
    format!("{:?}", seal.digest).into()
}

/// An outcome's digest in a history: the receipt itself, for a reader's sake.
pub(super) fn hash(outcome: &Outcome) -> Arc<str> {
    let body = outcome.body().map_or(&b"not kept"[..], |body| body);
    String::from_utf8_lossy(body).into()
}

pub(super) fn fence(fence: Fence) -> history::Fence {
    history::Fence(fence.bits())
}
