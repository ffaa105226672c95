//! A tiny world that keeps the promise: slots, holders and a service behind, one step at a time.
//!
//! Every choice comes from a tape of numbers, so that a failing run shrinks to a short tape. Each
//! operation happens at one instant; its question and answer are spread around it, so that they
//! overlap those of others as they do in real runs.

mod holder;

use std::{collections::HashMap, sync::Arc};

use onceward_rig::history::{Answer, Class, Event, Fence, FinalRead, History, Kind, State, Verb};

use self::holder::Holder;

/// How long outcomes are kept, in ticks of which every step takes ten.
pub(crate) const RETENTION: u64 = 400;

/// The longest time between a question and its instant, or its instant and the answer.
const SPREAD: u64 = 25;

/// A record, or the lack of one.
#[derive(Clone, Default)]
struct Record {
    state: State,
    fingerprint: &'static str,
    mark: Fence,
    generation: Fence,
    attempt: u32,
    hash: Option<Arc<str>>,
    completed: u64,
}

struct Slot {
    tenant: Arc<str>,
    key: Arc<str>,
    class: Class,
    record: Record,
    /// Whether an effect of the current generation was accepted.
    executed: bool,
}

/// The world, and the history it leaves.
pub(crate) struct World<'a> {
    tape: std::slice::Iter<'a, u16>,
    lossy: bool,
    now: u64,
    slots: Vec<Slot>,
    holders: Vec<Holder>,
    /// What the service behind remembers of keyed requests: for ever.
    memory: HashMap<usize, (Arc<str>, bool)>,
    history: History,
}

/// Runs a tape to its end and returns the history. Only a lossy world loses answers.
pub(crate) fn run(tape: &[u16], lossy: bool) -> History {
    let mut world = World::new(tape, lossy);
    while world.tape.len() > 0 {
        world.now += 10;
        world.step();
    }
    world.end()
}

// === impl World ===

impl<'a> World<'a> {
    fn new(tape: &'a [u16], lossy: bool) -> Self {
        let classes = [
            Class::Opaque,
            Class::Keyed,
            Class::Transactional,
            Class::AtLeastOnce,
            Class::Opaque,
        ];
        let slots = classes.into_iter().enumerate().map(|(at, class)| Slot {
            tenant: if at < 4 { "a" } else { "b" }.into(),
            key: format!("k{}", at % 4).into(),
            class,
            record: Record::default(),
            executed: false,
        });
        let mut history = History::default();
        history.expectations.retention_ns = Some(RETENTION);
        Self {
            tape: tape.iter(),
            lossy,
            now: 100,
            slots: slots.collect(),
            holders: Vec::new(),
            memory: HashMap::new(),
            history,
        }
    }

    /// Returns a number below `n`, or zero when the tape is at its end.
    fn pick(&mut self, n: u64) -> u64 {
        u64::from(self.tape.next().copied().unwrap_or(0)) % n
    }

    fn pick_slot(&mut self) -> usize {
        self.pick(self.slots.len() as u64) as usize
    }

    fn step(&mut self) {
        match self.pick(10) {
            0..=3 => self.claim(),
            4..=7 => self.act(),
            8 => self.read(),
            _ => self.resolve(),
        }
    }

    /// Writes an operation down: asked not before `after`, and answered unless the answer is lost.
    ///
    /// Returns when it was answered.
    fn tell(&mut self, after: u64, asked: &Event, answer: Option<Event>, kind: Kind) -> u64 {
        // What nobody heard of again may have been under way for long.
        let delay = if answer.is_some() { SPREAD } else { 4 * SPREAD };
        let from = (self.now - self.pick(delay)).max(after + 1);
        let to = self.now + self.pick(SPREAD);
        let op_id = self.history.events.len() as u64;
        let invoke = Event {
            mono_ns: from,
            op_id,
            ..asked.clone()
        };
        if let Some(answer) = answer {
            let end = Event {
                mono_ns: to,
                op_id,
                kind,
                ..answer
            };
            self.history.events.push(end);
        }
        self.history.events.push(invoke);
        to
    }

    fn is_lost(&mut self) -> bool {
        self.lossy && self.pick(5) == 0
    }

    fn event(&self, slot: usize, verb: Verb) -> Event {
        Event::invoke(verb, &self.slots[slot].tenant, &self.slots[slot].key)
    }

    /// Empties a slot whose record has expired.
    fn expire(&mut self, slot: usize) {
        let record = &mut self.slots[slot].record;
        if record.state == State::Completed && record.completed + RETENTION <= self.now {
            *record = Record::default();
        }
    }

    fn claim(&mut self) {
        let slot = self.pick_slot();
        let fingerprint = ["pay", "pay", "pay", "steal"][self.pick(4) as usize];
        let mut asked = Event {
            fingerprint: Some(fingerprint.into()),
            class: Some(self.slots[slot].class),
            ..self.event(slot, Verb::Claim)
        };
        let lost = self.is_lost();
        // A claim whose answer is lost may not have arrived at all.
        if lost && self.pick(2) == 0 {
            self.tell(0, &asked, None, Kind::Info);
            return;
        }
        self.expire(slot);
        let lapsed = self.pick(3) == 0;
        let answer = self.decide(slot, fingerprint, lapsed);
        let mut end = self.event(slot, Verb::Claim);
        end.answer = Some(answer);
        let record = self.slots[slot].record.clone();
        match answer {
            Answer::Granted => {
                (end.mark, end.generation) = (Some(record.mark), Some(record.generation));
                end.fence = Some(record.mark);
            }
            Answer::Replayed => {
                (end.body_hash, end.generation) = (record.hash, Some(record.generation));
                end.body = Some(format!("secret-of-{}", end.tenant).into());
            }
            _ => {}
        }
        // Some claims know their mark before they are answered.
        if lost && answer == Answer::Granted && self.pick(2) == 0 {
            asked.mark = Some(record.mark);
        }
        let free = self.tell(0, &asked, (!lost).then_some(end), Kind::Ok);
        if answer == Answer::Granted {
            let Record { mark, attempt, .. } = record;
            self.holders.push(Holder {
                slot,
                mark,
                attempt,
                result: None,
                free,
                dead: lost,
            });
        }
    }

    /// Does what a newcomer makes of the record it finds, and returns its answer.
    fn decide(&mut self, at: usize, fingerprint: &'static str, lapsed: bool) -> Answer {
        let mark = Fence(self.now.into());
        let slot = &mut self.slots[at];
        let record = &mut slot.record;
        let fresh = Record {
            state: State::Claimed,
            fingerprint,
            mark,
            generation: mark,
            attempt: 1,
            ..Record::default()
        };
        match record.state {
            State::Absent => {}
            _ if record.fingerprint != fingerprint => return Answer::Mismatch,
            State::Open => {}
            State::Completed => return Answer::Replayed,
            State::Claimed if !lapsed => return Answer::Busy,
            State::Claimed | State::Unknown => match slot.class {
                Class::Keyed | Class::AtLeastOnce => {
                    record.state = State::Claimed;
                    record.mark = mark;
                    record.attempt += 1;
                    return Answer::Granted;
                }
                Class::Transactional => {}
                _ => {
                    record.state = State::Unknown;
                    return Answer::Unknown;
                }
            },
        }
        *record = fresh;
        slot.executed = false;
        Answer::Granted
    }

    /// Reads a slot, or sweeps it.
    fn read(&mut self) {
        let slot = self.pick_slot();
        self.expire(slot);
        let read = self.last_read(slot);
        let verb = if self.pick(2) == 0 {
            Verb::Get
        } else {
            Verb::Sweep
        };
        let asked = self.event(slot, verb);
        let end = Event {
            answer: Some(match read.state {
                State::Absent => Answer::Absent,
                State::Claimed => Answer::Claimed,
                State::Completed => Answer::Completed,
                State::Unknown => Answer::Unknown,
                State::Open => Answer::Open,
            }),
            mark: read.mark,
            generation: read.generation,
            body_hash: read.body_hash,
            ..asked.clone()
        };
        self.tell(0, &asked, Some(end), Kind::Ok);
    }

    /// Has an operator settle an unknown record: as open only if nothing has happened so far.
    fn resolve(&mut self) {
        let at = self.pick_slot();
        let open = self.pick(2) == 0;
        let (now, lost) = (self.now, self.is_lost());
        let slot = &mut self.slots[at];
        if slot.record.state != State::Unknown || open && slot.executed {
            return;
        }
        let generation = Some(slot.record.generation);
        let hash: Arc<str> = "by-hand".into();
        if open {
            slot.record = Record {
                state: State::Open,
                mark: Fence::default(),
                ..slot.record.clone()
            };
        } else {
            slot.record.state = State::Completed;
            slot.record.hash = Some(Arc::clone(&hash));
            slot.record.completed = now;
        }
        let asked = Event {
            answer: Some(if open {
                Answer::Open
            } else {
                Answer::Completed
            }),
            body_hash: (!open).then_some(hash),
            generation,
            ..self.event(at, Verb::Resolve)
        };
        let end = Event {
            answer: asked.answer,
            ..self.event(at, Verb::Resolve)
        };
        self.tell(0, &asked, (!lost).then_some(end), Kind::Ok);
    }

    fn last_read(&self, at: usize) -> FinalRead {
        let Slot {
            tenant,
            key,
            record,
            ..
        } = &self.slots[at];
        let there = record.state != State::Absent;
        FinalRead {
            mono_ns: self.now,
            tenant: Arc::clone(tenant),
            key: Arc::clone(key),
            state: record.state,
            body_hash: record.hash.clone(),
            mark: (there && record.state != State::Open).then_some(record.mark),
            generation: there.then_some(record.generation),
        }
    }

    /// Reads every slot, once all answers have arrived.
    fn end(mut self) -> History {
        self.now += 2 * SPREAD;
        for slot in 0..self.slots.len() {
            self.expire(slot);
            let read = self.last_read(slot);
            self.history.finals.push(read);
        }
        // Stable, so that a question stands before an answer at the same time.
        self.history
            .events
            .sort_by_key(|event| (event.mono_ns, event.kind != Kind::Invoke));
        self.history
    }
}
