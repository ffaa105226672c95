use std::time::Duration;

use super::{Arrival, Step, decide};
use crate::testing::records::strategy::EFFECTS;
use crate::testing::records::{note, point};
use crate::{
    Effect, Fence, Fingerprint, Key, Outcome, Policy, Reason, Record, Scope, Secret, Slot,
    Timestamp,
};

mod invariants;
mod moves;

const WRITTEN: Timestamp = Timestamp::from_micros(1_777_777_777_000_000);
const TICK: Duration = Duration::from_micros(1);
const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_secs(3600);
const SEEN: Fence = Fence::from_bits(5);

#[test]
fn an_empty_slot_is_claimed() {
    for effect in EFFECTS {
        let step = decide(None, &arrival(effect), WRITTEN);
        assert_eq!(step, Step::Claim { over: None });
    }
}

#[test]
fn a_completed_record_is_replayed_until_its_retention_ends() {
    for (effect, arrival) in all_effects() {
        let found = completed(effect);
        let due = WRITTEN + RETENTION;
        let replay = Step::Replay {
            outcome: Outcome::success("done"),
            completed: WRITTEN,
            expires: due,
        };
        assert_eq!(decide(Some(&found), &arrival, WRITTEN), replay);
        assert_eq!(decide(Some(&found), &arrival, due.before(TICK)), replay);
        assert_eq!(decide(Some(&found), &arrival, due), claim_over_it());
        assert_eq!(decide(Some(&found), &arrival, due + TICK), claim_over_it());
    }
}

#[test]
fn a_failure_is_replayed_like_a_success() {
    let found = claimed(Effect::Opaque).completed(Outcome::failure("no"), RETENTION, SEEN);
    let step = decide(Some(&found), &arrival(Effect::Opaque), WRITTEN);
    assert!(matches!(step, Step::Replay { outcome, .. } if outcome == Outcome::failure("no")));
}

#[test]
fn an_open_record_is_claimed_before_and_after_its_retention() {
    for (effect, arrival) in all_effects() {
        let (found, due) = (open(effect), WRITTEN + RETENTION);
        for now in [WRITTEN, due.before(TICK), due, due + TICK] {
            assert_eq!(decide(Some(&found), &arrival, now), claim_over_it());
        }
    }
}

#[test]
fn a_claim_is_busy_until_its_lease_lapses() {
    for (effect, arrival) in all_effects() {
        let due = WRITTEN + LEASE;
        for found in [claimed(effect), claimed(effect).reached(point(3), SEEN)] {
            for now in [WRITTEN, due.before(TICK)] {
                let step = decide(Some(&found), &arrival, now);
                assert_eq!(step, Step::Busy { until: due });
            }
        }
    }
}

#[test]
fn a_lapsed_claim_goes_by_the_stricter_class() {
    for (effect, arrival) in all_effects() {
        let (found, due) = (claimed(effect), WRITTEN + LEASE);
        let expected = by_effect(effect, arrival.policy().effect, || Step::Hold {
            mark: Some(SEEN),
            reason: Reason::LAPSED,
        });
        for now in [due, due + TICK, Timestamp::NEVER] {
            assert_eq!(decide(Some(&found), &arrival, now), expected);
        }
    }
}

#[test]
fn an_unknown_record_goes_by_the_stricter_class() {
    for (effect, arrival) in all_effects() {
        let found = claimed(effect).unsettled(Reason::PANICKED, SEEN);
        let expected = by_effect(effect, arrival.policy().effect, || Step::Hold {
            mark: None,
            reason: Reason::PANICKED,
        });
        // Neither the lease nor the retention of an outcome means anything to it.
        let lapsed = WRITTEN + LEASE;
        let ended = WRITTEN + RETENTION;
        for now in [WRITTEN, lapsed, ended, ended + 10_000 * RETENTION] {
            assert_eq!(decide(Some(&found), &arrival, now), expected);
        }
    }
}

#[test]
fn an_unknown_record_expires_only_where_it_has_a_retention_of_its_own() {
    for (effect, arrival) in all_effects() {
        let found = Record {
            unknown_retention: Some(2 * RETENTION),
            ..claimed(effect).unsettled(Reason::LAPSED, SEEN)
        };
        let due = WRITTEN + 2 * RETENTION;
        let live = decide(Some(&found), &arrival, due.before(TICK));
        assert!(!matches!(live, Step::Claim { .. }), "{live:?}");
        assert_eq!(decide(Some(&found), &arrival, due), claim_over_it());
        assert_eq!(decide(Some(&found), &arrival, due + TICK), claim_over_it());
    }
}

#[test]
fn a_recovery_point_lets_silent_work_be_taken_over_under_every_class() {
    for (effect, arrival) in all_effects() {
        let claim = claimed(effect).reached(point(3), SEEN);
        let unknown = claim.unsettled(Reason::LAPSED, SEEN);
        for found in [claim, unknown] {
            let step = decide(Some(&found), &arrival, WRITTEN + LEASE);
            assert_eq!(step, Step::TakeOver { seen: SEEN });
        }
    }
}

#[test]
fn another_payload_is_a_mismatch_before_anything_else() {
    for (effect, arrival) in all_effects() {
        let claim = claimed(effect);
        let live = [
            claim.clone(),
            claim.reached(point(3), SEEN),
            completed(effect),
            claim.unsettled(Reason::LAPSED, SEEN),
            open(effect),
        ];
        for found in live {
            let found = of_another_payload(found);
            // A lapsed claim is live as well: only what has a retention expires.
            for now in [WRITTEN, WRITTEN + LEASE, (WRITTEN + RETENTION).before(TICK)] {
                let step = decide(Some(&found), &arrival, now);
                assert_eq!(step, Step::Mismatch, "{found:?}");
            }
        }
    }
}

#[test]
fn an_expired_record_no_longer_binds_its_key_to_a_payload() {
    let unknown = Record {
        unknown_retention: Some(RETENTION),
        ..claimed(Effect::Opaque).unsettled(Reason::LAPSED, SEEN)
    };
    for found in [completed(Effect::Opaque), open(Effect::Opaque), unknown] {
        let found = of_another_payload(found);
        let step = decide(Some(&found), &arrival(Effect::Opaque), WRITTEN + RETENTION);
        assert_eq!(step, claim_over_it());
    }
}

#[test]
fn the_same_digest_under_other_rules_is_a_mismatch() {
    let mut found = completed(Effect::Opaque);
    found.seal.rules += 1;
    let step = decide(Some(&found), &arrival(Effect::Opaque), WRITTEN);
    assert_eq!(step, Step::Mismatch);
}

#[test]
fn a_record_under_the_previous_rules_is_accepted() {
    let (old, new) = (payload(0), payload(1));
    let found = Record {
        seal: old.seal(&secret(), slot().id(&secret())),
        ..completed(Effect::Opaque)
    };
    let strict = Arrival::new(slot(), &new, policy(Effect::Opaque), &secret());
    assert_eq!(decide(Some(&found), &strict, WRITTEN), Step::Mismatch);

    let lenient = strict.or(&old, &secret());
    let step = decide(Some(&found), &lenient, WRITTEN);
    assert!(matches!(step, Step::Replay { .. }), "{step:?}");
    let step = decide(Some(&of_another_payload(found)), &lenient, WRITTEN);
    assert_eq!(step, Step::Mismatch);
}

fn by_effect(ours: Effect, theirs: Effect, hold: impl FnOnce() -> Step) -> Step {
    let either = |effect| ours == effect || theirs == effect;
    if either(Effect::Opaque) {
        hold()
    } else if either(Effect::Probed) {
        Step::Probe { seen: SEEN }
    } else {
        Step::TakeOver { seen: SEEN }
    }
}

/// Every class of a record with an arrival of every class.
fn all_effects() -> impl Iterator<Item = (Effect, Arrival)> {
    let with_all = |ours| {
        EFFECTS
            .into_iter()
            .map(move |theirs| (ours, arrival(theirs)))
    };
    EFFECTS.into_iter().flat_map(with_all)
}

fn claim_over_it() -> Step {
    Step::Claim { over: Some(SEEN) }
}

fn claimed(effect: Effect) -> Record {
    Record {
        written: WRITTEN,
        ..Record::claimed(&arrival(effect), SEEN)
    }
}

fn completed(effect: Effect) -> Record {
    claimed(effect).completed(Outcome::success("done"), RETENTION, SEEN)
}

fn open(effect: Effect) -> Record {
    let unknown = claimed(effect).unsettled(Reason::LAPSED, SEEN);
    unknown.resolved(None, note("not in the ledger"), SEEN)
}

fn of_another_payload(mut record: Record) -> Record {
    record.seal.digest[31] ^= 1;
    record
}

fn arrival(effect: Effect) -> Arrival {
    Arrival::new(slot(), &payload(1), policy(effect), &secret())
}

fn policy(effect: Effect) -> Policy {
    let policy = Policy::default().effect(effect);
    policy.lease(LEASE).retention(RETENTION)
}

fn payload(rules: u16) -> Fingerprint {
    Fingerprint::builder(rules).part(b"100 EUR").finish()
}

fn slot() -> Slot {
    Slot::new(Scope::new("acme", "pay"), Key::parse("k1").unwrap())
}

fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}
