//! Bugs: mistakes that are made on purpose, to see that the proofs catch them.
//!
//! Each is one that others have made, and stands behind [`seeded`] in the place where it would be
//! made. Without the feature `bugbank` that is a constant `false` and nothing of it is left; with
//! it, one mistake at a time can be chosen for the whole process, and by default none is.

#[cfg(feature = "bugbank")]
pub use chosen::{chosen, seed, seeded};

macro_rules! bugs {
    ($(#[doc = $mistake:literal] $bug:ident,)*) => {
        /// A mistake.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Bug {
            $(#[doc = $mistake] $bug,)*
        }

        impl Bug {
            /// Every mistake.
            pub const ALL: &[Self] = &[$(Self::$bug),*];

            /// The mistake, in a sentence.
            pub const fn mistake(self) -> &'static str {
                match self {
                    $(Self::$bug => $mistake.trim_ascii(),)*
                }
            }
        }
    };
}

bugs! {
    // The protocol and its engine.
    /// A holder that lost its claim stores its outcome over the record that won.
    UnfencedComplete,
    /// A holder that lost its claim removes the record that won.
    UnfencedRelease,
    /// A renewal that comes late puts the old claim back in place of the new one.
    UnfencedRenewal,
    /// A renewal turns a record that callers were told is unknown back into a running claim.
    RenewalRevives,
    /// A lapsed claim of opaque work is taken over and executed again.
    SilentTakeover,
    /// An error that nobody understands frees the key.
    ErrorReleases,
    /// A panic of the work frees the key.
    PanicReleases,
    /// A later attempt that did nothing removes the record, whatever the earlier ones did.
    ReleaseForgetsAttempts,
    /// Fences are counted from the record in the slot, and start anew when there is none.
    FenceRestarts,
    /// A claim whose reply was lost does not recognise itself and conflicts with its own record.
    MarkForgotten,
    /// A claim may land however late it reaches the store.
    ClaimWithoutNotAfter,
    /// A claim is granted because a read before it found the slot empty.
    ReadThenClaim,
    /// Work whose record vanished between claim and look is executed without a claim.
    ExecutesVanished,
    /// A waiter executes as soon as the holder is gone, without a claim of its own.
    WaiterExecutes,
    /// While the store is away work is executed without a record.
    FailsOpen,
    /// The payload is compared only where the state asks for it.
    FingerprintAfterState,
    /// A record past its retention is served as if it were alive.
    ExpiredServed,
    /// An unknown record is forgotten when an outcome would be.
    UnknownExpires,
    /// A lease counts from the claim's first write, whatever was renewed since.
    RenewalIgnored,
    /// A holder judges its own lease by the wall clock, which steps.
    WallClockDeadline,
    /// A holder counts its lease from the reply, not from before it asked.
    DeadlineFromReply,
    /// A holder that lost its claim answers with its own result.
    StaleAnswersOwn,
    /// Callers are not part of a slot's name.
    TenantMissing,
    /// The parts of a slot's name are joined by a delimiter that may stand in them.
    JoinedName,

    // The stores.
    /// A store replaces a record whatever its fence is.
    StoreIgnoresFence,
    /// A sweep removes claims that lapsed.
    SweepRemovesClaims,
    /// A sweep goes by an old look at the index, whatever is in the slot by now.
    SweepUnchecked,
    /// A sweep removes a record that was replaced since it looked.
    SweepRaces,
    /// A write that comes too late happens all the same.
    LateWriteHappens,
    /// An answer that was replaced is still remembered.
    StaleRecall,
    /// A record's checksum is not looked at.
    ChecksumIgnored,
    /// A record that cannot be read counts as absent.
    CorruptIsAbsent,
    /// What was acknowledged is not compared with what is there when the store is opened.
    ShortfallIgnored,
    /// Batches are acknowledged before they are synced.
    FsyncSkipped,
    /// A failed sync is taken for a success.
    FsyncErrorIgnored,
    /// A renamed file is not made durable in its folder.
    FolderFsyncSkipped,

    // PostgreSQL.
    /// An UPDATE goes by the slot alone, whatever fence is in it.
    UpdateIgnoresFence,
    /// A statement that reaches the server too late writes all the same.
    LateStatementWrites,
    /// Of those who want one slot and are sent together, all are told that they got it.
    FollowersWin,
    /// A DELETE removes what a subselect chose, without a lock and without looking again.
    DeleteUnchecked,
    /// An UPDATE that waits for a lock is stamped with the time before its wait.
    StampBeforeLock,
    /// A record that somebody holds for a moment counts as moved.
    HeldTakenForMoved,
    /// An insert of which the statement says nothing counts as done.
    SilenceTakenForDone,
    /// A lost connection counts as a statement that was rolled back.
    LossTakenForRollback,
    /// A commit that did not wait for its standby counts as done.
    StandbyWarningIgnored,

    // Redis.
    /// A lease is left to the server's own expiry, which goes by its wall clock.
    LeaseByExpiry,
    /// The server's clock is believed wherever it jumps.
    StepsBelieved,
    /// A script goes by the slot alone, whatever fence is in it.
    ScriptIgnoresFence,
    /// A script that reaches the server too late writes all the same.
    LateScriptWrites,
    /// A server that has forgotten its scripts is not told them again.
    ScriptsForgotten,
    /// A script that is sent again does not recognise what it did the first time.
    RepeatUnrecognised,
    /// How many replicas have a write is asked for and not looked at.
    WaitUnchecked,
    /// A server that throws records away is taken for a good one.
    EvictionAccepted,
    /// A replica is taken for a server that can be written to.
    ReplicaAccepted,

    // A database with a cache in front of it.
    /// That the cache knows of nothing is taken for an empty slot.
    AbsenceBelieved,
    /// A claim is granted because the cache knows of no answer.
    CacheGrants,
    /// An operator changes a record, and the cache is not told.
    NoTombstone,
    /// An answer that was on its way is remembered after it was to be forgotten.
    TombstoneIgnored,
    /// An answer that the database lost is thrown away, and its key granted again.
    EvidenceDropped,

    // Business identities.
    /// Work starts although an identity was asked for in vain.
    TornReservation,
    /// An identity is taken before the key, for a claim that nobody was granted.
    ReservesBeforeClaim,
    /// A reservation counts for whatever stands in its key's slot by now.
    GenerationIgnored,
    /// An identity is free again as soon as nobody knows what became of its work.
    UnknownTwinVoid,
    /// Work that failed counts for its identity as if it had succeeded.
    FailedTwinCounts,
    /// Identities are taken in the order in which callers name them.
    IdentitiesUnsorted,
    /// The outcome of a holder is copied to its identity, whichever record then wins.
    OutcomeCopied,

    // The middleware and the gateway.
    /// The query is not part of the fingerprint.
    FingerprintIgnoresQuery,
    /// Callers who cannot be told apart share one name.
    AnonymousBucket,
    /// Of two keys one is made, by joining them.
    TwoKeysJoined,
    /// A request whose body was cut is executed.
    CutRequestExecutes,
    /// A request is claimed and executed before its body is whole.
    ClaimBeforeBody,
    /// The work ends with the caller that waits for it.
    NotDetached,
    /// An answer whose body was cut is stored as if it were whole.
    TruncatedStored,
    /// An answer is given although it could not be stored.
    AnswersUnstored,
    /// The end of a stream is passed on before its record is stored.
    EndNotWithheld,
    /// A 502 from the service frees the key.
    BadGatewayReleases,
    /// Headers of one connection are replayed on another.
    HopByHopReplayed,
    /// The first caller's cookies are replayed to whoever retries.
    CookieReplayed,
    /// A service is believed when it says that its answer is a replay.
    ForeignMarksPassed,
    /// A service that does not refuse older fences is believed when it says that nothing happened.
    ProbeUnfenced,
    /// A request that may have been sent counts as not sent.
    SentTakenForUnsent,
}

/// Whether this mistake is to be made.
#[cfg(not(feature = "bugbank"))]
#[inline(always)]
pub const fn seeded(_: Bug) -> bool {
    false
}

// === impl Bug ===

impl Bug {
    /// The environment variable that names the mistake which a process makes.
    pub const VARIABLE: &str = "ONCEWARD_BUG";

    /// The name in that variable: `SilentTakeover` is `silent-takeover`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for (at, letter) in format!("{self:?}").char_indices() {
            if at > 0 && letter.is_ascii_uppercase() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}

#[cfg(feature = "bugbank")]
mod chosen {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    const NONE: u8 = u8::MAX;

    static CHOSEN: LazyLock<AtomicU8> = LazyLock::new(|| AtomicU8::new(by_environment()));

    /// Whether this mistake is to be made.
    pub fn seeded(bug: Bug) -> bool {
        CHOSEN.load(Ordering::Relaxed) == bug as u8
    }

    /// The mistake that this process makes.
    pub fn chosen() -> Option<Bug> {
        let number = CHOSEN.load(Ordering::Relaxed);
        Bug::ALL.get(usize::from(number)).copied()
    }

    /// Chooses the mistake that this process makes from now on.
    pub fn seed(bug: Option<Bug>) {
        let number = bug.map_or(NONE, |bug| bug as u8);
        CHOSEN.store(number, Ordering::Relaxed);
    }

    fn by_environment() -> u8 {
        let Ok(name) = std::env::var(Bug::VARIABLE) else {
            return NONE;
        };
        let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
        // A mistake that is not made must not look like one that is not noticed.
        *bug.unwrap_or_else(|| panic!("{} names no bug: {name}", Bug::VARIABLE)) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_seeded_by_default() {
        assert!(!Bug::ALL.iter().any(|bug| seeded(*bug)));
    }

    #[test]
    fn names_are_in_kebab_case_and_differ() {
        assert_eq!(Bug::SilentTakeover.name(), "silent-takeover");
        let names: std::collections::BTreeSet<_> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        assert_eq!(names.len(), Bug::ALL.len());
    }

    #[test]
    fn every_mistake_is_a_sentence() {
        let is_sentence = |text: &str| text.ends_with('.') && !text.starts_with(' ');
        assert!(Bug::ALL.iter().all(|bug| is_sentence(bug.mistake())));
    }
}
