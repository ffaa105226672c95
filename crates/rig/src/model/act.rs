//! Acts: what can happen in one step, in plain words.

use std::fmt;

/// One step: who does what. Workers are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Act {
    who: Option<u8>,
    what: What,
}

macro_rules! acts {
    ($($name:ident: $words:literal,)*) => {
        /// The kinds of steps.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum What {
            $(#[doc = $words] $name,)*
        }

        impl What {
            /// Every kind of step.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What happens, in words that follow on a name.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

acts! {
    Claims: "claims the slot",
    ClaimsUnheard: "claims the slot, and the store's reply is lost",
    AsksInVain: "asks for the claim, which is still on its way when it stops listening",
    TakesOver: "takes the claim over",
    TakesOverUnheard: "takes the claim over, and the store's reply is lost",
    ClaimsAgain: "asks again and claims the slot",
    FindsItself: "asks again and finds its own claim",
    LearnsLoss: "asks again and finds another record",
    GivesUp: "gives up asking",
    Lands: "has a claim land that nobody waits for any more",
    TakesBack: "has its keeper take back a claim that nobody learned of",
    MarksLapsed: "finds the claim lapsed and marks it unknown",
    TakesPermission: "reads in the cache that the slot is free and goes to work",
    Fences: "tells the service its fence, and hears that the work was not done",
    ProbesDone: "tells the service its fence, and hears how the work ended",
    ProbesUnheard: "tells the service its fence, and its reply is lost",
    ProbeRefused: "is told by the service that its fence is too old",
    Sends: "sends the request",
    Works: "does the work in a transaction that is not committed yet",
    Stops: "finds that the claim is no longer its own and stops",
    NotExecuted: "does not send anything",
    Panics: "panics before anything is sent",
    Served: "is served: the work is done",
    ServedUnheard: "is served, and the reply is lost: the work is done",
    Repeated: "is given the service's first answer once more",
    RepeatedUnheard: "is given the service's first answer once more, and the reply is lost",
    Refused: "is refused by the service, for its fence is too old",
    Declined: "is told by the service, as agreed, that nothing was done",
    TimesOut: "stops waiting while its request is still on its way",
    RequestLost: "loses its request",
    LateServed: "has its late request arrive: the work is done",
    LateRepeated: "has its late request arrive, which the service recognises",
    LateRefused: "has its late request refused by the service",
    Renews: "renews the claim",
    RenewsUnheard: "renews the claim, and the store's reply is lost",
    Reaches: "records a recovery point",
    ReachesUnheard: "records a recovery point, and the store's reply is lost",
    Completes: "completes, and answers its caller",
    Heals: "completes its own unknown record, and answers its caller",
    CompletesUnheard: "completes, and the store's reply is lost",
    Recognises: "finds its own completion, and answers its caller",
    Loses: "finds that another record won, and answers from that",
    Releases: "releases the claim",
    ReleasesUnheard: "releases the claim, and the store's reply is lost",
    Abandons: "abandons the claim as unknown",
    AbandonsUnheard: "abandons the claim as unknown, and the store's reply is lost",
    Deletes: "has an error and deletes the record",
    EndsInVain: "finds nothing left to release or abandon",
    CachesEarly: "caches its answer before it is stored",
    Asks: "somebody asks and is answered from the record",
    AsksCache: "somebody asks and is answered from the cache",
    Lapses: "the lease lapses",
    Expires: "the retention ends",
    SweepsLapsed: "a sweep marks the lapsed claim unknown",
    Sweeps: "a sweep removes the expired record",
    SettlesDone: "an operator finds the work done, and settles the record with its answer",
    SettlesNotDone: "an operator finds the work not done, and opens the slot",
    Replicates: "the store's replica catches up",
    FailsOver: "the store fails over and forgets what was not replicated",
    Caches: "the stored answer is cached",
    CachesFree: "the cache notes that the slot is free",
    Forgets: "the cache forgets",
}

// === impl Act ===

impl Act {
    /// Worker `at` does something.
    pub(super) fn by(at: usize, what: What) -> Self {
        let who = Some(at as u8);
        Self { who, what }
    }

    /// Something happens to everybody.
    pub(super) fn to_all(what: What) -> Self {
        Self { who: None, what }
    }

    pub(super) fn what(self) -> What {
        self.what
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Some(who) => write!(f, "worker {} {}", who + 1, self.what.words()),
            None => f.write_str(self.what.words()),
        }
    }
}
