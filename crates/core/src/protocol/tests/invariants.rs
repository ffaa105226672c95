//! What holds for every record, whatever is in it.

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{RETENTION, arrival, of_another_payload};
use crate::protocol::{Arrival, Step, decide};
use crate::testing::records::{note, point, strategy};
use crate::{Effect, Fence, Outcome, Reason, Record, State, Timestamp};

/// The fence of the write under test.
const NEXT: Fence = Fence::from_bits(6);

proptest! {
    #[test]
    fn what_lives_is_never_claimed((found, now) in seen(), effect in strategy::effect()) {
        let (same, other) = both(found, effect);
        for (found, arrival) in [&same, &other] {
            let settled = matches!(found.state, State::Open) || expired(found, now);
            let step = decide(Some(found), arrival, now);
            prop_assert!(settled || !matches!(step, Step::Claim { .. }), "{:?}", step);
        }
    }

    #[test]
    fn another_payload_gets_nothing_but_a_mismatch(
        (found, now) in seen(),
        effect in strategy::effect(),
    ) {
        let (_, (found, arrival)) = both(found, effect);
        let step = decide(Some(&found), &arrival, now);
        prop_assert_eq!(step == Step::Mismatch, !expired(&found, now));
    }

    #[test]
    fn only_what_is_completed_is_replayed((found, now) in seen(), effect in strategy::effect()) {
        let ((found, arrival), _) = both(found, effect);
        let step = decide(Some(&found), &arrival, now);
        let live = found.outcome().filter(|_| !expired(&found, now));
        let replayed = match &step {
            Step::Replay { outcome, .. } => Some(outcome),
            _ => None,
        };
        prop_assert_eq!(replayed.is_some(), live.is_some());
        if let (Some(replayed), Some(live)) = (replayed, live) {
            prop_assert!(replayed.is_of_one(live));
            let keep = live.keeps_body_for();
            let is_late = keep.is_some_and(|keep| found.written + keep.min(found.retention) <= now);
            let body = live.body().filter(|_| !is_late);
            prop_assert_eq!(replayed.body(), body);
        }
    }

    #[test]
    fn opaque_work_without_a_point_is_never_repeated(
        (found, now) in seen(),
        record_is_the_opaque_one in any::<bool>(),
        other in strategy::effect(),
    ) {
        let (ours, theirs) = match record_is_the_opaque_one {
            true => (Effect::Opaque, other),
            false => (other, Effect::Opaque),
        };
        let found = Record { effect: ours, point: None, ..found };
        let ((found, arrival), _) = both(found, theirs);
        let step = decide(Some(&found), &arrival, now);
        let repeats = matches!(step, Step::TakeOver { .. } | Step::Probe { .. });
        prop_assert!(!repeats, "{:?}", step);
    }

    #[test]
    fn a_step_names_the_fence_that_was_seen((found, now) in seen(), effect in strategy::effect()) {
        let ((found, arrival), _) = both(found, effect);
        let named = match decide(Some(&found), &arrival, now) {
            Step::Claim { over } => over,
            Step::TakeOver { seen } | Step::Probe { seen } => Some(seen),
            Step::Hold { mark: Some(seen), .. } => Some(seen),
            Step::Hold { mark: None, .. } | Step::Replay { .. } | Step::Mismatch => return Ok(()),
            Step::Busy { until } => {
                prop_assert!(now < until);
                return Ok(());
            }
        };
        prop_assert_eq!(named, Some(found.fence));
    }

    #[test]
    fn every_move_within_a_generation_keeps_what_it_is_about(found in strategy::record()) {
        let arrival = arrival(Effect::Keyed);
        let moves = [
            found.renewed(NEXT),
            found.reached(point(3), NEXT),
            found.completed(Outcome::success("done"), RETENTION, NEXT),
            found.unsettled(Reason::LAPSED, NEXT),
            found.resolved(None, note("looked"), NEXT),
            found.extended(RETENTION, note("looked"), NEXT),
            Record { scope: found.scope.clone(), ..found.taken_over(&arrival, NEXT) },
        ];
        for moved in moves {
            prop_assert_eq!(&moved.scope, &found.scope);
            prop_assert_eq!(moved.seal, found.seal);
            prop_assert_eq!(moved.generation, found.generation);
            prop_assert_eq!(moved.began, Some(found.began()));
            prop_assert_eq!(moved.fence, NEXT);
            prop_assert!(moved.attempt >= found.attempt && moved.effect >= found.effect);
        }
    }

    #[test]
    fn a_release_never_lets_an_earlier_attempt_run_again(found in strategy::record()) {
        let earlier = found.attempt > 1 || found.point.is_some();
        let left = found.released(NEXT).map(|record| record.state);
        let unknown = matches!(left, Some(State::Unknown(_)));
        prop_assert_eq!(unknown, earlier);
    }
}

/// Any record, at any moment and with a liking for the moment it is due.
fn seen() -> impl Strategy<Value = (Record, Timestamp)> {
    let moments = prop_oneof![
        (0..u64::MAX).prop_map(Err),
        proptest::sample::select(&[-1_i64, 0, 1][..]).prop_map(Ok),
    ];
    (strategy::record(), moments).prop_map(|(record, moment)| {
        let due = record.due().as_micros();
        let at = moment.map_or_else(|at| at, |step| due.saturating_add_signed(step));
        let now = Timestamp::from_micros(at.min(u64::MAX - 1));
        (record, now)
    })
}

/// The record with the payload of an arrival, and with another one.
fn both(found: Record, effect: Effect) -> ((Record, Arrival), (Record, Arrival)) {
    let arrival = arrival(effect);
    let same = Record {
        seal: arrival.seal(),
        ..found
    };
    let other = of_another_payload(same.clone());
    ((same, arrival.clone()), (other, arrival))
}

/// Said another way than the code says it.
fn expired(record: &Record, now: Timestamp) -> bool {
    let kept = match record.state {
        State::Claimed(_) | State::Reserved(_) => None,
        State::Completed(_) | State::Open => Some(record.retention),
        State::Unknown(_) => record.unknown_retention,
    };
    kept.is_some_and(|span| record.written + span <= now)
}
