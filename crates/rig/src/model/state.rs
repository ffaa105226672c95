//! States: everything that can make a difference to what happens around one key.
//!
//! Two states that nothing can tell apart are one: [`State::settled`] forgets what no longer
//! matters, numbers the fences by their order, and sorts the workers.

use onceward::Duty;
use onceward::record::StateName;

use super::Variant;

/// The most workers that a model can have.
pub const WORKERS_MAX: usize = 5;

/// How often a key can be used: its record is swept, and it is used again.
pub(super) const GENERATIONS: usize = 2;

/// A record, as far as the protocol tells records apart. Fences are small numbers, 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sketch {
    pub(super) state: StateName,
    /// Whether its lease has lapsed, or its retention has ended.
    pub(super) due: bool,
    pub(super) fence: u8,
    pub(super) mark: u8,
    /// From 1; 3 is "three or more".
    pub(super) attempt: u8,
    pub(super) point: bool,
    pub(super) audited: bool,
    /// Which outcome a completed record holds.
    pub(super) outcome: u8,
}

/// How far a worker has come with its one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Phase {
    /// It has not been granted anything, and may ask.
    #[default]
    Idle,
    /// It asked for the claim and has not heard what became of it.
    Asking,
    /// It gave up asking; its keeper takes back what may have been granted.
    Strayed,
    /// It holds the claim.
    Holds,
    /// Its request is out.
    Sent,
    /// It has the service's answer, to be completed with.
    Done,
    /// It does not know whether the work happened: to be abandoned.
    Doubts,
    /// The work provably did not happen: to be released.
    NotDone,
    /// It has said everything that it has to say.
    Over,
}

/// One caller's run of the work, in a process of its own. It dies or pauses by not acting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Worker {
    pub(super) phase: Phase,
    pub(super) duty: Duty,
    /// The mark of its claim, or of its last try to get one; 0 once it can mean nothing.
    pub(super) mark: u8,
    /// The fence of its record as it last knew it. While it asks: the fence that it asks over,
    /// 0 for an insert.
    pub(super) own: u8,
    /// Whether the try with `mark` may still land.
    pub(super) flying: bool,
    /// The mark of an earlier try that nobody learned of.
    pub(super) stray: u8,
    /// Whether that try may still land.
    pub(super) stray_flying: bool,
    /// Whether a request of its is on the way to the service.
    pub(super) request: bool,
    /// The generation that it works for.
    pub(super) generation: u8,
    /// The outcome that the service told it.
    pub(super) answer: u8,
}

/// Everything around one key at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) slot: Option<Sketch>,
    /// What a failover would bring back, where the store can forget.
    pub(super) copy: Option<Sketch>,
    pub(super) workers: [Worker; WORKERS_MAX],
    /// Counts how often the key's answer expired.
    pub(super) generation: u8,
    /// How often the service did the work, by generation: 2 is "more than once".
    pub(super) effects: [u8; GENERATIONS],
    /// The outcome that callers were told, by generation.
    pub(super) told: [u8; GENERATIONS],
    /// The newest fence that the service has seen.
    pub(super) service_fence: u8,
    /// The outcome in the cache, or [`State::FREE`].
    pub(super) cached: u8,
    /// The outcome on its way into the cache.
    pub(super) filling: u8,
    /// Whether the slot was emptied by a release, and so a moment ago.
    pub(super) freed: bool,
    /// Whether the store has failed over.
    pub(super) failed_over: bool,
    /// What broke in the last step, as bits of [`Kind`](super::Kind).
    pub(super) broken: u8,
}

// === impl Sketch ===

impl Sketch {
    /// A number that no other sketch has, below 2^23.
    pub(super) fn code(self) -> u64 {
        let flags = u64::from(self.due) | u64::from(self.point) << 1 | u64::from(self.audited) << 2;
        (self.state as u64 - 1)
            | flags << 2
            | u64::from(self.attempt) << 5
            | u64::from(self.outcome) << 7
            | u64::from(self.fence) << 10
            | u64::from(self.mark) << 16
    }
}

// === impl Worker ===

impl Worker {
    /// The fence asked over is gone: a replacement that is under way cannot land any more.
    pub(super) const GONE: u8 = 63;

    const IDLE: Self = Self {
        phase: Phase::Idle,
        duty: Duty::Execute,
        mark: 0,
        own: 0,
        flying: false,
        stray: 0,
        stray_flying: false,
        request: false,
        generation: 0,
        answer: 0,
    };

    const OVER: Self = Self {
        phase: Phase::Over,
        ..Self::IDLE
    };

    fn code(self) -> u64 {
        let flags = u64::from(self.flying)
            | u64::from(self.stray_flying) << 1
            | u64::from(self.request) << 2;
        self.phase as u64
            | flags << 4
            | (self.duty as u64) << 7
            | u64::from(self.answer) << 9
            | u64::from(self.generation) << 12
            | u64::from(self.mark) << 14
            | u64::from(self.own) << 20
            | u64::from(self.stray) << 26
    }

    /// Drops what can make no difference any more; `alive` are the fences that the slot knows.
    fn forget(&mut self, alive: &[(u8, u8); 2], fencing: bool) {
        let is_mark = |mark| mark != 0 && alive.iter().any(|(_, known)| *known == mark);
        let is_fence = |fence| fence != 0 && alive.iter().any(|(known, _)| *known == fence);
        let asks = matches!(self.phase, Phase::Asking | Phase::Strayed);
        if asks && self.own != 0 && !is_fence(self.own) {
            // Only a replacement of the record with that fence could have landed.
            (self.own, self.flying, self.stray_flying) = (Self::GONE, false, false);
        }
        if !asks && !is_fence(self.own) {
            self.own = 0;
        }
        if !self.stray_flying && !is_mark(self.stray) {
            self.stray = 0;
        }
        let sends = matches!(self.phase, Phase::Holds | Phase::Sent) || self.request;
        if !(self.flying || is_mark(self.mark) || fencing && sends) {
            self.mark = 0;
        }
        let lost = match self.phase {
            Phase::Strayed => self.mark == 0 && self.stray == 0,
            // There is nothing of its left to write over, and it has no answer to give.
            Phase::Doubts | Phase::NotDone => self.mark == 0 && self.own == 0,
            _ => false,
        };
        if lost {
            self.phase = Phase::Over;
        }
        match self.phase {
            Phase::Idle => *self = self.only_stray(Self::IDLE),
            Phase::Over if !self.request => *self = self.only_stray(Self::OVER),
            Phase::Over => (self.own, self.answer) = (0, 0),
            _ => {}
        }
        if !matches!(self.phase, Phase::Asking | Phase::Holds) {
            self.duty = Duty::Execute;
        }
    }

    fn only_stray(self, blank: Self) -> Self {
        Self {
            stray: self.stray,
            stray_flying: self.stray_flying,
            ..blank
        }
    }
}

// === impl State ===

impl State {
    /// What a cache holds that keeps the absence of a record.
    pub(super) const FREE: u8 = 7;

    /// An empty slot, and this many workers.
    pub(super) fn first(workers: usize) -> Self {
        let mut all = [Worker::OVER; WORKERS_MAX];
        all[..workers].fill(Worker::IDLE);
        Self {
            slot: None,
            copy: None,
            workers: all,
            generation: 0,
            effects: [0; GENERATIONS],
            told: [0; GENERATIONS],
            service_fence: 0,
            cached: 0,
            filling: 0,
            freed: false,
            failed_over: false,
            broken: 0,
        }
    }

    /// The outcome of the service's first execution in this generation.
    pub(super) fn first_answer(generation: u8) -> u8 {
        1 + 2 * generation
    }

    /// Whether `outcome` was made in this generation.
    pub(super) fn is_of(outcome: u8, generation: u8) -> bool {
        (outcome - 1) / 2 == generation
    }

    /// How often the work was done in this generation.
    pub(super) fn effects_now(&self) -> u8 {
        self.effects[usize::from(self.generation)]
    }

    /// Whether a request may yet do the work of this generation.
    pub(super) fn is_request_pending(&self, fencing: bool) -> bool {
        self.workers.iter().any(|worker| {
            worker.request
                && worker.generation == self.generation
                && !(fencing && worker.mark < self.service_fence)
        })
    }

    /// The same state in the one form that all states have which nothing can tell from it.
    #[must_use]
    pub(super) fn settled(mut self, variant: &Variant) -> Self {
        if variant.restarts() {
            // Fences that are used again have a meaning of their own.
            return self;
        }
        let known = |slot: Option<Sketch>| slot.map_or((0, 0), |it| (it.fence, it.mark));
        let alive = [known(self.slot), known(self.copy)];
        for worker in &mut self.workers {
            worker.forget(&alive, variant.is_fencing());
        }
        self.renumber();
        self.workers.sort_unstable_by_key(|worker| worker.code());
        self
    }

    /// Calls `each` with every fence there is.
    pub(super) fn fences(&mut self, mut each: impl FnMut(&mut u8)) {
        for sketch in [&mut self.slot, &mut self.copy].into_iter().flatten() {
            each(&mut sketch.fence);
            each(&mut sketch.mark);
        }
        for worker in &mut self.workers {
            each(&mut worker.mark);
            each(&mut worker.stray);
            if worker.own != Worker::GONE {
                each(&mut worker.own);
            }
        }
        each(&mut self.service_fence);
    }

    fn renumber(&mut self) {
        let mut used = 0u64;
        self.fences(|fence| used |= 1 << *fence);
        used &= !1;
        self.fences(|fence| {
            if *fence != 0 {
                let below = (1u64 << *fence) - 1;
                *fence = 1 + (used & below).count_ones() as u8;
            }
        });
    }

    /// Sixty-four bits that stand for the state. Of a hundred million states two are alike by
    /// chance with a probability of 3 in 10,000; of a million, 3 in a hundred million.
    pub(super) fn print(&self) -> u64 {
        let slot = |it: Option<Sketch>| it.map_or(0, |it| 1 + it.code());
        let ghosts = [
            self.generation,
            self.effects[0] | self.effects[1] << 2 | u8::from(self.failed_over) << 4,
            self.told[0] | self.told[1] << 3,
            self.service_fence,
            self.cached | self.filling << 3,
            self.broken,
            u8::from(self.freed),
            0,
        ];
        let mut print = mix(
            u64::from_le_bytes(ghosts),
            slot(self.slot) << 32 | slot(self.copy),
        );
        for worker in &self.workers {
            print = mix(print, worker.code());
        }
        print
    }
}

/// Mixes a word into a fingerprint: the two halves of a product, folded.
fn mix(print: u64, word: u64) -> u64 {
    let left = u128::from(print ^ 0x9e37_79b9_7f4a_7c15);
    let right = u128::from(word.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0xa076_1d64_78bd_642f);
    let product = left * right;
    let folded = (product >> 64) as u64 ^ product as u64;
    folded
        .rotate_left(23)
        .wrapping_add(word ^ print.rotate_left(41))
}
