//! The protocol that ships, asked about sketches: each question once, then remembered.

use std::collections::HashMap;
use std::time::Duration;

use onceward::protocol::{Step, decide};
use onceward::record::{Deed, Note, Point, StateName};
use onceward::testing::moves;
use onceward::{
    Arrival, Duty, Effect, Fence, Fingerprint, Key, Outcome, Policy, Reason, Record, Scope, Secret,
    Slot, State, Timestamp,
};

use super::state::Sketch;

/// What a newcomer does, as far as the model tells steps apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
    /// Claim over this fence, 0 for an empty slot, with this to do first.
    Claim { over: u8, duty: Duty },
    /// Mark the lapsed claim unknown.
    Mark,
    /// Answer with this outcome.
    Replay(u8),
    /// Refuse: busy, unknown, or another payload.
    Refuse,
}

/// What is known of a slot without anybody writing to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) choice: Choice,
    /// Whether it can come due at all.
    pub(super) comes_due: bool,
    /// Whether it counts as absent by now.
    pub(super) expired: bool,
    /// Whether another payload is let through, or told anything.
    pub(super) leaks: bool,
}

/// The writes of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    Claim,
    TakeOver,
    Renew,
    Reach,
    Complete(u8),
    Unsettle,
    Release,
    SettleDone(u8),
    SettleNotDone,
}

/// The shipped protocol under one policy.
#[derive(Debug)]
pub(super) struct Shipped {
    arrival: Arrival,
    other: Arrival,
    looks: HashMap<u64, Look>,
    moves: HashMap<u64, Option<Sketch>>,
}

// === impl Shipped ===

impl Shipped {
    const WRITTEN: Timestamp = Timestamp::from_micros(1_777_777_777_000_000);
    const RETENTION: Duration = Duration::from_secs(3600);

    pub(super) fn new(effect: Effect) -> Self {
        let policy = Policy::default().effect(effect).retention(Self::RETENTION);
        let key = Key::parse("k1").expect("it is printable");
        let slot = Slot::new(Scope::new("tenant", "pay"), key);
        let secret = Secret::from_bytes([7; Secret::LEN]);
        let arrives = |payload| {
            let payload = Fingerprint::of(payload);
            Arrival::new(slot.clone(), &payload, policy.clone(), &secret)
        };
        Self {
            arrival: arrives(b"100"),
            other: arrives(b"900"),
            looks: HashMap::new(),
            moves: HashMap::new(),
        }
    }

    /// What a newcomer finds.
    pub(super) fn look(&mut self, slot: Option<Sketch>) -> Look {
        let code = slot.map_or(0, |sketch| 1 + sketch.code());
        if let Some(look) = self.looks.get(&code) {
            return *look;
        }
        let look = self.looked(slot);
        self.looks.insert(code, look);
        look
    }

    fn looked(&self, slot: Option<Sketch>) -> Look {
        let found = slot.map(|sketch| self.record(sketch));
        let due = found.as_ref().map(Record::due);
        let now = match (slot, due) {
            // At the border: what is due at a moment is due.
            (Some(Sketch { due: true, .. }), Some(due)) => due,
            _ => Self::WRITTEN,
        };
        let expired = found.as_ref().is_none_or(|found| found.has_expired(now));
        let others = decide(found.as_ref(), &self.other, now);
        Look {
            choice: match decide(found.as_ref(), &self.arrival, now) {
                Step::Claim { over } => claim(over, Duty::Execute),
                Step::TakeOver { seen } => claim(Some(seen), Duty::Repeat),
                Step::Probe { seen } => claim(Some(seen), Duty::Probe),
                Step::Hold { mark: Some(_), .. } => Choice::Mark,
                Step::Replay { outcome, .. } => Choice::Replay(number(&outcome)),
                Step::Hold { mark: None, .. } | Step::Busy { .. } | Step::Mismatch => {
                    Choice::Refuse
                }
            },
            comes_due: due.is_some_and(|due| due != Timestamp::NEVER),
            expired,
            leaks: !expired && others != Step::Mismatch,
        }
    }

    /// What `write` puts in the place of `slot`; `None` removes what is there.
    pub(super) fn moved(&mut self, slot: Option<Sketch>, write: Move, fence: u8) -> Option<Sketch> {
        let code = slot.map_or(0, |sketch| 1 + sketch.code());
        let code = code | u64::from(write.code()) << 32 | u64::from(fence) << 40;
        if let Some(moved) = self.moves.get(&code) {
            return *moved;
        }
        let moved = self.applied(slot, write, fence);
        self.moves.insert(code, moved);
        moved
    }

    fn applied(&self, slot: Option<Sketch>, write: Move, fence: u8) -> Option<Sketch> {
        let (arrival, fence) = (&self.arrival, Fence::from_bits(fence.into()));
        let Some(found) = slot.map(|sketch| self.record(sketch)) else {
            return Some(sketched(&moves::claimed(arrival, fence)));
        };
        let written = match write {
            Move::Claim => moves::claimed_over(&found, arrival, fence),
            Move::TakeOver => moves::taken_over(&found, arrival, fence),
            Move::Renew => moves::renewed(&found, fence),
            Move::Reach => moves::reached(&found, point(), fence),
            Move::Complete(answer) => moves::completed(&found, outcome(answer), fence),
            Move::Unsettle => found.unsettled(Reason::LAPSED, fence),
            Move::Release => return moves::released(&found, fence).as_ref().map(sketched),
            Move::SettleDone(answer) => {
                moves::resolved(&found, Some(outcome(answer)), note(), fence)
            }
            Move::SettleNotDone => moves::resolved(&found, None, note(), fence),
        };
        Some(sketched(&written))
    }

    /// The record that a sketch stands for.
    fn record(&self, sketch: Sketch) -> Record {
        let fence = Fence::from_bits(sketch.fence.into());
        let claimed = moves::claimed(&self.arrival, fence);
        let mark = Fence::from_bits(sketch.mark.into());
        Record {
            state: match sketch.state {
                StateName::Claimed => claimed.state.clone(),
                StateName::Completed | StateName::Shedding => {
                    State::Completed(outcome(sketch.outcome))
                }
                StateName::Unknown => State::Unknown(Reason::LAPSED),
                StateName::Open | StateName::Reserved => State::Open,
            },
            mark: (sketch.mark != 0).then_some(mark),
            attempt: sketch.attempt.into(),
            written: Self::WRITTEN,
            point: sketch.point.then(|| Box::new(point())),
            audit: sketch.audited.then(note).into_iter().collect(),
            ..claimed
        }
    }
}

// === impl Move ===

impl Move {
    /// Whether it says how the work ended.
    pub(super) fn is_end(self) -> bool {
        !matches!(
            self,
            Self::Claim | Self::TakeOver | Self::Renew | Self::Reach
        )
    }

    fn code(self) -> u8 {
        match self {
            Self::Claim => 0,
            Self::TakeOver => 1,
            Self::Renew => 2,
            Self::Reach => 3,
            Self::Unsettle => 4,
            Self::Release => 5,
            Self::SettleNotDone => 6,
            Self::Complete(answer) => 16 + answer,
            Self::SettleDone(answer) => 32 + answer,
        }
    }
}

fn claim(over: Option<Fence>, duty: Duty) -> Choice {
    let over = over.map_or(0, |over| over.bits() as u8);
    Choice::Claim { over, duty }
}

/// The sketch of a record that has just been written.
fn sketched(record: &Record) -> Sketch {
    Sketch {
        state: record.state.name(),
        due: false,
        fence: record.fence.bits() as u8,
        mark: record.mark.map_or(0, |mark| mark.bits() as u8),
        attempt: record.attempt.min(3) as u8,
        point: record.point.is_some(),
        audited: !record.audit.is_empty(),
        outcome: record.outcome().map_or(0, number),
    }
}

fn outcome(answer: u8) -> Outcome {
    Outcome::success(vec![answer])
}

fn number(outcome: &Outcome) -> u8 {
    let body = outcome.body().expect("the model's outcomes are kept");
    body[0]
}

fn point() -> Point {
    Point {
        name: "reserved".into(),
        data: "room 12".into(),
    }
}

fn note() -> Note {
    Note {
        deed: Deed::NotExecuted,
        who: "ann".into(),
        why: "looked it up".into(),
        at: Timestamp::ZERO,
    }
}
