//! What operators do: look, settle what nobody knows, keep longer.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Error, Shared};
use crate::record::{Deed, Note, StateName};
use crate::store::{Filter, Page, Reply, Swap};
use crate::{Outcome, Record, Slot, SlotId, Timestamp};

/// Who does something to a record, and why. Both stay in the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct By {
    /// Who: a name that others can ask.
    pub who: String,
    /// Why: what was found out, and where.
    pub why: String,
}

/// How an unknown record is to be settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// The work happened, and this is its outcome.
    Completed(Outcome),
    /// The work did not happen: the next arrival may execute it.
    NotExecuted,
}

/// A record and where it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The slot.
    pub slot: SlotId,
    /// The record in it.
    pub record: Arc<Record>,
    /// The store's time when it was read.
    pub now: Timestamp,
}

/// What settling by a filter did, or would do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settled {
    /// The slots that were settled, or would be.
    pub slots: Vec<SlotId>,
    /// How many moved while they were being settled and were left alone.
    pub moved: usize,
}

/// Why a record was not settled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSettled {
    /// There is no record in the slot.
    #[error("there is no record in slot {0:?}")]
    Absent(SlotId),

    /// Only unknown records, and lapsed claims, can be settled.
    #[error("the record in slot {slot:?} is {state}, not unknown")]
    NotUnknown {
        /// The slot.
        slot: SlotId,
        /// The state it is in.
        state: StateName,
    },

    /// Only completed and open records have a retention to change.
    #[error("the record in slot {slot:?} is {state}, so nothing of it expires")]
    NotKept {
        /// The slot.
        slot: SlotId,
        /// The state it is in.
        state: StateName,
    },

    /// The record is kept longer than that already: shortening would let the work run again.
    #[error("the record in slot {0:?} is kept longer than that already")]
    Shorter(SlotId),

    /// Who or why is missing or too long.
    #[error("say who (1 to 255 bytes) and why (1 to 1000 bytes)")]
    NoReason,

    /// The record changed meanwhile: look again.
    #[error("the record in slot {0:?} changed meanwhile")]
    Moved(SlotId),

    /// The store did not answer.
    #[error(transparent)]
    Engine(#[from] Error),
}

// === impl Engine ===

impl Engine {
    /// Returns one page of the records that `filter` lets pass.
    pub async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        let reach = &self.shared.reach;
        let mut page = reach.ask(reach.store.list(filter, after, limit)).await?;
        page.value
            .records
            .retain(|(slot, _)| *slot != SlotId::RESERVED);
        Ok(page)
    }

    /// Returns the name under which the store files `slot`.
    pub async fn id_of(&self, slot: &Slot) -> Result<SlotId, Error> {
        Ok(slot.id(self.secret().await?))
    }

    /// Returns the record in a slot, if there is one.
    pub async fn inspect(&self, slot: SlotId) -> Result<Option<Found>, Error> {
        let reach = &self.shared.reach;
        if slot == SlotId::RESERVED {
            return Ok(None); // the deployment's secret is nobody's record
        }
        let Reply { value, now } = reach.ask(reach.store.get(slot)).await?;
        Ok(value.map(|record| Found { slot, record, now }))
    }

    /// Settles an unknown record, or a claim that lapsed.
    pub async fn resolve(
        &self,
        slot: SlotId,
        resolution: Resolution,
        by: &By,
    ) -> Result<(), NotSettled> {
        let note = by.note(resolution.deed())?;
        let found = self.find(slot).await?;
        if !found.is_unsettled() {
            let state = found.record.state.name();
            return Err(NotSettled::NotUnknown { slot, state });
        }
        let outcome = match resolution {
            Resolution::Completed(outcome) => {
                let policy = self.policy();
                Some(
                    outcome
                        .keeping(policy.body_max)
                        .keeping_for(policy.keep_body),
                )
            }
            Resolution::NotExecuted => None,
        };
        let fence = self.shared.reach.fence(Some(found.record.fence));
        let note = Note {
            at: found.now,
            ..note
        };
        let record = found.record.resolved(outcome, note, fence);
        self.shared.put(&found, record).await
    }

    /// Settles every unknown record, and every lapsed claim, that `filter` lets pass; with
    /// `dry_run` only says which those are.
    pub async fn resolve_all(
        &self,
        filter: &Filter,
        resolution: &Resolution,
        by: &By,
        dry_run: bool,
    ) -> Result<Settled, NotSettled> {
        // A dry run refuses what the run itself would refuse.
        by.note(resolution.deed())?;
        let mut settled = Settled::default();
        let mut after = None;
        loop {
            let Reply { value: page, now } = self.list(filter, after, 256).await?;
            for (slot, record) in page.records {
                let found = Found { slot, record, now };
                if !found.is_unsettled() {
                    continue;
                }
                let done = match dry_run {
                    true => Ok(()),
                    false => self.resolve(slot, resolution.clone(), by).await,
                };
                match done {
                    Ok(()) => settled.slots.push(slot),
                    Err(NotSettled::Engine(error)) => return Err(error.into()),
                    Err(_) => settled.moved += 1,
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(settled);
            }
        }
    }

    /// Keeps a completed or open record for `keep`, counted from now. Never for less than it is
    /// kept anyway.
    pub async fn extend(&self, slot: SlotId, keep: Duration, by: &By) -> Result<(), NotSettled> {
        let note = by.note(Deed::Extended)?;
        let found = self.find(slot).await?;
        let state = found.record.state.name();
        if !matches!(
            state,
            StateName::Completed | StateName::Shedding | StateName::Open
        ) {
            return Err(NotSettled::NotKept { slot, state });
        }
        if found.now + keep < found.record.expires() {
            return Err(NotSettled::Shorter(slot));
        }
        let fence = self.shared.reach.fence(Some(found.record.fence));
        let note = Note {
            at: found.now,
            ..note
        };
        let record = found.record.extended(keep, note, fence);
        self.shared.put(&found, record).await
    }

    async fn find(&self, slot: SlotId) -> Result<Found, NotSettled> {
        let found = self.inspect(slot).await?;
        found
            .filter(|found| !found.record.has_expired(found.now))
            .ok_or(NotSettled::Absent(slot))
    }
}

// === impl Shared ===

impl Shared {
    async fn put(&self, found: &Found, record: Record) -> Result<(), NotSettled> {
        let (slot, seen) = (found.slot, found.record.fence);
        // A record that has expired meanwhile stays so: its identities may be somebody else's.
        let last = match found.record.expires() {
            Timestamp::NEVER => Timestamp::NEVER,
            expires => expires.before(Duration::from_micros(1)),
        };
        // Other nodes may remember an answer that this write changes: they forget it first, or
        // nothing is written.
        let told = self.reach.store.forget(slot, record.fence).await;
        told.map_err(Error::from)?;
        let call = self.reach.store.replace(slot, seen, &record, last);
        match self.reach.ask(call).await.map_err(Error::from)?.value {
            Swap::Done => {
                self.room.poke(slot);
                Ok(())
            }
            Swap::Moved(_) | Swap::Late => Err(NotSettled::Moved(slot)),
        }
    }
}

// === impl Resolution ===

impl Resolution {
    fn deed(&self) -> Deed {
        match self {
            Self::Completed(_) => Deed::Completed,
            Self::NotExecuted => Deed::NotExecuted,
        }
    }
}

// === impl Found ===

impl Found {
    /// Whether nobody knows if the work happened.
    pub fn is_unsettled(&self) -> bool {
        let unknown = self.record.state.name() == StateName::Unknown;
        (unknown && !self.record.has_expired(self.now)) || self.record.has_lapsed(self.now)
    }
}

// === impl By ===

impl By {
    fn note(&self, deed: Deed) -> Result<Note, NotSettled> {
        let fits = |text: &str, max| (1..=max).contains(&text.trim().len());
        if !fits(&self.who, Note::WHO_MAX) || !fits(&self.why, Note::WHY_MAX) {
            return Err(NotSettled::NoReason);
        }
        Ok(Note {
            deed,
            who: self.who.trim().into(),
            why: self.why.trim().into(),
            at: Timestamp::ZERO,
        })
    }
}
