//! Broken promises about payloads, tenants, and a run as a whole.

// C8: a key is bound to its payload.
bad! {
    C8 refused another_payload_gets_the_stored_answer: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   claim steal -> replayed receipt of 1
        9     end completed receipt of 1";

    C8 refused another_payload_is_told_to_wait: "
        1-2   claim pay -> granted 1
        3-4   claim steal -> busy
        9     end claimed 1 of 1";

    C8 refused another_payload_is_told_unknown: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5-6   claim steal -> unknown
        9     end unknown 1 of 1";

    C8 refused another_payload_takes_over: "
        1-2   claim pay keyed -> granted 1
        3-4   claim steal keyed -> granted 2 of 1
        9     end claimed 2 of 1";

    C8 refused the_same_payload_mismatches: "
        1-2   claim pay -> granted 1
        3-4   claim pay -> mismatch
        9     end claimed 1 of 1";

    C8 refused a_fresh_key_mismatches: "
        1-2   claim pay -> mismatch
        9     end absent";

    C8 refused a_released_payload_still_mismatches: "
        1-2   claim pay -> granted 1
        3-4   release 1
        5-6   claim refund -> mismatch
        9     end absent";

    C8 blind what_was_executed_is_not_what_was_claimed: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt for steal
        4-5   complete 1 receipt
        9     end completed receipt of 1";
}

// C9: nothing of one tenant reaches another.
bad! {
    C9 blind one_tenants_bytes_reach_another: "
        expect canary a rosebud
        expect canary b xanadu!
        1-2   claim pay @b/k -> granted 1
        3     effect 1 receipt @b/k
        4-5   complete 1 receipt @b/k
        6-7   claim pay @b/k -> replayed receipt body {rosebud}
        9     end completed receipt @b/k";

    C9 blind a_canary_inside_a_longer_answer_is_found: "
        expect canary a rosebud
        1-2   claim pay @b/k -> busy body no:rosebudget
        1-3   claim pay @b/k -> granted 1
        9     end claimed 1 @b/k";

    C9 blind an_effect_is_executed_under_another_tenants_claim: "
        1-2   claim pay @a/k -> granted 1
        3     effect 1 receipt @b/k
        9     end claimed 1 @a/k
        9     end absent @b/k";

    C9 refused an_answer_carries_another_tenants_generation: "
        1-2   claim pay @a/k -> granted 1
        1-6   claim pay @b/k -> granted 3
        3-4   claim pay @b/k -> busy of 1
        9     end claimed 1 @a/k
        9     end claimed 3 @b/k";
}

// C10: every granted claim is accounted for.
bad! {
    C10 refused a_released_claim_is_still_there: "
        1-2   claim pay -> granted 1
        3-4   release 1
        9     end claimed 1 of 1";

    C10 refused a_record_that_nobody_claimed: "
        1-2   claim pay -> granted 1
        3-4   release 1
        9     end unknown 7 of 7";

    C10 blind the_systems_own_counts_do_not_add_up: "
        expect total t grants 2
        expect total t completed 1
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        9     end completed receipt of 1";

    C10 blind the_system_counts_more_grants_than_were_given: "
        expect total t grants 2
        expect total t completed 2
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        9     end completed receipt of 1";

    C10 refused a_caller_is_told_to_wait_for_nobody: "
        1-2   claim pay -> busy
        3-4   claim pay -> granted 3
        9     end claimed 3 of 3";

    C10 refused an_answer_is_given_before_any_claim: "
        1-2   claim pay -> replayed receipt
        3-4   claim pay -> granted 3
        9     end claimed 3 of 3";

    C10 refused a_read_finds_a_claim_that_nobody_made: "
        1-2   get -> unknown 7 of 7
        9     end unknown 7 of 7";
}

// C11: the run was worth judging.
bad! {
    C11 blind a_run_without_enough_successes: "
        expect successes 2
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        9     end completed receipt of 1";

    C11 blind a_run_without_the_faults_it_was_to_have: "
        expect faults crash 3
        fault crash 2
        fault pause 9
        1-2   claim pay -> granted 1
        9     end claimed 1 of 1";

    C11 blind a_run_without_faults_has_an_unknown_outcome: "
        expect fault-free
        1-2   claim pay -> granted 1
        3-4   abandon 1
        9     end unknown 1 of 1";

    C11 blind a_run_said_to_be_without_faults_has_one: "
        expect fault-free
        fault crash 1
        1-2   claim pay -> granted 1
        9     end claimed 1 of 1";
}

// C12: nothing expires before its retention ends.
bad! {
    C12 refused a_completed_slot_is_empty_too_early: "
        expect retention 100
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        50-51 get -> absent
        200   end absent";

    C12 refused a_completed_slot_is_granted_anew_too_early: "
        expect retention 100
        1-2   claim pay -> granted 1
        3     effect 1 first
        4-5   complete 1 first
        50-51 claim pay -> granted 9
        52    effect 9 second
        53-54 complete 9 second
        60    end completed second of 9";

    C12 refused a_completed_slot_is_swept_too_early: "
        expect retention 100
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        50-51 sweep -> absent
        200   end absent";

    C12 refused a_completed_slot_ends_empty_too_early: "
        expect retention 100
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        60    end absent";

    C12 refused a_replayed_outcome_expires_before_it_can_have: "
        expect retention 100
        expect slack 10
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        40-   complete 1 receipt
        50-51 claim pay -> replayed receipt of 1
        120-121 get -> absent
        300   end absent";
}
