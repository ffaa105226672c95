//! Random runs of a world that keeps the promise pass; with one thing changed they do not.

use onceward_rig::history::{
    self, Answer, Check, Event, Fence, FinalRead, History, Judgement, Kind, State, Verb, wgl,
};
use proptest::{
    collection::vec, prelude::any, prop_assert, prop_assume, proptest, sample::Index,
    test_runner::Config,
};

use crate::world::{self, RETENTION};

proptest! {
    #[test]
    fn a_world_that_keeps_the_promise_passes(tape in vec(any::<u16>(), 40..400)) {
        let history = world::run(&tape, false);
        let report = history::check(&history);
        prop_assert!(report.is_pass(), "{report}\n{}", text(&history));
    }

    #[test]
    fn lost_answers_are_held_against_nobody(tape in vec(any::<u16>(), 40..400)) {
        let history = world::run(&tape, true);
        let report = history::check(&history);
        prop_assert!(report.is_pass(), "{report}\n{}", text(&history));
    }

    #[test]
    fn an_order_explains_every_world(tape in vec(any::<u16>(), 40..400)) {
        let history = world::run(&tape, true);
        let opinion = wgl::search(&history).unwrap();
        prop_assert!(opinion.refused.is_empty(), "{opinion:?}\n{}", text(&history));
    }

    #[test]
    fn a_world_without_a_last_read_is_unknown(tape in vec(any::<u16>(), 40..400), at in any::<Index>()) {
        let mut history = world::run(&tape, true);
        let touched = at.get(&history.events).clone();
        history.finals.retain(|last| (&last.tenant, &last.key) != (&touched.tenant, &touched.key));
        let report = history::check(&history);
        prop_assert!(matches!(report.judgement, Judgement::Unknown(_)), "{report}");
    }
}

/// Makes a test of every change: it breaks the rule that is named, whatever else it breaks.
///
/// A change returns whether the run had something to change.
macro_rules! detected {
    ($($check:ident $name:ident: $change:expr;)*) => {$(
        proptest! {
            // Few runs have what a change needs, and a change that is not seen is seen at once.
            #![proptest_config(Config { cases: 32, max_global_rejects: 1 << 20, ..Config::default() })]
            #[test]
            fn $name(tape in vec(any::<u16>(), 600..1200)) {
                let mut history = world::run(&tape, false);
                let change: fn(&mut History) -> Option<()> = $change;
                prop_assume!(change(&mut history).is_some());

                let report = history::check(&history);
                let broken = report.violations().iter().any(|it| it.check == Check::$check);
                prop_assert!(broken, "{report}\n{}", text(&history));
            }
        }
    )*};
}

detected! {
    C1 a_repeated_effect_is_detected: |history| {
        let row = history.ledger.iter().find(|row| &*row.key != "k3")?.clone();
        history.ledger.push(row);
        Some(())
    };

    C2 a_forged_replay_is_detected: |history| {
        let end = end_of(history, |_, end| end.answer == Some(Answer::Replayed))?;
        history.events[end].body_hash = Some("forged".into());
        Some(())
    };

    C3 a_completed_slot_found_busy_is_detected: |history| {
        history.expectations.retention_ns = None;
        let (_, done) = op_of(history, |_, end| end.verb == Verb::Complete && end.kind == Kind::Ok)?;
        insert(history, &done, Verb::Claim, Answer::Busy);
        Some(())
    };

    C4 a_second_grant_beside_the_first_is_detected: |history| {
        let (busy, grant) = busy_beside_a_grant(history)?;
        let end = &mut history.events[busy];
        end.answer = Some(Answer::Granted);
        end.mark = Some(Fence(grant.0 + 1));
        end.generation = end.mark;
        Some(())
    };

    C5 a_renewal_with_an_old_fence_is_detected: |history| {
        let end = end_of(history, |_, end| end.verb == Verb::Renew && end.kind == Kind::Ok)?;
        history.events[end].fence = Some(Fence(1));
        Some(())
    };

    C6 a_stale_completion_that_succeeds_is_detected: |history| {
        let lost = |asked: &Event, end: &Event| {
            asked.verb == Verb::Complete && end.kind == Kind::Fail && &*end.key == "k1"
        };
        let end = end_of(history, lost)?;
        history.events[end].kind = Kind::Ok;
        Some(())
    };

    C7 a_lost_effect_is_detected: |history| {
        let done = |asked: &Event, end: &Event| {
            asked.verb == Verb::Complete && asked.answer.is_none() && end.kind == Kind::Ok
                && &*end.key == "k0"
        };
        let (asked, _) = op_of(history, done)?;
        history.ledger.retain(|row| row.mark != asked.mark);
        Some(())
    };

    C8 a_replay_to_another_payload_is_detected: |history| {
        let end = end_of(history, |_, end| end.answer == Some(Answer::Replayed) && end.verb == Verb::Claim)?;
        history.events[end].fingerprint = Some("stolen".into());
        Some(())
    };

    C9 bytes_of_another_tenant_are_detected: |history| {
        history.expectations.canaries.insert("b".to_owned(), "secret-of-b".to_owned());
        let end = end_of(history, |_, end| end.body.is_some() && &*end.tenant == "a")?;
        history.events[end].body = Some("..secret-of-b..".into());
        Some(())
    };

    C10 a_released_claim_that_is_still_there_is_detected: |history| {
        let (asked, _) = op_of(history, |asked, end| is_last_release(history, asked, end))?;
        let own = |last: &&mut FinalRead| last.key == asked.key && last.tenant == asked.tenant;
        let last = history.finals.iter_mut().find(own)?;
        last.state = State::Claimed;
        (last.mark, last.generation) = (asked.mark, asked.mark);
        Some(())
    };

    C12 an_outcome_that_expires_early_is_detected: |history| {
        let (asked, done) = op_of(history, |_, end| end.verb == Verb::Complete && end.kind == Kind::Ok)?;
        assert!(done.mono_ns + 1 < asked.mono_ns + RETENTION);
        insert(history, &done, Verb::Get, Answer::Absent);
        Some(())
    };
}

/// Returns the first operation that fits, as asked and as answered.
fn op_of(history: &History, fits: impl Fn(&Event, &Event) -> bool) -> Option<(Event, Event)> {
    let end = end_of(history, fits)?;
    let end = &history.events[end];
    let asked = history
        .events
        .iter()
        .find(|asked| asked.op_id == end.op_id)?;
    Some((asked.clone(), end.clone()))
}

/// Returns the place of the answer of the first operation that fits.
fn end_of(history: &History, fits: impl Fn(&Event, &Event) -> bool) -> Option<usize> {
    history.events.iter().position(|end| {
        let own = |asked: &&Event| asked.op_id == end.op_id && asked.kind == Kind::Invoke;
        let asked = history.events.iter().find(own);
        end.kind != Kind::Invoke && asked.is_some_and(|asked| fits(asked, end))
    })
}

/// Whether a release was the last thing that happened to its slot.
fn is_last_release(history: &History, asked: &Event, end: &Event) -> bool {
    let later = |event: &Event| event.answer == Some(Answer::Granted) && event.mark > asked.mark;
    let slot = |event: &&Event| event.key == asked.key && event.tenant == asked.tenant;
    asked.verb == Verb::Release
        && end.answer == Some(Answer::Absent)
        && !history.events.iter().filter(slot).any(later)
}

/// Puts an operation right after an answer.
fn insert(history: &mut History, after: &Event, verb: Verb, answer: Answer) {
    let at = after.mono_ns + 1;
    let asked = Event {
        mono_ns: at,
        proc: 1,
        fingerprint: Some("pay".into()),
        ..Event::invoke(verb, &after.tenant, &after.key)
    };
    let end = Event {
        answer: Some(answer),
        ..asked.ended(Kind::Ok, at)
    };
    history.events.extend([asked, end]);
    history
        .finals
        .iter_mut()
        .for_each(|last| last.mono_ns = last.mono_ns.max(at));
}

/// Returns where a claim was answered busy while another, surely, held the slot; and its mark.
fn busy_beside_a_grant(history: &History) -> Option<(usize, Fence)> {
    let grants = history
        .events
        .iter()
        .filter(|event| event.answer == Some(Answer::Granted) && &*event.key == "k0");
    for grant in grants {
        let still = |asked: &Event, end: &Event| {
            asked.mark == grant.mark && end.kind == Kind::Ok && asked.verb == Verb::Renew
        };
        let Some((still, _)) = op_of(history, still) else {
            continue;
        };
        let busy = end_of(history, |asked, end| {
            end.answer == Some(Answer::Busy)
                && (&end.tenant, &end.key) == (&grant.tenant, &grant.key)
                && grant.mono_ns < asked.mono_ns
                && end.mono_ns < still.mono_ns
        });
        if let Some(busy) = busy {
            return Some((busy, grant.mark?));
        }
    }
    None
}

/// Returns a history as a file would hold it, for a failing run to show.
fn text(history: &History) -> String {
    let mut bytes = Vec::new();
    history.write_jsonl(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}
