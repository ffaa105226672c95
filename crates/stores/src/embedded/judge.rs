//! Judging: whoever writes compares what a slot holds with what it saw, and hands its write in.

use std::sync::Arc;

use onceward::store::Error;
use onceward::{Fence, SlotId, Timestamp};

use super::base::{Base, unavailable};
use super::board::Posted;
use super::group::Group;
use super::intake::{self, Refused, is_late};
use super::recent::Ticket;
use super::shared::Shared;
use super::value::{Draft, Value};

/// A write that names what it saw.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) slot: SlotId,
    /// The fence in the slot; `None` is an empty slot.
    pub(super) seen: Option<Fence>,
    /// What to put there; `None` removes. Gone once it is handed in.
    pub(super) draft: Option<Draft>,
    /// It begins something new, which a disk that is nearly full has no room for.
    pub(super) is_beginning: bool,
    pub(super) not_after: Timestamp,
}

/// What is to be said of a write.
#[derive(Debug)]
pub(super) enum Judged {
    Late(Timestamp),
    /// Something else is there, or nothing; durably.
    Found(Timestamp, Ticket, Option<Value>),
    /// It is handed in, and durable if the group's end says so.
    Written(Timestamp, Arc<Group>),
    /// It can be judged when this group has ended.
    Wait(Arc<Group>),
    /// It has to be judged where a disk may be waited for.
    Look,
}

// === impl Write ===

impl Write {
    /// The same write for somebody else to judge.
    pub(super) fn take(&mut self) -> Self {
        Self {
            draft: self.draft.take(),
            ..*self
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Compares and swaps: hands `write` in if its slot holds what it saw.
    ///
    /// Reads the database for a slot that is not on the board, if that has not taken long of late or
    /// this one `may_wait`.
    pub(super) fn judge(
        &self,
        base: &Base,
        write: &mut Write,
        may_wait: bool,
    ) -> Result<Judged, Error> {
        let (slot, not_after) = (write.slot, write.not_after);
        // Held until the write is handed in, so that nobody else finds the slot as it is now.
        let mut shard = self.board.shard(slot).lock();
        let read;
        let found = match shard.get(slot) {
            Posted::Written(number) => {
                let group = self.intake.group(number);
                return group
                    .map(Judged::Wait)
                    .ok_or_else(|| unavailable("it failed while it was writing"));
            }
            Posted::Kept(found) => found,
            Posted::Nothing => {
                let look = || base.get(slot);
                let looked = match may_wait {
                    true => Some(look()),
                    false => self.looks.look(&*self.machine, look),
                };
                let Some(looked) = looked else {
                    return Ok(Judged::Look);
                };
                read = looked?;
                read.as_ref()
            }
        };
        if found.map(Value::fence) != write.seen {
            // Nobody replaces the record until the shard is free again, and whoever does it then
            // makes the ticket void.
            let (now, ticket) = (self.clock.now(), self.recent.ticket(slot));
            return Ok(match is_late(now, not_after) {
                true => Judged::Late(now),
                false => Judged::Found(now, ticket, found.cloned()),
            });
        }
        let before = found.map(Value::trace);
        if write.is_beginning {
            let now = self.machine.monotonic();
            self.reserve.admit(&*self.disk, self.folder.path(), now)?;
        }
        let draft = &mut write.draft;
        let handed_in = |now| intake::Write {
            slot,
            before,
            after: draft.take().map(|draft| draft.stamp(now)),
            now,
            not_after,
        };
        match self.intake.put(&self.clock, handed_in, not_after) {
            Ok((now, group)) => {
                shard.begin(slot, group.number());
                Ok(Judged::Written(now, group))
            }
            Err(Refused::Late(now)) => Ok(Judged::Late(now)),
            Err(Refused::Full(group)) => Ok(Judged::Wait(group)),
            Err(Refused::Closed) => Err(unavailable("it is closed")),
        }
    }
}
