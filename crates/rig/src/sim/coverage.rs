//! Coverage: what a run has been through. A simulation in which nothing goes wrong shows nothing.

use std::collections::HashMap;
use std::fmt;
use std::ops::AddAssign;

use crate::history::{Answer, History, Kind, Verb};

macro_rules! marks {
    ($($(#[$doc:meta])* $mark:ident $name:literal,)*) => {
        /// Something that a run can go through.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mark { $($(#[$doc])* $mark,)* }

        impl Mark {
            /// Every mark.
            pub const ALL: &[Self] = &[$(Self::$mark,)*];

            /// The mark in a few words.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$mark => $name,)* }
            }
        }

        const COUNT: usize = [$($name,)*].len();
    };
}

marks! {
    /// A request to the store never arrives.
    RequestLost "request lost",
    /// The store did it, and its reply never arrives.
    ReplyLost "reply lost",
    /// A request arrives after its sender gave up.
    LateApply "late apply",
    /// A request arrives twice, and only the second is answered.
    Duplicate "duplicate",
    /// The store says that something went wrong, and did nothing.
    StoreError "store error",
    /// The store did it, and says that something went wrong.
    ErrorApplied "error though applied",
    /// A reply takes longer than a lease.
    LongDelay "delay beyond a lease",
    /// A node is cut off from the store.
    Partition "partition",
    /// Nodes are cut off one by one, and come back in another order.
    Swizzle "swizzle",
    /// A link loses much for a while.
    Flaky "flaky link",
    /// The store restarts: whatever is under way is lost.
    StoreRestart "store restart",
    /// A process stands still for longer than a lease.
    Pause "pause beyond a lease",
    /// A process dies.
    Crash "crash",
    /// A process dies right before or after one of its store calls.
    CrashAtCall "crash at a call",
    /// A process stands still right after one of its store calls.
    PauseAtCall "pause at a call",
    /// A process is shut down in good order.
    Shutdown "shutdown",
    /// The time of day is set forward.
    ClockForward "clock forward",
    /// The time of day is set back.
    ClockBack "clock back",
    /// A caller goes away in the middle.
    CallerDropped "caller dropped",
    /// A holder says nothing about its claim.
    ClaimDropped "claim dropped",
    /// The work panics.
    Panic "work panicked",
    /// The service was never reached.
    NeverSent "never sent",
    /// The service does the work and its answer is lost, or it never hears of it.
    ServiceSilent "service silent",
    /// The service does the work after its caller gave up.
    ServiceLate "service late",
    /// The service refuses for good.
    ServiceRefused "service refused",
    /// The service refuses an older fence.
    Fenced "older fence refused",
    /// A probe finds that the work was done.
    ProbeDone "probe: done",
    /// A probe finds that it was not.
    ProbeNotDone "probe: not done",
    /// A probe finds nothing out.
    ProbeCannotSay "probe: cannot say",
    /// A recovery point is reached.
    Point "recovery point",
    /// An attempt goes on after a recovery point.
    Resumed "resumed",
    /// A claim lapsed before its work began.
    NotHeld "not held any more",
    /// A caller is given the outcome.
    Answered "answered",
    /// A caller is given the outcome that another one waits for as well.
    Waited "waited for it",
    /// A caller is told that somebody else is at it.
    Busy "busy",
    /// A caller with another payload is told so.
    Mismatch "mismatch",
    /// A caller is told that nobody knows.
    Unknown "unknown",
    /// A holder's own result is not the one that counts.
    Lost "claim lost",
    /// An outcome is not stored in time, and is stored later.
    Pending "answer pending",
    /// The store is away.
    Unavailable "store unavailable",
    /// A sweep removes expired records.
    Swept "sweep removes",
    /// A sweep finds lapsed claims.
    SweptLapsed "sweep marks",
    /// An operator settles as completed.
    ResolvedDone "resolved as completed",
    /// An operator settles as not executed.
    ResolvedNotDone "resolved as not executed",
    /// An operator keeps a record longer.
    Extended "extended",
    /// A claim is taken over.
    TakeOver "take-over",
    /// A holder completes what was marked unknown.
    LateHeal "late heal",
    /// A claim is released.
    Release "release",
    /// A claim is given up.
    Abandon "abandon",
    /// A lease is renewed.
    Renewal "renewal",
    /// A caller is given the answer of the same order under another key.
    Returned "twin's answer returned",
    /// A caller is refused, because its order is done under another key.
    Elsewhere "refused: done elsewhere",
    /// A caller is told that nobody knows what became of its order under another key.
    TwinUnknown "twin unknown",
    /// A key is used again after its outcome expired.
    Reuse "expiry and reuse",
}

/// How often each mark was hit.
#[derive(Clone, PartialEq, Eq)]
pub struct Coverage([u64; COUNT]);

// === impl Coverage ===

impl Coverage {
    /// How often `mark` was hit.
    pub fn of(&self, mark: Mark) -> u64 {
        self.0[mark as usize]
    }

    pub(super) fn hit(&mut self, mark: Mark) {
        self.add(mark, 1);
    }

    fn add(&mut self, mark: Mark, times: u64) {
        self.0[mark as usize] += times;
    }

    /// Adds what only the whole history tells.
    pub(super) fn read(&mut self, history: &History, take_overs: u64) {
        self.add(Mark::TakeOver, take_overs);
        let mut last: HashMap<&str, (Verb, Option<Answer>)> = HashMap::new();
        for event in history.events.iter().filter(|it| it.kind == Kind::Ok) {
            if event.verb == Verb::Claim && event.answer != Some(Answer::Granted) {
                continue;
            }
            let before = last.insert(&event.key, (event.verb, event.answer));
            let unknown = matches!(before, Some((Verb::Sweep | Verb::Abandon, _)));
            let done = matches!(
                before,
                Some((Verb::Complete, _) | (Verb::Resolve, Some(Answer::Completed)))
            );
            match event.verb {
                Verb::Claim if done => self.hit(Mark::Reuse),
                Verb::Complete if unknown => self.hit(Mark::LateHeal),
                Verb::Release => self.hit(Mark::Release),
                Verb::Abandon => self.hit(Mark::Abandon),
                Verb::Renew => self.hit(Mark::Renewal),
                _ => {}
            }
        }
    }
}

impl Default for Coverage {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl AddAssign<&Self> for Coverage {
    fn add_assign(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}

impl fmt::Debug for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = Mark::ALL.iter();
        f.debug_map()
            .entries(marks.map(|mark| (mark.name(), self.of(*mark))))
            .finish()
    }
}
