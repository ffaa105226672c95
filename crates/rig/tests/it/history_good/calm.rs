//! What happens without faults.

good! {
    a_retry_gets_the_first_answer: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   claim pay -> replayed receipt of 1
        9     end completed receipt of 1";

    a_rival_is_told_to_wait: "
        1-4   claim pay -> granted 1
        2-5   claim pay -> busy
        6     effect 1 receipt
        7-8   complete 1 receipt
        9     end completed receipt of 1";

    a_rival_that_waits_gets_the_answer: "
        1-2   claim pay -> granted 1
        2-9   claim pay -> replayed receipt
        3     effect 1 receipt
        4-8   complete 1 receipt
        10    end completed receipt";

    another_payload_mismatches_in_every_state: "
        1-2   claim pay -> granted 1
        3-4   claim steal -> mismatch
        5     effect 1 receipt
        6-7   complete 1 receipt
        8-9   claim steal -> mismatch
        10    end completed receipt";

    a_renewed_claim_completes: "
        1-2   claim pay -> granted 1
        3-4   renew 1 fence 2
        5-6   renew 1 fence 3
        7     effect 1 receipt
        8-9   complete 1 receipt fence 4
        10    end completed receipt";

    a_released_slot_is_claimed_in_a_new_generation: "
        1-2   claim pay -> granted 1
        3-4   release 1
        5-6   claim pay -> granted 2
        7     effect 2 receipt
        8-9   complete 2 receipt
        10    end completed receipt of 2";

    a_released_slot_may_be_claimed_with_another_payload: "
        1-2   claim pay -> granted 1
        3-4   release 1
        5-6   claim refund -> granted 2
        7     effect 2 receipt for refund
        8-9   complete 2 receipt
        10    end completed receipt of 2";

    a_released_slot_is_empty: "
        1-2   claim pay -> granted 1
        3-4   release 1
        5-6   get -> absent
        9     end absent";

    a_definite_refusal_is_an_outcome_without_an_effect: "
        1-2   claim pay -> granted 1
        3-4   complete 1 no-funds refused
        5-6   claim pay -> replayed no-funds
        9     end completed no-funds";

    an_answer_too_large_to_keep_has_no_hash: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   claim pay -> replayed
        9     end completed of 1";

    an_expired_outcome_makes_room_for_a_new_generation: "
        expect retention 10
        1-2   claim pay -> granted 1
        3     effect 1 first
        4-5   complete 1 first
        14-15 get -> absent
        16-17 claim pay -> granted 10
        18    effect 10 second
        19-20 complete 10 second
        21-22 claim pay -> replayed second of 10
        23    end completed second of 10";

    an_expired_outcome_may_be_swept: "
        expect retention 10
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        20-21 sweep -> absent
        30    end absent";

    a_clock_that_runs_ahead_within_its_slack_may_expire_early: "
        expect retention 10
        expect slack 2
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        12-13 get -> absent
        30    end absent";

    equal_keys_of_two_tenants_are_two_slots: "
        expect canary a rosebud
        expect canary b xanadu!
        1-2   claim pay @a/k -> granted 1
        1-2   claim pay @b/k -> granted 2
        3     effect 1 receipt @a/k
        3     effect 2 other @b/k
        4-5   complete 1 receipt @a/k
        4-5   complete 2 other @b/k
        6-7   claim pay @a/k -> replayed receipt body {rosebud}
        6-7   claim pay @b/k -> replayed other body {xanadu!}
        9     end completed receipt @a/k
        9     end completed other @b/k";

    a_run_may_be_seen_from_outside: "
        expect black-box
        1-5   claim pay -> replayed receipt
        2-6   claim pay -> replayed receipt
        3     effect a1 receipt
        7-    claim pay
        9     end completed receipt";

    whoever_is_told_nothing_may_have_come_after_the_answer: "
        expect black-box
        1-3   claim pay -> replayed receipt
        2     effect a1 receipt
        4-    claim pay
        9     end completed receipt of a1";

    the_systems_own_counts_add_up: "
        expect total t grants 3
        expect total t take-overs 1
        expect total t completed 1
        expect total t unknown 1
        1-2   claim pay keyed @t/a -> granted 1
        3-4   claim pay keyed @t/a -> granted 2 of 1
        5     effect 2 receipt @t/a
        6-7   complete 2 receipt @t/a
        1-2   claim pay @t/b -> granted 3
        3-4   abandon 3 @t/b
        9     end completed receipt of 1 @t/a
        9     end unknown 3 @t/b";
}

// Messages.
good! {
    a_message_is_acknowledged_after_its_outcome: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-5   complete 1 receipt
        6-7   ack
        9     end completed receipt of 1";

    a_redelivery_is_acknowledged_after_the_replay: "
        1-2   claim pay -> granted 1
        3     effect 1 receipt
        4-    complete 1 receipt
        6-7   claim pay -> replayed receipt of 1
        8-    ack
        9     end completed receipt of 1";

    a_message_of_unknown_outcome_is_parked: "
        1-2   claim pay -> granted 1
        3-    complete 1 receipt
        4-5   claim pay -> unknown
        6-7   ack parked
        9     end unknown 1 of 1";

    a_message_that_mismatches_is_parked: "
        1-2   claim pay -> granted 1
        3-4   claim other -> mismatch
        5-6   ack parked
        9     end claimed 1 of 1";
}
