//! Broken promises about who held a slot and wrote to it.

// C4: at most one generation, and in it one claim, owns a slot at a time.
bad! {
    C4 refused two_claims_are_granted_together: "
        1-4   claim pay -> granted 1
        2-5   claim pay -> granted 2
        9     end claimed 2 of 2";

    C4 refused a_silent_holder_is_forgotten: "
        1-2   claim pay -> granted 1
        5-6   claim pay -> granted 2
        7-8   abandon 2
        9     end unknown 2 of 2";

    C4 refused an_opaque_claim_is_taken_over: "
        1-2   claim pay -> granted 1
        5-6   claim pay -> granted 2 of 1
        9     end claimed 2 of 1";

    C4 refused an_unknown_record_is_granted_anew: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5-6   claim pay -> granted 2
        9     end claimed 2 of 2";

    C4 refused a_live_claim_is_swept: "
        1-2   claim pay -> granted 1
        3-4   sweep -> absent
        5-6!  complete 1 receipt
        9     end claimed 1 of 1";

    C4 refused a_claim_vanishes_by_itself: "
        1-2   claim pay -> granted 1
        3-4!  release 1
        9     end absent";

    C4 blind a_dead_process_that_had_executed_is_forgotten: "
        1-    claim pay as 1
        2     effect 1 receipt
        4-5   claim pay -> granted 4
        6     effect 4 receipt
        7-8   complete 4 receipt
        9     end completed receipt of 4";

    C4 refused an_earlier_settlement_does_not_excuse_a_later_loss: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5-6   resolve open
        7-8   claim pay -> granted 7
        9     end absent";

    C4 refused the_old_holder_is_back_after_a_take_over: "
        1-2   claim pay keyed -> granted 1
        3-4   claim pay keyed -> granted 2 of 1
        9     end claimed 1 of 1";

    C4 refused a_read_names_a_holder_that_was_taken_over: "
        1-2   claim pay keyed -> granted 1
        3-4   claim pay keyed -> granted 2 of 1
        5-6   get -> claimed 1 of 1
        9     end claimed 2 of 1";

    C4 blind a_released_generation_is_continued: "
        1-2   claim pay keyed -> granted 1
        3-4   release 1
        5-6   claim pay keyed -> granted 2 of 1
        9     end claimed 2 of 1";

    C4 refused an_unknown_record_expires_before_its_own_retention: "
        expect unknown-retention 10
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5-6   claim pay -> granted 2
        9     end claimed 2 of 2";
}

// C5: fences grow in real time and none is used twice.
bad! {
    C5 blind a_fence_restarts_after_a_release: "
        1-2   claim pay -> granted 5
        3-4   release 5
        5-6   claim pay -> granted 1
        9     end claimed 1 of 1";

    C5 blind a_released_slot_is_claimed_with_a_fence_of_long_ago: "
        1-2   claim pay -> granted 650e9adfe7abce375a4efc2b837b8
        3-4   release 650e9adfe7abce375a4efc2b837b8
        5-6   claim pay -> granted 640e9adfe7abcbd2c707bfb390cd8
        9     end claimed 640e9adfe7abcbd2c707bfb390cd8 of 640e9adfe7abcbd2c707bfb390cd8";

    C5 blind a_released_slot_is_claimed_with_a_fence_of_half_a_second_ago: "
        1-2   claim pay -> granted 650e9adfe7abce375a4efc2b837b8
        3-4   release 650e9adfe7abce375a4efc2b837b8
        5-6   claim pay -> granted 650e9adf6d99cbd2c707bfb390cd8
        9     end claimed 650e9adf6d99cbd2c707bfb390cd8 of 650e9adf6d99cbd2c707bfb390cd8";

    C5 blind a_probed_slot_is_claimed_with_a_lower_fence: "
        1-2   claim pay probed -> granted 650e9adfe7abce375a4efc2b837b8
        3-4   release 650e9adfe7abce375a4efc2b837b8
        5-6   claim pay probed -> granted 650e9adfe5794bd2c707bfb390cd8
        9     end claimed 650e9adfe5794bd2c707bfb390cd8 of 650e9adfe5794bd2c707bfb390cd8";

    C5 blind a_renewal_goes_back: "
        1-2   claim pay -> granted 5
        3-4   renew 5 fence 9
        5-6   renew 5 fence 7
        9     end claimed 5 of 5";

    C5 blind two_writes_share_a_fence: "
        1-2   claim pay -> granted 5
        3-4   renew 5 fence 9
        5     effect 5 receipt
        5-6   complete 5 receipt fence 9
        9     end completed receipt of 5";

    C5 refused two_grants_share_a_mark: "
        1-4   claim pay keyed -> granted 5
        2-3   claim pay keyed -> granted 5
        9     end claimed 5 of 5";

    C5 blind a_read_sees_an_older_fence: "
        1-2   claim pay -> granted 5
        3-4   renew 5 fence 9
        5-6   get -> claimed 5 of 5 fence 5
        9     end claimed 5 of 5";

    C5 refused an_answer_of_an_older_generation_is_replayed: "
        expect retention 5
        1-2   claim pay -> granted 1
        3     effect 1 first
        4-5   complete 1 first
        11-12 claim pay -> granted 9
        13-14 claim pay -> replayed first of 1
        15    end claimed 9 of 9";
}

// C6: only the owner of a slot writes to it, and only an owner executes.
bad! {
    C6 refused a_stale_holder_completes: "
        1-2   claim pay keyed -> granted 1
        3     effect 1 receipt
        4-5   claim pay keyed -> granted 2 of 1
        6-7   complete 1 receipt
        9     end completed receipt of 1";

    C6 refused a_completion_and_a_take_over_both_succeed: "
        1-2   claim pay keyed -> granted 1
        3     effect 1 receipt
        4-9   complete 1 receipt
        5-8   claim pay keyed -> granted 2 of 1
        10    end completed receipt of 1";

    C6 refused a_late_renewal_extends_anothers_lease: "
        1-2   claim pay keyed -> granted 1
        4-5   claim pay keyed -> granted 2 of 1
        6-7   renew 1
        9     end claimed 2 of 1";

    C6 refused a_stale_holder_releases_the_new_ones_claim: "
        1-2   claim pay keyed -> granted 1
        4-5   claim pay keyed -> granted 2 of 1
        6-7   release 1
        9     end absent";

    C6 refused a_stranger_completes: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 7 receipt
        9     end claimed 1 of 1";

    C6 refused a_released_claim_completes: "
        1-2   claim pay -> granted 1
        3-4   release 1
        5-6   complete 1 no-funds refused
        9     end absent";

    C6 refused a_release_and_a_completion_both_succeed: "
        1-2   claim pay -> granted 1
        3-6   release 1
        4-7   complete 1 no-funds refused
        9     end completed no-funds of 1";

    C6 refused a_completed_claim_is_renewed: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   renew 1
        9     end completed receipt of 1";

    C6 refused an_unknown_record_is_renewed: "
        1-2   claim pay -> granted 1
        3-4   get -> unknown 1 of 1
        5-6   renew 1
        9     end claimed 1 of 1";

    C6 blind an_abandoned_claim_is_released: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5-6   release 1 -> unknown
        9     end unknown 1 of 1";

    C6 refused an_opened_record_is_healed: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5-6   resolve open
        7     effect 1 receipt
        8-9   complete 1 receipt
        10    end completed receipt of 1";

    C6 refused an_old_generation_completes_in_a_new_one: "
        1-2   claim pay transactional -> granted 1
        3-4   claim pay transactional -> granted 2
        5     effect 1 receipt
        5-6   complete 1 receipt
        9     end claimed 2 of 2";

    C6 blind an_effect_without_a_claim: "
        1-2!  claim pay as 1
        3     effect 1 receipt
        9     end absent";

    C6 blind a_waiter_executes_without_a_claim: "
        1-2   claim pay -> granted 1
        3-4   claim pay -> busy
        5     effect 1 receipt
        6-7   complete 1 receipt
        8     effect 2 receipt @t/other
        9     end completed receipt of 1
        9     end absent @t/other";

    C6 blind an_effect_before_its_claim: "
        1     effect 2 receipt
        2-3   claim pay -> granted 2
        4-5   complete 2 receipt
        9     end completed receipt of 2";

    C6 refused a_completion_before_its_claim: "
        1-2   complete 5 no-funds refused
        3-4   claim pay as 5
        9     end completed no-funds of 5";

    C6 refused an_abandoned_claim_is_found_claimed: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        9     end claimed 1 of 1";

    C6 refused an_opened_record_is_found_unknown: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5-6   resolve open
        9     end unknown of 1";
}
