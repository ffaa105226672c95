//! Take-overs and settlements.

good! {
    // The first sixteen digits are the store's time as two engines reckon it, 9 ms apart.
    a_released_slot_is_claimed_by_an_engine_whose_reckoning_is_behind: "
        1-2   claim pay -> granted 650e9adfe7abce375a4efc2b837b8
        3-4   release 650e9adfe7abce375a4efc2b837b8
        5-6   claim pay -> granted 650e9adfe5794bd2c707bfb390cd8
        9     end claimed 650e9adfe5794bd2c707bfb390cd8 of 650e9adfe5794bd2c707bfb390cd8";

    a_keyed_claim_is_taken_over_and_deduplicated: "
        1-2   claim pay keyed -> granted 1
        3     effect 1 receipt
        5-6   claim pay keyed -> granted 2 of 1
        7-8   complete 2 receipt
        9-10! complete 1 receipt -> replayed receipt of 1
        11    end completed receipt of 1";

    a_keyed_claim_is_taken_over_twice: "
        1-2   claim pay keyed -> granted 1
        3-4   claim pay keyed -> granted 2 of 1
        5-6!  renew 1
        5-6   claim pay keyed -> granted 3 of 1
        7     effect 2 receipt
        8-9   complete 3 receipt
        11    end completed receipt of 1";

    an_unanswered_take_over_is_itself_taken_over: "
        1-2   claim pay keyed -> granted 1
        3-    claim pay keyed as 2
        4     effect 2 receipt
        5-6   claim pay keyed -> granted 3 of 1
        7-8   complete 3 receipt
        9-10  claim pay keyed -> replayed receipt of 1
        11    end completed receipt of 1";

    a_later_attempt_that_releases_leaves_unknown: "
        1-2   claim pay keyed -> granted 1
        3-4   claim pay keyed -> granted 2 of 1
        5-6   release 2 -> unknown
        7-8   claim pay keyed -> granted 3 of 1
        9     effect 1 receipt
        10-11 complete 3 receipt
        12    end completed receipt of 1";

    a_keyed_service_answers_a_new_generation_from_its_memory: "
        expect retention 10
        1-2   claim pay keyed -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        20-21 claim pay keyed -> granted 9
        22-23 complete 9 receipt
        24    end completed receipt of 9";

    a_transactional_claim_that_lapsed_is_claimed_again: "
        1-2   claim pay transactional -> granted 1
        3-4   claim pay transactional -> granted 2
        5     effect 2 receipt
        5-6   complete 2 receipt
        7-8!  complete 1 receipt
        9     end completed receipt of 2";

    a_transactional_commit_whose_reply_was_lost_took_its_effect_along: "
        1-2   claim pay transactional -> granted 1
        4     effect 1 receipt
        4-    complete 1 receipt
        6-7   claim pay transactional -> replayed receipt of 1
        9     end completed receipt of 1";

    a_probe_finds_that_it_happened: "
        1-2   claim pay probed -> granted 1
        3     effect 1 receipt
        4-5   claim pay probed -> unknown
        6-7   resolve completed receipt probed
        9     end completed receipt of 1";

    a_probe_finds_that_it_did_not_happen: "
        1-2   claim pay probed -> granted 1
        4-5   abandon 1
        6-7   resolve open probed
        8-9   claim pay probed -> granted 2
        10    effect 2 receipt
        11-12 complete 2 receipt
        13    end completed receipt of 2";

    an_operator_settles_it_as_done_in_their_own_words: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   abandon 1
        6-7   resolve completed by-hand
        8-9   claim pay -> replayed by-hand of 1
        10    end completed by-hand of 1";

    an_operator_settles_it_as_done_though_nothing_happened: "
        1-2   claim pay -> granted 1
        4-5   abandon 1
        6-7   resolve completed written-off
        10    end completed written-off of 1";

    an_operator_opens_it_and_it_waits: "
        1-2   claim pay -> granted 1
        4-5   abandon 1
        6-7   resolve open
        8-9!  complete 1 receipt
        10    end open of 1";

    an_opened_slot_is_claimed_in_a_new_generation: "
        1-2   claim pay -> granted 1
        4-5   abandon 1
        6-7   resolve open
        8-9   claim pay -> granted 2
        10    effect 2 receipt
        11-12 complete 2 receipt
        13    end completed receipt of 2";

    an_opened_slot_is_claimed_in_the_same_generation: "
        1-2   claim pay -> granted 1
        4-5   abandon 1
        6-7   resolve open
        8-9   claim pay -> granted 2 of 1
        10    effect 2 receipt
        11-12 complete 2 receipt
        13    end completed receipt of 1";

    an_operators_reply_was_lost_and_the_slot_is_open: "
        1-2   claim pay -> granted 1
        4-5   abandon 1
        6-    resolve open
        8-9   claim pay -> granted 2
        10    effect 2 receipt
        11-12 complete 2 receipt
        13    end completed receipt of 2";

    an_effect_that_lands_after_the_operator_spoke_is_their_risk: "
        1-2   claim pay -> granted 1
        4-5   abandon 1
        6-7   resolve open
        8     effect 1 receipt
        10    end open of 1";

    a_route_that_allows_duplicates_has_them: "
        1-2   claim pay at-least-once -> granted 1
        3     effect 1 receipt
        4-5   claim pay at-least-once -> granted 2 of 1
        6     effect 2 receipt-2
        7-8   complete 2 receipt-2
        9     end completed receipt-2 of 1";

    a_late_completion_races_the_take_over_and_loses: "
        1-2   claim pay keyed -> granted 1
        3     effect 1 receipt
        5-9   claim pay keyed -> granted 2 of 1
        6-10! complete 1 receipt
        11-12 complete 2 receipt
        13    end completed receipt of 1";
}
