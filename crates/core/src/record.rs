//! Records: what a slot holds.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::bugs::{Bug, seeded};
use crate::{Effect, Fence, Outcome, Scope, Seal, SlotId, Timestamp};

/// Everything that is known about one piece of work.
///
/// A record carries durations; the store stamps the moment of each write from its own clock, in
/// the same atomic write. What is [`due`](Record::due) when follows from the two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Who asked, and for what: in clear, so that operators can list.
    pub scope: Scope,
    /// What binds the key to its payload.
    pub seal: Seal,
    /// The class the work was claimed under.
    pub effect: Effect,
    /// How far the work has come.
    pub state: State,
    /// The fence of the first write of the claim that this record stems from: how a writer
    /// recognises itself. An open record has none, so nothing heals it.
    pub mark: Option<Fence>,
    /// The fence of the slot's first claim, inherited by take-overs.
    pub generation: Fence,
    /// The fence of the last write.
    pub fence: Fence,
    /// Which attempt this is, from 1; 0 if none was made, because the answer is that of work with
    /// the same business identity in another slot.
    pub attempt: u32,
    /// How long the record is kept once the work has ended.
    pub retention: Duration,
    /// How long an unknown record is kept; `None` is until somebody settles it.
    pub unknown_retention: Option<Duration>,
    /// When this generation began; `None` in its first write, whose stamp is the answer.
    pub began: Option<Timestamp>,
    /// The store's stamp of the last write. A writer's value is ignored.
    pub written: Timestamp,
    /// How far work of several phases has come.
    pub point: Option<Box<Point>>,
    /// What operators did to the record.
    pub audit: Vec<Note>,
}

/// How far a piece of work has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Somebody holds the right to execute, and renews the lease.
    Claimed(Lease),
    /// Done: every duplicate gets this outcome.
    Completed(Outcome),
    /// Execution may have happened and no outcome is recorded.
    Unknown(Reason),
    /// An operator settled an unknown record as not executed: the next arrival claims it.
    Open,
    /// Not work, but the name of a business identity, taken by the work in another slot.
    Reserved(Reservation),
}

/// Which work has taken a business identity. It never holds an outcome: the truth is the record
/// that it points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// The slot of the work's key.
    pub slot: SlotId,
    /// The generation of the work: another one in the same slot is other work.
    pub generation: Fence,
    /// How long the identity stays taken.
    pub lasts: Lasts,
}

/// How long a [`Reservation`] holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Lasts {
    /// As long as the record of the work, unless that failed.
    Work = 1,
    /// Until it is due.
    Window = 2,
}

/// The name of a [`State`], without what it holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum StateName {
    /// [`State::Claimed`].
    Claimed = 1,
    /// [`State::Completed`].
    Completed = 2,
    /// [`State::Unknown`].
    Unknown = 3,
    /// [`State::Open`].
    Open = 4,
    /// [`State::Reserved`].
    Reserved = 5,
    /// [`State::Completed`], with a body that goes before the record does.
    Shedding = 6,
}

/// The time a claim lives after each write of its holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// How long it lives, counted from the store's stamp.
    pub length: Duration,
}

/// Why nobody knows whether the work happened: a few words for operators.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason(Cow<'static, str>);

/// A named stage that work of several phases has reached: what came before need not be repeated.
#[derive(Clone, PartialEq, Eq)]
pub struct Point {
    /// The name of the stage.
    pub name: Box<str>,
    /// What the next stages need to know of it.
    pub data: Bytes,
}

/// What an operator did to a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// What was done.
    pub deed: Deed,
    /// Who did it.
    pub who: Box<str>,
    /// Why.
    pub why: Box<str>,
    /// When, by the store's clock.
    pub at: Timestamp,
}

/// The things an operator can do to a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Deed {
    /// Settled an unknown record as completed, with an outcome.
    Completed = 1,
    /// Settled an unknown record as not executed.
    NotExecuted = 2,
    /// Changed how long the record is kept.
    Extended = 3,
    /// Not an operator's: the engine let the work pass although it looked like that in another
    /// slot.
    Suspected = 4,
}

// === impl Record ===

impl Record {
    /// When the store has something to do about the record: a lease lapses, a retention ends.
    /// Never is [`Timestamp::NEVER`].
    pub fn due(&self) -> Timestamp {
        if seeded(Bug::RenewalIgnored) && matches!(self.state, State::Claimed(_)) {
            return self.began() + self.due_after();
        }
        self.written + self.due_after()
    }

    /// How long after its last write the record comes due.
    pub fn due_after(&self) -> Duration {
        match &self.state {
            State::Claimed(lease) => lease.length,
            State::Completed(outcome) => match outcome.keeps_body_for() {
                Some(keep) => keep.min(self.retention),
                None => self.retention,
            },
            State::Open | State::Reserved(_) => self.retention,
            State::Unknown(_) if seeded(Bug::UnknownExpires) => self.retention,
            State::Unknown(_) => self.unknown_retention.unwrap_or(Duration::MAX),
        }
    }

    /// When the record counts as absent: with its body or, where that goes first, without it.
    pub fn expires(&self) -> Timestamp {
        match &self.state {
            State::Completed(_) => self.written + self.retention,
            State::Open | State::Unknown(_) => self.due(),
            // A lapsed claim and a reservation are matters for the protocol.
            State::Claimed(_) | State::Reserved(_) => Timestamp::NEVER,
        }
    }

    /// Whether the record counts as absent by now. A claim lapses and never expires.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        let may_expire = !matches!(self.state, State::Claimed(_) | State::Reserved(_));
        may_expire && self.expires() <= now
    }

    /// Whether the record is a claim whose holder fell silent.
    pub fn has_lapsed(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Claimed(_)) && self.due() <= now
    }

    /// The record as a store keeps it, written at `now`.
    #[must_use]
    pub fn stamped(&self, now: Timestamp) -> Self {
        Self {
            written: now,
            ..self.clone()
        }
    }

    /// When this generation began.
    pub fn began(&self) -> Timestamp {
        self.began.unwrap_or(self.written)
    }

    /// The outcome, if the work is done.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Completed(outcome) => Some(outcome),
            State::Claimed(_) | State::Unknown(_) | State::Open | State::Reserved(_) => None,
        }
    }

    /// The outcome as it is told at `now`, if the work is done: without a body that is not kept any
    /// longer, whether or not that is gone already.
    pub fn outcome_at(&self, now: Timestamp) -> Option<Outcome> {
        Some(self.outcome()?.told(self.due() <= now))
    }

    /// What has taken the business identity that is filed here, if that is what it is.
    pub fn reservation(&self) -> Option<&Reservation> {
        match &self.state {
            State::Reserved(reservation) => Some(reservation),
            State::Claimed(_) | State::Completed(_) | State::Unknown(_) | State::Open => None,
        }
    }
}

// === impl State ===

impl State {
    /// The name of the state.
    pub fn name(&self) -> StateName {
        match self {
            Self::Claimed(_) => StateName::Claimed,
            Self::Completed(outcome) if outcome.keeps_body_for().is_some() => StateName::Shedding,
            Self::Completed(_) => StateName::Completed,
            Self::Unknown(_) => StateName::Unknown,
            Self::Open => StateName::Open,
            Self::Reserved(_) => StateName::Reserved,
        }
    }
}

// === impl StateName ===

impl StateName {
    /// Every state, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Claimed,
        Self::Completed,
        Self::Unknown,
        Self::Open,
        Self::Reserved,
        Self::Shedding,
    ];

    /// Whether records in this state are removed once they are due. The others are a matter for
    /// the protocol.
    pub const fn expires(self) -> bool {
        match self {
            Self::Completed | Self::Unknown | Self::Open => true,
            Self::Claimed | Self::Reserved | Self::Shedding => false,
        }
    }

    /// Whether somebody who asks for records in this state means those in `other` as well:
    /// finished work is completed, whatever becomes of its body.
    pub const fn covers(self, other: Self) -> bool {
        match self {
            Self::Completed | Self::Shedding => matches!(other, Self::Completed | Self::Shedding),
            _ => self as u8 == other as u8,
        }
    }

    /// The name in lists, metrics and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Completed | Self::Shedding => "completed",
            Self::Unknown => "unknown",
            Self::Open => "open",
            Self::Reserved => "reserved",
        }
    }

    /// Reads a name as [`StateName::as_str`] writes it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

// === impl Reason ===

impl Reason {
    /// The longest reason, in bytes.
    pub const LEN_MAX: usize = 500;

    /// The holder fell silent until its lease lapsed.
    pub const LAPSED: Self = Self(Cow::Borrowed("the holder fell silent"));
    /// The process that held the claim ended before it completed.
    pub const RESTARTED: Self = Self(Cow::Borrowed("the holder's process ended"));
    /// The work panicked.
    pub const PANICKED: Self = Self(Cow::Borrowed("the work panicked"));
    /// The process was shut down before the work ended.
    pub const SHUT_DOWN: Self = Self(Cow::Borrowed("the process was shut down"));
    /// A later attempt did not happen; an earlier one may have.
    pub const EARLIER_ATTEMPT: Self = Self(Cow::Borrowed("an earlier attempt may have happened"));
    /// The record was settled or replaced while the work was under way.
    pub const SUPERSEDED: Self = Self(Cow::Borrowed("the record was settled by somebody else"));

    /// Returns a reason in these words, cut after [`Reason::LEN_MAX`] bytes.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        match text.len() {
            0..=Self::LEN_MAX => Self(text),
            _ => Self(Cow::Owned(
                text[..text.floor_char_boundary(Self::LEN_MAX)].to_owned(),
            )),
        }
    }

    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

// === impl Point ===

impl Point {
    /// The largest data of a point, in bytes.
    pub const DATA_MAX: usize = 64 << 10;
    /// The longest name of a point, in bytes.
    pub const NAME_MAX: usize = 255;
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Point({:?}, {} B)", self.name, self.data.len())
    }
}

// === impl Deed ===

impl Deed {
    /// What was done, in a word or two.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::NotExecuted => "not executed",
            Self::Extended => "extended",
            Self::Suspected => "suspected",
        }
    }
}
