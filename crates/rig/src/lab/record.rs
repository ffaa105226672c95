//! A store that writes down what is done to it, in the words of the protocol.

use std::sync::Arc;

use async_trait::async_trait;
use onceward::record::Deed;
use onceward::store::{Error, Insert, Reply, Swap};
use onceward::{Effect, Ending, Fence, Reason, Record, SlotId, State, Store, Timestamp};

use super::recorder::{Recorder, fence, hash};
use crate::history::{Answer, Class, Event, Kind, Verb};

/// Wraps a store and writes down every write to it: what was asked, and what came of it.
#[derive(Debug)]
pub struct RecordedStore {
    inner: Arc<dyn Store>,
    recorder: Arc<Recorder>,
    proc: u32,
}

// === impl RecordedStore ===

impl RecordedStore {
    /// Returns `inner` as process `proc` uses it.
    pub fn new(inner: Arc<dyn Store>, recorder: Arc<Recorder>, proc: u32) -> Self {
        Self {
            inner,
            recorder,
            proc,
        }
    }

    /// Writes down that something is asked. It takes a moment, as everything does.
    fn asked(&self, event: Option<Event>) -> Option<Event> {
        self.recorder.pass_time();
        let now = self.recorder.now();
        self.asked_at(now, event)
    }

    fn asked_at(&self, at: u64, event: Option<Event>) -> Option<Event> {
        let asked = Event {
            mono_ns: at,
            proc: self.proc,
            op_id: self.recorder.number(),
            ..event?
        };
        self.recorder.push(asked.clone());
        Some(asked)
    }

    /// Writes down what came of it.
    fn ended(&self, asked: Option<Event>, kind: Kind) {
        let Some(asked) = asked else { return };
        let mut ended = asked.ended(kind, self.recorder.now());
        if kind == Kind::Ok {
            ended.answer = asked.answer;
        }
        self.recorder.push(ended);
    }
}

#[async_trait]
impl Store for RecordedStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let known = is_work(slot, record);
        self.recorder.pass_time();
        let at = self.recorder.asked_at(record.fence);
        let asked = self.asked_at(at, known.then(|| told(&self.recorder, slot, record)));
        let reply = self.inner.insert(slot, record, not_after).await;
        let kind = match &reply {
            Ok(reply) if reply.value == Insert::Done => Kind::Ok,
            Ok(_) => Kind::Fail,
            Err(_) => Kind::Info,
        };
        if kind == Kind::Ok {
            self.recorder.wrote(slot, record);
        }
        self.ended(asked, kind);
        reply
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let extended = record
            .audit
            .last()
            .is_some_and(|it| it.deed == Deed::Extended);
        let known = is_work(slot, record) && !extended;
        let asked = self.asked(known.then(|| told(&self.recorder, slot, record)));
        let reply = self.inner.replace(slot, seen, record, not_after).await;
        let kind = swapped(&reply);
        if kind == Kind::Ok {
            self.recorder.wrote(slot, record);
        }
        self.ended(asked, kind);
        reply
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let writer = self.recorder.writer(seen);
        let tenant = self.inner.get(slot).await?.value;
        let release = tenant.filter(|it| is_work(slot, it)).map(|record| Event {
            mark: writer.and_then(|(mark, _)| mark).map(fence),
            answer: Some(Answer::Absent),
            ..self
                .recorder
                .invoke(Verb::Release, record.scope.tenant(), slot)
        });
        let asked = self.asked(release);
        let reply = self.inner.remove(slot, seen, not_after).await;
        let kind = swapped(&reply);
        if kind == Kind::Ok {
            self.recorder.removed(slot);
        }
        self.ended(asked, kind);
        reply
    }

    onceward::forward!(get, recall, forget, list, sweep, watch, durability, kind);
}

fn swapped(reply: &Result<Reply<Swap>, Error>) -> Kind {
    match reply {
        Ok(reply) if reply.value == Swap::Done => Kind::Ok,
        Ok(_) => Kind::Fail,
        Err(_) => Kind::Info,
    }
}

/// Whether a record is of work: the secret and the names of identities are not.
fn is_work(slot: SlotId, record: &Record) -> bool {
    slot != SlotId::RESERVED && record.reservation().is_none()
}

/// What writing `record` means, in the words of the protocol.
fn told(recorder: &Recorder, slot: SlotId, record: &Record) -> Event {
    let event = |verb| Event {
        mark: record.mark.map(fence),
        fence: Some(fence(record.fence)),
        generation: Some(fence(record.generation)),
        ..recorder.invoke(verb, record.scope.tenant(), slot)
    };
    match &record.state {
        State::Claimed(_) if record.mark == Some(record.fence) => Event {
            fingerprint: Some(recorder.payload(&record.seal)),
            answer: Some(Answer::Granted),
            class: Some(class(record)),
            ..event(Verb::Claim)
        },
        State::Claimed(_) => event(Verb::Renew),
        State::Completed(outcome) => {
            let by_hand = record
                .audit
                .last()
                .is_some_and(|it| it.deed == Deed::Completed);
            let hash = hash(outcome);
            Event {
                answer: match outcome.ending {
                    _ if by_hand => Some(Answer::Completed),
                    Ending::Failure => Some(Answer::Refused),
                    Ending::Success if recorder.is_of_another(slot, &hash) => Some(Answer::Copied),
                    Ending::Success => None,
                },
                body_hash: Some(hash),
                ..event(if by_hand {
                    Verb::Resolve
                } else {
                    Verb::Complete
                })
            }
        }
        // Said by somebody else: the holder may yet know better, and say that nothing happened.
        State::Unknown(reason)
            if [Reason::LAPSED, Reason::RESTARTED, Reason::SHUT_DOWN].contains(reason) =>
        {
            Event {
                answer: Some(Answer::Unknown),
                ..event(Verb::Sweep)
            }
        }
        State::Unknown(reason) if *reason == Reason::EARLIER_ATTEMPT => Event {
            answer: Some(Answer::Unknown),
            ..event(Verb::Release)
        },
        State::Unknown(_) => event(Verb::Abandon),
        State::Open => Event {
            answer: Some(Answer::Open),
            ..event(Verb::Resolve)
        },
        State::Reserved(_) => unreachable!("a reservation is not of work"),
    }
}

/// The class that counts: past a recovery point a claim may be taken over.
fn class(record: &Record) -> Class {
    match record.effect {
        _ if record.point.is_some() => Class::Keyed,
        Effect::Repeatable => Class::AtLeastOnce,
        Effect::Transactional => Class::Transactional,
        Effect::Keyed => Class::Keyed,
        Effect::Probed => Class::Probed,
        Effect::Opaque => Class::Opaque,
    }
}
