//! The conformance suite: what every store does, said one sentence at a time.
//!
//! [`Store`]'s docs are the contract and this is its proof: each case is a function that panics
//! when the store it is given breaks the sentence in its name. A new store is one line,
//! [`conformance!`](crate::conformance), in its tests.
//!
//! A case expects a store of its own with no record in it. It runs on whatever clock the store
//! has: what must run out lasts a millisecond, and the case then waits for the store's own clock
//! to say that it has.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::Store;

mod ask;
mod contents;
mod crowds;
mod listing;
mod races;
mod recalling;
mod sweeping;
mod time;
mod watching;
mod writes;

pub use contents::*;
pub use crowds::*;
pub use listing::*;
pub use races::*;
pub use recalling::*;
pub use sweeping::*;
pub use time::*;
pub use watching::*;
pub use writes::*;

/// One sentence of the contract.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The sentence, as the function is named.
    pub name: &'static str,
    /// Tries an empty store, and panics if the sentence does not hold.
    pub run: for<'a> fn(&'a Arc<dyn Store>) -> BoxFuture<'a, ()>,
}

/// The whole suite, for those who run it in their own way.
pub const CASES: &[Case] = crate::__conformance_cases!(table());

/// What the expression in [`conformance!`](crate::conformance) may give: a store, shared or not,
/// alone or in a pair with whatever has to live as long as it does.
pub trait IntoStore {
    /// What has to live as long as the store: a directory, a server.
    type Guard;

    /// Takes the store apart from its guard.
    fn into_store(self) -> (Arc<dyn Store>, Self::Guard);
}

/// Holds a store to its contract: a module of tests, one for each case of the
/// [suite](crate::testing::conformance).
///
/// Takes a name for the module and an expression that gives an empty store. The expression is
/// evaluated anew for every case, within an async function, and sees what the place of the macro
/// sees. It gives a store, an `Arc` of one, or a pair of either and a guard; the guard is dropped
/// after the case's own hold on the store.
///
/// The crate needs `tokio` with the features `macros` and `rt-multi-thread`, and `onceward` with
/// `testing`, among its dev-dependencies.
///
/// ```
/// use onceward::{MemoryStore, conformance};
///
/// conformance!(memory, MemoryStore::new());
///
/// struct TempDir;
///
/// async fn open_in_a_fresh_directory() -> (MemoryStore, TempDir) {
///     (MemoryStore::new(), TempDir)
/// }
///
/// conformance!(embedded, open_in_a_fresh_directory().await);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance {
    ($name:ident, $store:expr $(,)?) => {
        mod $name {
            #[allow(unused_imports, clippy::wildcard_imports)]
            use super::*;

            $crate::__conformance_cases! { tests($store) }
        }
    };
}

/// The one list of all cases, made into tests or into a table.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    (@each tests ($store:expr) $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $case() {
            // Declared in this order so that the store goes before its guard, even in a panic.
            let _guard;
            let store;
            (store, _guard) = $crate::testing::conformance::IntoStore::into_store($store);
            $crate::testing::conformance::$case(&store).await;
        }
    )*};
    (@each table () $($case:ident)*) => {
        &[$($crate::testing::conformance::Case {
            name: stringify!($case),
            run: |store| Box::pin($crate::testing::conformance::$case(store)),
        }),*]
    };
    ($into:ident $with:tt) => {
        $crate::__conformance_cases! {
            @each $into $with
            a_store_says_what_it_is
            an_unused_slot_is_empty
            an_empty_slot_takes_a_record
            a_taken_slot_shows_its_record_and_keeps_it
            a_repeated_insert_is_shown_its_own_record
            the_fence_in_the_slot_lets_its_record_be_replaced
            a_stale_fence_replaces_nothing
            nothing_is_replaced_in_an_empty_slot
            the_fence_in_the_slot_lets_its_record_be_removed
            a_stale_fence_removes_nothing
            nothing_is_removed_from_an_empty_slot
            a_removed_record_does_not_come_back
            one_bit_tells_two_fences_apart
            a_fence_may_have_any_bits
            slots_one_bit_apart_hold_their_own_records
            a_dropped_write_happens_as_a_whole_or_not_at_all
            a_record_is_stamped_with_the_time_of_the_reply
            a_stamp_of_the_writer_is_ignored
            the_time_of_replies_never_goes_back
            a_late_insert_changes_nothing
            a_late_replacement_changes_nothing
            a_late_removal_changes_nothing
            a_late_write_is_late_whatever_it_saw
            a_write_on_time_happens
            an_expired_record_stays_until_it_is_swept
            a_lapsed_claim_stays_and_can_be_completed
            every_state_comes_back
            every_class_of_effect_comes_back
            an_empty_body_comes_back
            a_large_body_comes_back
            every_byte_comes_back
            a_body_that_was_not_kept_comes_back_as_such
            a_recovery_point_comes_back
            the_audit_trail_comes_back
            long_and_strange_scopes_come_back
            a_reason_comes_back
            every_span_comes_back
            an_empty_store_lists_nothing
            pages_of_any_size_list_every_record_once
            a_page_begins_after_the_slot_given
            the_first_and_the_last_slot_are_listed
            every_part_of_a_filter_has_to_hold
            records_can_be_listed_by_their_age
            a_replaced_record_is_listed_by_what_it_is_now
            a_removed_record_is_not_listed
            an_empty_store_has_nothing_to_sweep
            expired_records_are_removed
            a_horizon_in_the_future_counts_as_now
            what_has_no_end_is_never_removed
            a_lapsed_claim_is_reported_and_not_touched
            what_the_protocol_deals_with_is_reported_and_not_touched
            what_is_due_later_is_reported_later
            a_renewed_claim_is_not_reported
            a_lapsed_claim_is_reported_once_in_a_sweep
            a_horizon_in_the_past_spares_what_came_due_later
            a_record_kept_for_longer_is_not_removed
            a_slot_used_again_is_not_swept_for_its_former_record
            a_record_kept_for_less_is_removed_sooner
            small_steps_remove_everything_that_is_due
            small_steps_report_every_lapsed_claim
            only_a_completed_record_is_recalled
            a_replaced_answer_is_not_recalled
            an_answer_that_is_gone_is_not_recalled
            no_recall_is_behind_a_write
            an_insert_is_hinted_at
            a_replacement_is_hinted_at
            a_removal_is_hinted_at
            every_watcher_is_told
            a_watcher_that_does_not_listen_blocks_nobody
            one_of_many_inserts_wins
            one_of_many_replacements_wins
            a_record_is_replaced_or_removed_and_not_both
            no_write_is_lost
            a_reader_never_sees_a_slot_go_back
            clones_share_their_records
            many_slots_at_once_all_land
            what_stays_is_listed_once_while_others_come_and_go
            all_see_one_clock
            a_sweep_never_removes_what_was_just_kept
        }
    };
}

// === impl IntoStore ===

impl<S: Store> IntoStore for S {
    type Guard = ();

    fn into_store(self) -> (Arc<dyn Store>, ()) {
        (Arc::new(self), ())
    }
}

impl<S: Store> IntoStore for Arc<S> {
    type Guard = ();

    fn into_store(self) -> (Arc<dyn Store>, ()) {
        (self, ())
    }
}

impl IntoStore for Arc<dyn Store> {
    type Guard = ();

    fn into_store(self) -> (Self, ()) {
        (self, ())
    }
}

impl<S: IntoStore, G> IntoStore for (S, G) {
    type Guard = (S::Guard, G);

    fn into_store(self) -> (Arc<dyn Store>, Self::Guard) {
        let (store, inner) = self.0.into_store();
        (store, (inner, self.1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use std::sync::Arc;

    use super::{CASES, IntoStore};
    use crate::{MemoryStore, Store};

    #[test]
    fn a_store_comes_in_every_wrapping_and_with_its_guard() {
        let shared: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (store, ((), guard)) = (shared.clone(), "guard").into_store();
        assert!(Arc::ptr_eq(&store, &shared));
        assert_eq!(guard, "guard");
        let (store, ((), _)) = (MemoryStore::new(), "guard").into_store();
        assert_eq!(store.kind(), "memory");
        let (store, ()) = Arc::new(MemoryStore::new()).into_store();
        assert_eq!(store.kind(), "memory");
    }

    #[test]
    fn every_case_is_in_the_list() {
        let sources = [
            include_str!("conformance/contents.rs"),
            include_str!("conformance/crowds.rs"),
            include_str!("conformance/listing.rs"),
            include_str!("conformance/races.rs"),
            include_str!("conformance/recalling.rs"),
            include_str!("conformance/sweeping.rs"),
            include_str!("conformance/time.rs"),
            include_str!("conformance/watching.rs"),
            include_str!("conformance/writes.rs"),
        ];
        let named = sources.iter().flat_map(|source| {
            let functions = source
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "));
            functions.map(|rest| rest.split('(').next().unwrap())
        });
        let listed: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(listed.len(), CASES.len());
        assert_eq!(listed, named.collect());
    }
}
