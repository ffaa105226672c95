//! What a report says beyond pass and fail.

use onceward_rig::history::{self, Check, History, Judgement, Report, wgl};

fn judge(script: &str) -> Report {
    history::check(&History::script(script).unwrap())
}

fn reason(report: &Report) -> &str {
    match &report.judgement {
        Judgement::Unknown(reason) => reason,
        Judgement::Pass | Judgement::Fail(_) => panic!("expected unknown, got {report}"),
    }
}

#[test]
fn a_missing_last_read_is_unknown_and_never_a_pass() {
    let report = judge(
        "1-2  claim pay @t/a -> granted 1
         1-2  claim pay @t/b -> granted 2
         9    end claimed 1 @t/a",
    );

    assert!(reason(&report).contains("t/b"), "{report}");
}

#[test]
fn an_effect_in_a_slot_that_was_never_read_is_unknown() {
    let report = judge("expect black-box\n1 effect 1 receipt");

    assert!(reason(&report).contains("t/k"), "{report}");
}

#[test]
fn a_broken_rule_outweighs_a_missing_last_read() {
    let report = judge(
        "1-2  claim pay -> granted 1
         3    effect 1 receipt
         4    effect 1 receipt",
    );

    assert_eq!(report.violations()[0].check, Check::C1);
}

#[test]
fn a_last_read_before_the_last_operation_is_unknown() {
    let report = judge(
        "1-2  claim pay -> granted 1
         3    end claimed 1
         4-5  renew 1",
    );

    assert!(reason(&report).contains("last"), "{report}");
}

#[test]
fn lines_that_contradict_one_another_are_unknown() {
    let mut history = History::script("1-2 claim pay -> granted 1\n9 end claimed 1").unwrap();
    let end = history.events[1].clone();
    history.events.push(end);
    assert!(reason(&history::check(&history)).contains("twice"));

    history.events.drain(..1);
    assert!(reason(&history::check(&history)).contains("never invoked"));
}

#[test]
fn a_grant_without_a_mark_is_unknown() {
    let report = judge("1-2 claim pay -> granted\n9 end absent");

    assert!(reason(&report).contains("mark"), "{report}");
}

#[test]
fn a_violation_names_the_slot_and_the_events() {
    let report = judge(
        "1-2  claim pay @acme/order-7 -> granted 1
         3    effect 1 receipt @acme/order-7
         4-5  complete 1 receipt @acme/order-7
         6-7  claim pay @acme/order-7 -> busy
         9    end completed receipt @acme/order-7",
    );

    let known = "C3 acme/order-7: claim (process 0, op 4, at 6..7) says busy after \
                 complete of 1 (process 0, op 3, at 4..5)";
    assert_eq!(report.violations()[0].to_string(), known);
}

#[test]
fn ambiguity_is_counted_by_generation() {
    let report = judge(
        "1-2  claim pay -> granted 1
         3-4  abandon 1
         5-6  claim pay -> unknown
         7-8  claim pay -> unknown
         1-2  claim pay @t/b -> granted 2
         3    effect 2 receipt @t/b
         4-5  complete 2 receipt @t/b
         9    end unknown 1
         9    end completed receipt @t/b",
    );

    assert!(report.is_pass(), "{report}");
    assert_eq!(report.counts.ambiguous, 1);
    assert_eq!(report.counts.grants, 2);
    assert_eq!(report.counts.successes, 1);
}

#[test]
fn allowed_duplicates_are_counted_apart() {
    let report = judge(
        "1-2  claim pay at-least-once -> granted 1
         3    effect 1 receipt
         4-5  claim pay at-least-once -> granted 2 of 1
         6    effect 2 receipt
         7    effect 2 receipt
         9    end claimed 2 of 1",
    );

    assert!(report.is_pass(), "{report}");
    assert_eq!(report.counts.duplicates_allowed, 2);
    assert_eq!(report.counts.take_overs, 1);
}

#[test]
fn effects_after_an_operators_word_are_counted_apart() {
    let report = judge(
        "1-2  claim pay -> granted 1
         3-4  abandon 1
         5-6  resolve open
         7    effect 1 receipt
         9    end open of 1",
    );

    assert!(report.is_pass(), "{report}");
    assert_eq!(report.counts.after_resolve, 1);
}

#[test]
fn a_slot_with_too_many_operations_is_left_out_of_the_search() {
    let reads: String = (0..wgl::OPS_MAX)
        .map(|at| format!("{at}-{at} get -> absent\n"))
        .collect();
    let opinion =
        wgl::search(&History::script(&format!("{reads} 999 end absent")).unwrap()).unwrap();

    assert_eq!((opinion.orderly, opinion.skipped), (0, 1));
}

#[test]
fn many_unanswered_claims_do_not_stop_the_search() {
    let claims: String = (0..50).map(|at| format!("{at}- claim pay\n")).collect();
    let script = format!("{claims} 60-61 get -> unknown\n 70 end open");
    let opinion = wgl::search(&History::script(&script).unwrap()).unwrap();

    assert_eq!((opinion.refused.len(), opinion.skipped), (1, 0));
}

#[test]
fn a_script_names_its_bad_line() {
    let error = History::script("1-2 claim pay -> granted 1\n3-4 dance").unwrap_err();

    assert_eq!(error.to_string(), "line 2: `dance` is not a verb");
}
