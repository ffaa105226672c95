//! What a recorded process was promised: the records that have to be there, and those that may.
//!
//! It says each line in one write, and the recorder puts it between the calls around it:
//!
//! ```text
//! try N SLOT RECORD   a write is begun: this record, or - for none
//! ok N MICROS         it was acknowledged, and stamped with that
//! not N               it was refused: nothing was written
//! look                everything in the store is read
//! saw SLOT MICROS RECORD
//! looked              that was all
//! sweep MICROS        what expired before that may go from now on
//! swept MICROS        and is gone
//! any SLOT            whatever is in there, nothing is promised of it
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};

use onceward::record::Reason;
use onceward::{Fence, Record, SlotId, State, Timestamp, codec};

/// Everything a process was promised so far.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    pub(super) slots: BTreeMap<SlotId, Held>,
    tries: HashMap<u64, SlotId>,
    /// The latest stamp that anybody was told.
    pub(super) stamp: Timestamp,
    looking: Option<BTreeSet<SlotId>>,
}

/// What a slot holds, as far as anybody was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) certain: Option<Version>,
    /// Writes that nobody has an answer to.
    maybe: Vec<(u64, Option<Version>)>,
    /// It expired, and a sweep is under way.
    may_be_gone: bool,
    /// Nothing is promised of it.
    is_any: bool,
    /// The highest fence that anybody was told.
    pub(super) fence: Option<Fence>,
}

/// A record that was written.
#[derive(Clone, Debug)]
pub struct Version {
    record: Record,
    is_stamped: bool,
}

/// A line that the process said.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    Try(u64, SlotId, Option<Box<Record>>),
    Ok(u64, Timestamp),
    Not(u64),
    Look,
    Saw(SlotId, Box<Record>),
    Looked,
    Sweep(Timestamp),
    Swept(Timestamp),
    Any(SlotId),
}

// === impl Promise ===

impl Promise {
    pub(super) fn note(&mut self, mark: &Mark) {
        match mark {
            Mark::Try(id, slot, record) => {
                let version = record.as_deref().map(|record| Version {
                    record: record.clone(),
                    is_stamped: false,
                });
                self.tries.insert(*id, *slot);
                self.slots
                    .entry(*slot)
                    .or_default()
                    .maybe
                    .push((*id, version));
            }
            Mark::Ok(id, now) => {
                let held = self.tried(*id);
                let at = held.maybe.iter().position(|(it, _)| it == id);
                let (_, version) = held.maybe.remove(at.expect("it was tried"));
                held.settle(version.map(|it| it.stamped(*now)));
                self.stamp = self.stamp.max(*now);
            }
            Mark::Not(id) => self.tried(*id).maybe.retain(|(it, _)| it != id),
            Mark::Look => self.looking = Some(BTreeSet::new()),
            Mark::Saw(slot, record) => {
                if let Some(looking) = &mut self.looking {
                    looking.insert(*slot);
                }
                self.stamp = self.stamp.max(record.written);
                let version = Version::stored(record);
                self.slots.entry(*slot).or_default().settle(Some(version));
            }
            Mark::Looked => {
                let seen = self.looking.take().unwrap_or_default();
                let absent = self
                    .slots
                    .iter_mut()
                    .filter(|(slot, _)| !seen.contains(slot));
                absent.for_each(|(_, held)| held.settle(None));
            }
            Mark::Any(slot) => self.slots.entry(*slot).or_default().is_any = true,
            Mark::Sweep(before) => self.expired(*before, |held| held.may_be_gone = true),
            Mark::Swept(before) => self.expired(*before, |held| held.settle(None)),
        }
    }

    /// How many records have to be there.
    pub(super) fn promised(&self) -> u64 {
        let certain = self.slots.values().filter(|held| held.certain.is_some());
        certain.count() as u64
    }

    /// The promise as lines with which another log can begin.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (slot, held) in &self.slots {
            if let Some(Version { record, .. }) = &held.certain {
                let written = record.written.as_micros();
                lines.push(format!("saw {slot} {written} {}\n", text(record)));
            }
            for (id, version) in &held.maybe {
                // Out of the way of those that the sessions of that log will try.
                let id = id | 1 << 63;
                let record = version.as_ref();
                let record = record.map_or("-".to_owned(), |it| text(&it.record));
                lines.push(format!("try {id} {slot} {record}\n"));
            }
        }
        lines
    }

    fn tried(&mut self, id: u64) -> &mut Held {
        let slot = self.tries.remove(&id).expect("what is answered was tried");
        self.slots.entry(slot).or_default()
    }

    fn expired(&mut self, before: Timestamp, each: impl Fn(&mut Held)) {
        for held in self.slots.values_mut() {
            let is_due = held.certain.as_ref().is_some_and(|it| {
                !matches!(it.record.state, State::Claimed(_)) && it.record.due() < before
            });
            if is_due {
                each(held);
            }
        }
    }
}

// === impl Held ===

impl Held {
    /// Whether this is what may be found there.
    pub(super) fn allows(&self, found: Option<&Record>) -> bool {
        if self.is_any {
            return true;
        }
        let Some(found) = found else {
            return self.certain.is_none()
                || self.may_be_gone
                || self.maybe.iter().any(|(_, version)| version.is_none());
        };
        let maybe = self
            .maybe
            .iter()
            .filter_map(|(_, version)| version.as_ref());
        let mut versions = self.certain.iter().chain(maybe);
        versions.any(|version| version.is(found))
    }

    fn settle(&mut self, version: Option<Version>) {
        let fence = version.as_ref().map(|it| it.record.fence);
        self.fence = self.fence.max(fence);
        self.certain = version;
        self.may_be_gone = false;
    }
}

// === impl Version ===

impl Version {
    /// A record as a store shows it.
    pub(super) fn stored(record: &Record) -> Self {
        Self {
            record: record.clone(),
            is_stamped: true,
        }
    }

    fn stamped(self, now: Timestamp) -> Self {
        Self {
            record: self.record.stamped(now),
            is_stamped: true,
        }
    }

    /// Whether a store may show this record as `found`. Claims of an earlier run are unknown.
    pub(super) fn is(&self, found: &Record) -> bool {
        let is_same = match self.is_stamped {
            true => self.record == *found,
            false => self.record.stamped(found.written) == *found,
        };
        is_same || self.is_unsettled_in(found)
    }

    fn is_unsettled_in(&self, found: &Record) -> bool {
        let State::Claimed(_) = self.record.state else {
            return false;
        };
        // What is not stamped yet began with the stamp of its write, which nobody was told.
        let unsettled = self.record.unsettled(Reason::RESTARTED, found.fence);
        let began = match self.is_stamped {
            true => unsettled.began,
            false => found.began,
        };
        let unsettled = Record { began, ..unsettled };
        found.fence > self.record.fence && unsettled.stamped(found.written) == *found
    }
}

// === impl Mark ===

impl Mark {
    /// Reads a line.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let line = str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let mut words = line.split(' ');
        let kind = words.next()?;
        let mut word = || words.next();
        let number = |word: Option<&str>| word?.parse::<u64>().ok();
        Some(match kind {
            "try" => {
                let (id, slot) = (number(word())?, SlotId::from_hex(word()?)?);
                let record = match word()? {
                    "-" => None,
                    text => Some(Box::new(record(text, Timestamp::ZERO)?)),
                };
                Self::Try(id, slot, record)
            }
            "ok" => Self::Ok(number(word())?, Timestamp::from_micros(number(word())?)),
            "not" => Self::Not(number(word())?),
            "look" => Self::Look,
            "saw" => {
                let slot = SlotId::from_hex(word()?)?;
                let written = Timestamp::from_micros(number(word())?);
                Self::Saw(slot, Box::new(record(word()?, written)?))
            }
            "looked" => Self::Looked,
            "sweep" => Self::Sweep(Timestamp::from_micros(number(word())?)),
            "any" => Self::Any(SlotId::from_hex(word()?)?),
            "swept" => Self::Swept(Timestamp::from_micros(number(word())?)),
            _ => return None,
        })
    }
}

/// Writes a record as a line carries it.
pub(super) fn text(record: &Record) -> String {
    use std::fmt::Write as _;

    let bytes = codec::encode(record);
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes whatever is written to it");
    }
    text
}

fn record(text: &str, written: Timestamp) -> Option<Record> {
    let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digits).collect();
    codec::decode(&bytes?.into(), written).ok()
}
