//! Broken promises about what was done and what was answered.

// C1: a generation of a slot has at most one effect.
bad! {
    C1 blind a_holder_executes_twice: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4     effect 1 receipt
        5-6   complete 1 receipt
        9     end completed receipt of 1";

    C1 blind a_keyed_take_over_is_not_deduplicated: "
        1-2   claim pay keyed -> granted 1
        3     effect 1 receipt
        4-5   claim pay keyed -> granted 2 of 1
        6     effect 2 receipt
        7-8   complete 2 receipt
        9     end completed receipt of 1";

    C1 blind a_late_request_lands_after_the_take_over: "
        1-2   claim pay keyed -> granted 1
        4-5   claim pay keyed -> granted 2 of 1
        6     effect 2 receipt
        7-8   complete 2 receipt
        9     effect 1 receipt
        10    end completed receipt of 1";

    C1 blind a_claim_without_an_answer_executes_beside_the_granted_one: "
        1-    claim pay as 1
        2-6   claim pay -> granted 2
        4     effect 1 receipt
        7     effect 2 receipt
        8-9   complete 2 receipt
        10    end completed receipt of 2";

    C1 blind two_nameless_claims_both_execute: "
        1-    claim pay
        2-    claim pay
        3     effect 7 receipt
        4     effect 8 receipt
        9     end unknown 8";

    C1 blind one_effect_too_many_seen_from_outside: "
        expect black-box
        1-5   claim pay -> replayed receipt
        2     effect a1 receipt
        3     effect b2 receipt
        9     end completed receipt";

    C1 blind a_strict_claim_in_the_generation_forbids_duplicates: "
        1-2   claim pay at-least-once -> granted 1
        3     effect 1 receipt
        4-5   claim pay keyed -> granted 2 of 1
        6     effect 2 receipt
        7-8   complete 2 receipt
        9     end completed receipt of 1";
}

// C2: all terminal answers of a generation are one answer, the one its effect gave.
bad! {
    C2 refused a_retry_gets_another_answer: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   claim pay -> replayed forged of 1
        9     end completed receipt of 1";

    C2 refused the_last_read_tells_another_answer: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        9     end completed forged of 1";

    C2 refused a_second_completion_overwrites_the_first: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   complete 1 forged
        9     end completed forged of 1";

    C2 blind what_was_stored_is_not_what_the_service_said: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 truncated
        9     end completed truncated of 1";

    C2 refused a_holder_that_lost_answers_with_its_own_result: "
        1-2   claim pay keyed -> granted 1
        3-4   claim pay keyed -> granted 2 of 1
        5     effect 2 receipt
        6-7   complete 2 receipt
        8-9!  complete 1 mine -> replayed mine of 1
        10    end completed receipt of 1";

    C2 refused an_answer_is_replayed_that_nobody_stored: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   claim pay -> replayed receipt of 1
        6-7   complete 1 receipt
        9     end completed receipt of 1";

    C2 refused an_operators_answer_is_not_the_one_replayed: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5-6   resolve completed by-hand
        7-8   claim pay -> replayed receipt of 1
        9     end completed by-hand of 1";

    C2 refused a_nameless_answer_fits_no_generation: "
        expect retention 5
        1-2   claim pay -> granted 1
        3     effect 1 first
        4-5   complete 1 first
        11-12 claim pay -> granted 9
        13    effect 9 second
        14-15 complete 9 second
        16-17 claim pay -> replayed third
        18    end completed second of 9";

    C2 blind a_caller_outside_gets_another_answer: "
        expect black-box
        1-5   claim pay -> replayed receipt
        3     effect a1 receipt
        6-7   claim pay -> replayed forged
        9     end completed receipt";

    C2 refused a_slot_ends_completed_and_nobody_completed_it: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5!  complete 1 receipt
        9     end completed receipt of 1";

    C2 refused a_sweeper_sees_an_outcome_that_nobody_stored: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   sweep -> completed receipt of 1
        6-7   complete 1 receipt
        9     end completed receipt of 1";

    C2 refused a_nameless_answer_before_anybody_stored_one: "
        1-    claim pay
        2-3   claim pay -> granted 2
        4-5   claim pay -> replayed
        6     effect 2 receipt
        7-8   complete 2 receipt
        9     end completed receipt of 2";
}

// C3: what is completed stays completed.
bad! {
    C3 refused a_completed_slot_is_granted_again: "
        1-2   claim pay keyed -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   claim pay keyed -> granted 2 of 1
        9     end completed receipt of 1";

    C3 refused a_completed_slot_is_granted_anew_without_a_retention: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   claim pay -> granted 2
        9     end claimed 2 of 2";

    C3 refused a_completed_slot_is_empty_without_a_retention: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   get -> absent
        9     end completed receipt of 1";

    C3 refused a_completed_slot_is_busy: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   claim pay -> busy
        9     end completed receipt of 1";

    C3 refused a_replayed_slot_turns_unknown: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-    complete 1 receipt
        5-6   claim pay -> replayed receipt of 1
        7-8   claim pay -> unknown
        9     end completed receipt of 1";

    C3 refused a_completed_slot_ends_claimed: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        9     end claimed 1 of 1";

    C3 refused an_operator_opens_what_was_completed: "
        1-2   claim pay keyed -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   resolve open
        9     end open of 1";

    C3 refused an_unanswered_release_is_no_excuse_after_the_outcome: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-    release 1
        8     end absent";
}

// C7: how a slot ends agrees with the effects that happened.
bad! {
    C7 blind an_outcome_without_an_effect: "
        1-2   claim pay -> granted 1
        4-5   complete 1 receipt
        9     end completed receipt of 1";

    C7 blind an_answer_without_an_effect_seen_from_outside: "
        expect black-box
        1-5   claim pay -> replayed receipt
        9     end completed receipt";

    C7 blind an_outcome_before_its_effect: "
        1-2   claim pay -> granted 1
        3-4   complete 1 receipt
        6     effect 1 receipt
        9     end completed receipt of 1";

    C7 blind an_error_releases_what_was_executed: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   release 1
        9     end absent";

    C7 blind a_timeout_releases_and_the_request_lands_later: "
        1-2   claim pay -> granted 1
        3-4   release 1
        5-6   claim pay -> granted 2
        7     effect 2 receipt
        8-9   complete 2 receipt
        10    effect 1 receipt
        11    end completed receipt of 2";

    C7 blind an_unanswered_release_of_what_was_executed_took_hold: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-    release 1
        5-6   claim pay -> granted 2
        9     end claimed 2 of 2";

    C7 blind a_probe_releases_and_the_old_request_lands: "
        1-2   claim pay probed -> granted 1
        3-4   abandon 1
        5-6   resolve open probed
        7-8   claim pay probed -> granted 2
        9     effect 2 receipt
        10-11 complete 2 receipt
        12    effect 1 receipt
        13    end completed receipt of 2";

    C7 blind an_operator_opens_what_had_happened: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   abandon 1
        6-7   resolve open
        9     end open of 1";

    C7 blind a_probe_claims_an_effect_there_is_not: "
        1-2   claim pay probed -> granted 1
        3-4   abandon 1
        5-6   resolve completed receipt probed
        9     end completed receipt of 1";

    C7 refused an_executed_slot_ends_empty: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-    complete 1 receipt
        9     end absent";

    C7 refused an_executed_slot_ends_open_and_nobody_opened_it: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        9     end open of 1";

    C7 blind a_transactional_effect_without_its_commit: "
        1-2   claim pay transactional -> granted 1
        3     effect 1 receipt
        4-5   claim pay transactional -> granted 2
        9     end claimed 2 of 2";

    C7 blind a_message_is_acknowledged_before_its_outcome: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   ack
        6-7   complete 1 receipt
        9     end completed receipt of 1";

    C7 blind a_message_is_acknowledged_while_another_is_at_work: "
        1-2   claim pay -> granted 1
        3-4   claim pay -> busy
        5-    ack
        9     end claimed 1 of 1";

    C7 refused a_slot_is_open_and_nobody_opened_it: "
        1-2   claim pay -> granted 1
        3-4   get -> open of 1
        5-6   resolve open
        9     end open of 1";
}
