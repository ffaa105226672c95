//! The list: every mistake, and the layers that notice them.

use onceward::bugs::Bug;

use super::{
    Entry, Layer, contract, damage, faults, hybrid, postgres, proxied, redis, rules, seeds, shop,
    walk,
};

/// Every mistake, with the layer that is meant for it. `process` is the layer of real processes,
/// whose executable only its caller knows.
pub fn entries(process: Layer) -> Vec<Entry> {
    use Bug as B;
    let entry = |bug, layer, reason| Entry { bug, layer, reason };
    vec![
        entry(B::UnfencedComplete, WALKS, "C6"),
        entry(B::UnfencedRelease, WALKS, "C6"),
        entry(B::UnfencedRenewal, WALKS, "C6"),
        entry(B::RenewalRevives, RULES, "expected unknown"),
        entry(B::SilentTakeover, FAULTS, "C1"),
        entry(B::ErrorReleases, FAULTS, "C7"),
        entry(B::PanicReleases, FAULTS, "does not end as Unknown"),
        entry(B::ReleaseForgetsAttempts, WALKS, "C7"),
        entry(B::FenceRestarts, FAULTS, "C5"),
        entry(B::MarkForgotten, RULES, "expected a claim, got Busy"),
        entry(B::ClaimWithoutNotAfter, RULES, "a late claim has landed"),
        entry(B::ReadThenClaim, FAULTS, "C1"),
        entry(B::ExecutesVanished, FAULTS, "C6"),
        entry(B::WaiterExecutes, FAULTS, "C6"),
        entry(B::FailsOpen, SHOP, "executed while the store was away"),
        entry(B::FingerprintAfterState, FAULTS, "C8"),
        entry(B::ExpiredServed, RULES, "expected a claim, got Replay"),
        entry(B::UnknownExpires, WALKS, "C4"),
        entry(B::RenewalIgnored, RULES, "expected busy"),
        entry(B::WallClockDeadline, RULES, "held after its lease"),
        entry(B::DeadlineFromReply, RULES, "held after its lease"),
        entry(B::StaleAnswersOwn, RULES, "expected a repeated answer"),
        entry(B::TenantMissing, SHOP, "another caller's answer"),
        entry(B::JoinedName, RULES, "share a name"),
        entry(
            B::StoreIgnoresFence,
            MEMORY,
            "a_stale_fence_replaces_nothing",
        ),
        entry(
            B::SweepRemovesClaims,
            MEMORY,
            "a_lapsed_claim_is_reported_and_not_touched",
        ),
        entry(B::SweepUnchecked, MEMORY, "a_renewed_claim_is_not_reported"),
        entry(
            B::SweepRaces,
            EMBEDDED,
            "a_sweep_never_removes_what_was_just_kept",
        ),
        entry(
            B::LateWriteHappens,
            EMBEDDED,
            "a_late_insert_changes_nothing",
        ),
        entry(
            B::StaleRecall,
            EMBEDDED,
            "an_answer_that_is_gone_is_not_recalled",
        ),
        entry(B::ChecksumIgnored, RULES, "reads as another record"),
        entry(B::CorruptIsAbsent, DAMAGE, "is silently gone"),
        entry(B::ShortfallIgnored, DAMAGE, "is silently gone"),
        entry(
            B::FsyncSkipped,
            process,
            "acknowledged though nothing is synced",
        ),
        entry(B::FsyncErrorIgnored, process, "after a failed sync"),
        entry(
            B::FolderFsyncSkipped,
            process,
            "never made durable in its folder",
        ),
        entry(
            B::UpdateIgnoresFence,
            POSTGRES,
            "a_stale_fence_replaces_nothing",
        ),
        entry(
            B::LateStatementWrites,
            POSTGRES,
            "a_late_insert_changes_nothing",
        ),
        entry(B::FollowersWin, POSTGRES, "one_of_many_inserts_wins"),
        entry(B::DeleteUnchecked, POSTGRES, "kept and then swept"),
        entry(B::StampBeforeLock, POSTGRES, "stamped before it happened"),
        entry(B::HeldTakenForMoved, POSTGRES, "held counts as moved"),
        entry(B::SilenceTakenForDone, POSTGRES, "granted twice"),
        entry(
            B::LossTakenForRollback,
            POSTGRES,
            "happened and is answered with",
        ),
        entry(
            B::StandbyWarningIgnored,
            POSTGRES,
            "done though no standby has it",
        ),
        entry(B::LeaseByExpiry, REDIS, "gone with a step of the clock"),
        entry(B::StepsBelieved, REDIS, "the time that counts jumps"),
        entry(
            B::ScriptIgnoresFence,
            REDIS,
            "a_stale_fence_replaces_nothing",
        ),
        entry(B::LateScriptWrites, REDIS, "a_late_insert_changes_nothing"),
        entry(B::ScriptsForgotten, REDIS, "NOSCRIPT"),
        entry(B::RepeatUnrecognised, REDIS, "turned away by itself"),
        entry(B::WaitUnchecked, REDIS, "though no replica has it"),
        entry(
            B::EvictionAccepted,
            REDIS,
            "a server that evicts is trusted",
        ),
        entry(B::ReplicaAccepted, REDIS, "a replica is taken for a master"),
        entry(B::AbsenceBelieved, HYBRID, "is called absent"),
        entry(B::CacheGrants, HYBRID, "executed twice"),
        entry(B::NoTombstone, HYBRID, "it had been taken away"),
        entry(B::TombstoneIgnored, HYBRID, "it had been taken away"),
        entry(B::EvidenceDropped, HYBRID, "executed against evidence"),
        entry(B::TornReservation, FAULTS, "charged twice"),
        entry(B::ReservesBeforeClaim, FAULTS, "charged twice"),
        entry(B::GenerationIgnored, SIMULATION, "which is of other work"),
        entry(B::UnknownTwinVoid, SIMULATION, "charged twice"),
        entry(B::FailedTwinCounts, SIMULATION, "which is of other work"),
        entry(B::IdentitiesUnsorted, RULES, "nobody executes"),
        entry(B::OutcomeCopied, RULES, "an answer that did not win"),
        entry(B::FingerprintIgnoresQuery, SHOP, "another query"),
        entry(B::AnonymousBucket, SHOP, "nobody in particular"),
        entry(B::TwoKeysJoined, SHOP, "two keys"),
        entry(B::CutRequestExecutes, SHOP, "a cut request"),
        entry(B::ClaimBeforeBody, SHOP, "before its body was whole"),
        entry(B::NotDetached, SHOP, "ended with its caller"),
        entry(B::TruncatedStored, SHOP, "C2"),
        entry(B::AnswersUnstored, SHOP, "given and not stored"),
        entry(B::EndNotWithheld, SHOP, "given and not stored"),
        entry(B::BadGatewayReleases, SHOP, "C7"),
        entry(B::HopByHopReplayed, SHOP, "keep-alive"),
        entry(B::CookieReplayed, SHOP, "set-cookie"),
        entry(B::ForeignMarksPassed, SHOP, "says that it is a replay"),
        entry(B::ProbeUnfenced, GATEWAY, "2 effects"),
        entry(B::SentTakenForUnsent, GATEWAY, "executed twice"),
    ]
}

/// Rules of the engine and of its parts, one after the other.
pub const RULES: Layer = Layer {
    name: "rules",
    trial: rules::trial,
    round: rules::round,
};

/// The contract of stores, on the memory store.
pub const MEMORY: Layer = Layer {
    name: "conformance, memory",
    trial: contract::memory,
    round: contract::memory_round,
};

/// The contract of stores, on the embedded store.
pub const EMBEDDED: Layer = Layer {
    name: "conformance, embedded",
    trial: contract::embedded,
    round: contract::embedded_round,
};

/// A PostgreSQL server with strangers, a network that loses answers and a standby that is missing.
pub const POSTGRES: Layer = Layer {
    name: "PostgreSQL",
    trial: postgres::trial,
    round: postgres::round,
};

/// Redis servers that forget, evict, are set wrong or are replicas, and a network that loses answers.
pub const REDIS: Layer = Layer {
    name: "Redis",
    trial: redis::trial,
    round: redis::round,
};

/// Two nodes on a database with a cache in front of it, under one seed.
pub const HYBRID: Layer = Layer {
    name: "hybrid",
    trial: hybrid::trial,
    round: hybrid::round,
};

/// Every single fault at every step of every scenario, under the judge.
pub const FAULTS: Layer = Layer {
    name: "faults at every step",
    trial: faults::trial,
    round: faults::round,
};

/// The simulation: many engines under one seed, with everything going wrong.
pub const SIMULATION: Layer = Layer {
    name: "simulation",
    trial: seeds::trial,
    round: seeds::round,
};

/// Random walks of several engines, under the judge.
pub const WALKS: Layer = Layer {
    name: "random walks",
    trial: walk::trial,
    round: walk::round,
};

/// Damaged folders of the embedded store.
pub const DAMAGE: Layer = Layer {
    name: "damaged folders",
    trial: damage::trial,
    round: damage::round,
};

/// A shop behind the tower layer, with a ledger under the judge.
pub const SHOP: Layer = Layer {
    name: "the tower layer",
    trial: shop::trial,
    round: shop::round,
};

/// A gateway between a scripted service and a raw client.
pub const GATEWAY: Layer = Layer {
    name: "the gateway",
    trial: proxied::trial,
    round: proxied::round,
};
