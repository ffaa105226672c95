//! Holders that die, and replies that are lost.

good! {
    a_claim_whose_reply_was_lost_did_nothing: "
        1-    claim pay
        9     end absent";

    a_claim_whose_reply_was_lost_holds_the_slot: "
        1-    claim pay
        3-4   claim pay -> busy
        5-6   claim pay -> unknown
        9     end unknown 1 of 1";

    a_claim_may_land_long_after_its_caller_gave_up: "
        1-3?  claim pay
        4-5   get -> absent
        6-7   get -> claimed 1 of 1
        9     end claimed 1 of 1";

    a_take_over_inherits_the_number_of_a_claim_that_landed_late: "
        1-6   claim pay keyed -> granted 1
        2-3   claim pay keyed -> granted 2
        4-5   release 2
        7-8   claim pay keyed -> granted 3 of 1
        9     end claimed 3 of 1";

    a_process_died_after_the_effect_and_before_any_line: "
        1-    claim pay
        3     effect 1 receipt
        5-6   claim pay -> unknown
        9     end unknown 1";

    two_nameless_claims_and_one_of_them_executed: "
        1-    claim pay
        2-    claim pay
        3     effect 7 receipt
        9     end unknown 7";

    a_nameless_claim_is_told_by_the_payload_it_executed: "
        1-    claim pay
        2-    claim refund
        3     effect 7 receipt for refund
        5-6   claim pay -> mismatch
        9     end unknown 7";

    a_completion_whose_reply_was_lost_is_replayed: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-    complete 1 receipt
        6-7   claim pay -> replayed receipt of 1
        9     end completed receipt of 1";

    a_completion_whose_reply_was_lost_did_not_happen: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-    complete 1 receipt
        6-7   claim pay -> unknown
        9     end unknown 1 of 1";

    a_completion_may_land_after_the_unknown_answer: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-    complete 1 receipt
        6-7   claim pay -> unknown
        8-9   claim pay -> replayed receipt of 1
        10    end completed receipt of 1";

    a_completion_repeated_after_a_lost_reply_says_the_same: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5?  complete 1 receipt
        6-7   complete 1 receipt
        8-9   complete 1 receipt
        10    end completed receipt of 1";

    a_late_holder_heals_what_was_marked_unknown: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   claim pay -> unknown
        6-7   get -> unknown 1 of 1
        8-9   complete 1 receipt
        10    end completed receipt of 1";

    a_late_holder_heals_what_it_had_abandoned: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        5     effect 1 receipt
        6-7   complete 1 receipt
        10    end completed receipt of 1";

    an_abandoned_claim_stays_unknown: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   abandon 1
        6-7   claim pay -> unknown
        8-9   claim pay -> unknown
        10    end unknown 1 of 1";

    a_late_effect_lands_after_the_abandonment: "
        1-2   claim pay -> granted 1
        3-4   abandon 1
        8     effect 1 receipt
        10    end unknown 1 of 1";

    a_holder_that_fell_silent_is_found_claimed: "
        1-2   claim pay -> granted 1
        3-    renew 1
        9     end claimed 1 of 1";

    a_sweeper_marks_a_lapsed_claim: "
        1-2   claim pay -> granted 1
        5-6   sweep -> unknown
        7-8!  renew 1
        9     end unknown 1 of 1";

    a_renewal_beats_the_caller_who_saw_the_lease_lapse: "
        1-2   claim pay -> granted 1
        3-8   claim pay -> unknown
        4-9   renew 1
        10    effect 1 receipt
        11-12 complete 1 receipt
        13    end completed receipt of 1";

    a_release_whose_reply_was_lost_happened: "
        1-2   claim pay -> granted 1
        3-    release 1
        5-6   claim pay -> granted 2
        7     effect 2 receipt
        8-9   complete 2 receipt
        10    end completed receipt of 2";

    a_release_whose_reply_was_lost_did_not_happen: "
        1-2   claim pay -> granted 1
        3-    release 1
        5-6   claim pay -> unknown
        9     end unknown 1 of 1";

    a_delayed_claim_lands_after_a_release_with_a_lower_fence: "
        1-11  claim pay -> granted 1
        4-5   claim pay -> granted 2
        6-8   release 2
        12    effect 1 receipt
        13-14 complete 1 receipt
        15    end completed receipt of 1";

    a_failed_claim_leaves_no_trace: "
        1-2!  claim pay as 1
        3-4   claim pay -> granted 2
        5     effect 2 receipt
        6-7   complete 2 receipt
        9     end completed receipt of 2";

    a_process_died_and_a_new_generation_followed_an_unanswered_release: "
        1-    claim pay
        2     effect 1 receipt @t/other
        1-    claim pay @t/other
        4-5   claim pay -> granted 5
        6     effect 5 receipt
        7-    complete 5 receipt
        9     end claimed 5 of 5
        9     end unknown 1 @t/other";

    of_two_nameless_claims_either_may_have_been_the_first: "
        1-    claim pay keyed                  # lands as 2
        3-    resolve open
        4-5   claim pay keyed -> granted 4
        6-    claim pay keyed                  # lands as 7
        8-9   get -> claimed 7 of 4
        12    effect 2 receipt of 2
        13-14 get -> claimed 7 of 4
        15    end claimed 7 of 4";

    an_unknown_record_may_expire_where_the_route_says_so: "
        expect unknown-retention 10
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   abandon 1
        14-15 claim pay -> granted 9
        16    effect 9 second
        17-18 complete 9 second
        19    end completed second of 9";
}
