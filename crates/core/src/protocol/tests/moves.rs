//! What each move puts into a slot.

use std::time::Duration;

use super::{
    LEASE, RETENTION, SEEN, WRITTEN, all_effects, arrival, claimed, completed, open, policy,
    secret, slot,
};
use crate::protocol::Arrival;
use crate::record::{Deed, Lease, Note, Point};
use crate::testing::records::{note, point};
use crate::{Effect, Fence, Fingerprint, Outcome, Policy, Reason, Record, State, Timestamp};

/// The fence of the write under test.
const NEXT: Fence = Fence::from_bits(6);
/// When the write before it was stamped, where it is not the first.
const LATER: Timestamp = Timestamp::from_micros(WRITTEN.as_micros() + 1_000_000);

#[test]
fn a_first_claim_begins_a_generation() {
    let arrival = Arrival::new(
        slot(),
        &Fingerprint::of(b"100 EUR"),
        policy(Effect::Probed).unknown_retention(2 * RETENTION),
        &secret(),
    );
    let expected = Record {
        scope: slot().scope().clone(),
        seal: arrival.seal(),
        effect: Effect::Probed,
        state: State::Claimed(Lease { length: LEASE }),
        mark: Some(NEXT),
        generation: NEXT,
        fence: NEXT,
        attempt: 1,
        retention: RETENTION,
        unknown_retention: Some(2 * RETENTION),
        began: None,
        written: Timestamp::ZERO,
        point: None,
        audit: vec![],
    };
    assert_eq!(Record::claimed(&arrival, NEXT), expected);
}

#[test]
fn a_claim_over_an_open_record_keeps_its_notes_and_nothing_else() {
    let found = Record {
        attempt: 4,
        ..open(Effect::Opaque)
    };
    let arrival = arrival(Effect::Keyed);
    let expected = Record {
        audit: vec![note("not in the ledger")],
        ..Record::claimed(&arrival, NEXT)
    };
    let claim = found.claimed_over(&arrival, NEXT);
    assert_eq!((claim.attempt, claim.generation), (1, NEXT));
    assert_eq!(claim, expected);
}

#[test]
fn a_claim_over_an_expired_record_keeps_nothing() {
    let arrival = arrival(Effect::Keyed);
    let unknown = claimed(Effect::Opaque).unsettled(Reason::LAPSED, SEEN);
    for found in [completed(Effect::Opaque), unknown] {
        let found = Record {
            attempt: 4,
            audit: vec![note("of work that is forgotten")],
            ..found
        };
        let claim = found.claimed_over(&arrival, NEXT);
        assert_eq!(claim, Record::claimed(&arrival, NEXT));
    }
}

#[test]
fn a_take_over_inherits_the_generation_and_counts_the_attempt() {
    let found = Record {
        written: LATER,
        audit: vec![note("looked at")],
        ..claimed(Effect::Keyed).reached(point(3), SEEN)
    };
    let newcomer = arrival(Effect::Keyed);
    let expected = Record {
        generation: found.generation,
        attempt: 2,
        began: Some(WRITTEN),
        point: Some(Box::new(point(3))),
        audit: vec![note("looked at")],
        ..Record::claimed(&newcomer, NEXT)
    };
    let taken = found.taken_over(&newcomer, NEXT);
    assert_eq!(taken.mark, Some(NEXT), "the silent holder is fenced off");
    assert_eq!(taken, expected);

    let again = taken.taken_over(&newcomer, Fence::from_bits(7));
    assert_eq!((again.attempt, again.generation), (3, found.generation));
    assert_eq!(again.began, Some(WRITTEN));
}

#[test]
fn a_take_over_goes_on_under_the_stricter_class() {
    for (ours, arrival) in all_effects() {
        let taken = claimed(ours).taken_over(&arrival, NEXT);
        assert!(taken.effect == ours || taken.effect == arrival.policy().effect);
        assert!(taken.effect >= ours && taken.effect >= arrival.policy().effect);
    }
}

#[test]
fn a_take_over_of_an_older_payload_stays_under_its_rules() {
    let found = claimed(Effect::Keyed);
    let newer = Fingerprint::builder(2).part(b"100 EUR").finish();
    let arrival = Arrival::new(slot(), &newer, Policy::default(), &secret());
    assert_eq!(found.taken_over(&arrival, NEXT).seal, found.seal);
}

#[test]
fn attempts_do_not_wrap_around() {
    let found = Record {
        attempt: u32::MAX,
        ..claimed(Effect::Keyed)
    };
    let taken = found.taken_over(&arrival(Effect::Keyed), NEXT);
    assert_eq!(taken.attempt, u32::MAX);
}

#[test]
fn a_renewal_changes_nothing_but_the_fence() {
    let found = claimed(Effect::Keyed).reached(point(3), SEEN);
    let expected = Record {
        fence: NEXT,
        ..found.clone()
    };
    assert_eq!(found.renewed(NEXT), expected);
}

#[test]
fn a_recovery_point_replaces_the_one_before() {
    let second = Point {
        name: "shipped".into(),
        ..point(5)
    };
    let found = claimed(Effect::Keyed).reached(point(3), SEEN);
    let expected = Record {
        point: Some(Box::new(second.clone())),
        fence: NEXT,
        ..found.clone()
    };
    assert_eq!(found.reached(second, NEXT), expected);
}

#[test]
fn completed_work_drops_its_point_and_keeps_its_mark() {
    let found = claimed(Effect::Keyed).reached(point(3), SEEN);
    let kept = Duration::from_secs(7);
    let expected = Record {
        state: State::Completed(Outcome::success("done")),
        point: None,
        retention: kept,
        fence: NEXT,
        ..found.clone()
    };
    assert!(expected.mark.is_some());
    let done = found.completed(Outcome::success("done"), kept, NEXT);
    assert_eq!(done, expected);
}

#[test]
fn unknown_work_keeps_its_mark_and_its_point() {
    let found = claimed(Effect::Keyed).reached(point(3), SEEN);
    let expected = Record {
        state: State::Unknown(Reason::SHUT_DOWN),
        fence: NEXT,
        ..found.clone()
    };
    assert!(expected.mark.is_some() && expected.point.is_some());
    assert_eq!(found.unsettled(Reason::SHUT_DOWN, NEXT), expected);
}

#[test]
fn a_release_removes_a_first_attempt_without_point_and_notes() {
    assert_eq!(claimed(Effect::Opaque).released(NEXT), None);
    assert_eq!(claimed(Effect::Opaque).renewed(SEEN).released(NEXT), None);
}

#[test]
fn a_release_of_a_later_attempt_or_past_a_point_speaks_only_for_itself() {
    let second = claimed(Effect::Keyed).taken_over(&arrival(Effect::Keyed), SEEN);
    let noted = Record {
        audit: vec![note("looked at")],
        ..second.clone()
    };
    let past_a_point = claimed(Effect::Opaque).reached(point(3), SEEN);
    for claim in [second, noted, past_a_point] {
        let expected = claim.unsettled(Reason::EARLIER_ATTEMPT, NEXT);
        assert_eq!(claim.released(NEXT), Some(expected));
    }
}

#[test]
fn a_release_of_what_an_operator_has_touched_leaves_it_open_with_its_notes() {
    let claim = open(Effect::Opaque).claimed_over(&arrival(Effect::Opaque), SEEN);
    let left = claim.released(NEXT).unwrap();
    let expected = Record {
        state: State::Open,
        mark: None,
        fence: NEXT,
        began: Some(claim.began()),
        ..claim.clone()
    };
    assert_eq!(left.audit, [note("not in the ledger")]);
    assert_eq!(left, expected);
}

#[test]
fn a_record_settled_as_not_executed_is_open_without_mark_and_point() {
    let claim = claimed(Effect::Opaque).reached(point(3), SEEN);
    let unknown = claim.unsettled(Reason::LAPSED, SEEN);
    let expected = Record {
        state: State::Open,
        mark: None,
        point: None,
        audit: vec![note("looked")],
        fence: NEXT,
        ..unknown.clone()
    };
    assert_eq!(unknown.resolved(None, note("looked"), NEXT), expected);
}

#[test]
fn a_record_settled_with_an_outcome_is_completed_and_says_by_whom() {
    let unknown = claimed(Effect::Opaque).unsettled(Reason::LAPSED, SEEN);
    let note = Note {
        deed: Deed::Completed,
        ..note("found in the ledger")
    };
    let outcome = Outcome::success("charged");
    let expected = Record {
        state: State::Completed(outcome.clone()),
        audit: vec![note.clone()],
        fence: NEXT,
        ..unknown.clone()
    };
    assert_eq!(unknown.resolved(Some(outcome), note, NEXT), expected);
}

#[test]
fn an_extension_keeps_the_outcome_for_longer() {
    let found = completed(Effect::Opaque);
    let expected = Record {
        retention: 3 * RETENTION,
        audit: vec![note("under dispute")],
        fence: NEXT,
        ..found.clone()
    };
    let kept = found.extended(3 * RETENTION, note("under dispute"), NEXT);
    assert_eq!(kept, expected);
}

#[test]
fn one_note_too_many_costs_the_oldest() {
    let mut record = completed(Effect::Opaque);
    for at in 0..=Note::COUNT_MAX {
        record = record.extended(RETENTION, note(&format!("{at}")), NEXT);
    }
    let whys: Vec<_> = record.audit.iter().map(|it| it.why.to_string()).collect();
    let expected: Vec<_> = (1..=Note::COUNT_MAX).map(|at| at.to_string()).collect();
    assert_eq!(whys, expected);
}

#[test]
fn a_generation_remembers_when_it_began() {
    let first = Record {
        written: WRITTEN,
        ..Record::claimed(&arrival(Effect::Keyed), SEEN)
    };
    let renewed = Record {
        written: LATER,
        ..first.renewed(NEXT)
    };
    let done = renewed.completed(Outcome::success("done"), RETENTION, NEXT);
    assert_eq!((first.began(), done.began()), (WRITTEN, WRITTEN));

    let next = Record {
        written: LATER,
        ..done.claimed_over(&arrival(Effect::Keyed), NEXT)
    };
    assert_eq!(next.began(), LATER, "a new generation begins anew");
}
