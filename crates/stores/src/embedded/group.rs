//! Groups: writes that become durable together, and those who wait for it.

use std::fmt;
use std::future::Future;
use std::mem;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use onceward::SlotId;

use super::couriers::{Courier, Couriers};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Writes that are committed in one batch: all of them are durable, or nobody knows.
pub(super) struct Group {
    number: Number,
    /// How it ended, for those who only look: a [`Fate`], or zero.
    fate: AtomicU8,
    /// Some of the writes came too late to be part of the batch.
    leaves_out: AtomicBool,
    seats: Mutex<Seats>,
}

/// What tells the groups of a store apart: later ones have greater numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Number(NonZeroU64);

/// Who waits for a group, and where.
#[derive(Default)]
struct Seats {
    rows: Vec<Row>,
    /// The writes that came too late to be part of the batch.
    late: Vec<SlotId>,
}

/// Those who wait in one runtime, or in none that is known.
struct Row {
    courier: Option<Arc<Courier>>,
    wakers: Vec<Waker>,
}

/// How a group ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Fate {
    /// All of it is durable, but for what came too late.
    Durable = 1,
    /// Nobody knows what of it is durable.
    Unknown = 2,
}

/// Waits until a group has ended. Cancel safe: the write goes on.
pub(super) struct Wait<'a> {
    group: &'a Group,
    couriers: &'a Couriers,
    /// Its row, and its place there.
    seat: Option<(usize, usize)>,
}

// === impl Group ===

impl Group {
    /// How many answers at once are worth a courier's way: a few are sooner there without.
    const CROWD: usize = 8;

    /// Returns the group after `before`, that nobody is part of yet.
    pub(super) fn after(before: Number) -> Arc<Self> {
        Arc::new(Self {
            number: before.next(),
            fate: AtomicU8::new(0),
            leaves_out: AtomicBool::new(false),
            seats: Mutex::default(),
        })
    }

    pub(super) fn number(&self) -> Number {
        self.number
    }

    /// Waits for its end.
    pub(super) fn wait<'a>(&'a self, couriers: &'a Couriers) -> Wait<'a> {
        Wait {
            group: self,
            couriers,
            seat: None,
        }
    }

    /// Whether the write of `slot` was left out, because it came too late.
    pub(super) fn is_late(&self, slot: SlotId) -> bool {
        self.leaves_out.load(Ordering::Acquire) && self.seats.lock().late.contains(&slot)
    }

    /// Leaves the write of `slot` out.
    pub(super) fn leave_out(&self, slot: SlotId) {
        self.seats.lock().late.push(slot);
        self.leaves_out.store(true, Ordering::Release);
    }

    /// Ends it, and wakes everybody who waits. Only the first end counts.
    pub(super) fn end(&self, fate: Fate) {
        let mut seats = self.seats.lock();
        if self.fate().is_some() {
            return;
        }
        self.fate.store(fate as u8, Ordering::Release);
        let rows = mem::take(&mut seats.rows);
        drop(seats);
        for Row { courier, wakers } in rows {
            match courier {
                Some(courier) if wakers.len() >= Self::CROWD => courier.rouse(wakers),
                _ => wakers.into_iter().for_each(Waker::wake),
            }
        }
    }

    fn fate(&self) -> Option<Fate> {
        match self.fate.load(Ordering::Acquire) {
            1 => Some(Fate::Durable),
            2 => Some(Fate::Unknown),
            _ => None,
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("fate", &self.fate())
            .finish_non_exhaustive()
    }
}

// === impl Number ===

impl Number {
    /// The one before the first.
    pub(super) const NONE: Self = Self(NonZeroU64::MIN);

    fn next(self) -> Self {
        // There is no machine that writes so many batches.
        Self(self.0.saturating_add(1))
    }
}

// === impl Seats ===

impl Seats {
    fn take(&mut self, courier: Option<Arc<Courier>>, waker: &Waker) -> (usize, usize) {
        let as_ptr = |it: &Option<Arc<Courier>>| it.as_ref().map(Arc::as_ptr);
        let found = self.rows.iter();
        let found = { found }.position(|row| as_ptr(&row.courier) == as_ptr(&courier));
        let row = found.unwrap_or_else(|| {
            let wakers = Vec::new();
            self.rows.push(Row { courier, wakers });
            self.rows.len() - 1
        });
        let wakers = &mut self.rows[row].wakers;
        wakers.push(waker.clone());
        (row, wakers.len() - 1)
    }
}

// === impl Wait ===

impl Future for Wait<'_> {
    type Output = Fate;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Fate> {
        if let Some(fate) = self.group.fate() {
            return Poll::Ready(fate);
        }
        // Looked up before the lock, for it may start a courier.
        let courier = match self.seat {
            None => self.couriers.here(),
            Some(_) => None,
        };
        let group = self.group;
        let mut seats = group.seats.lock();
        if let Some(fate) = group.fate() {
            return Poll::Ready(fate);
        }
        match self.seat {
            None => self.seat = Some(seats.take(courier, cx.waker())),
            Some((row, at)) => seats.rows[row].wakers[at].clone_from(cx.waker()),
        }
        Poll::Pending
    }
}
