//! Small things under every order there is, weak memory included.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom::thread;
use onceward::clock::{Clock as _, GuardedClock};
use onceward::sync::Fences;
use onceward::testing::ManualClock;
use onceward::{Fence, Timestamp};

use crate::tally;

/// Runs `scenario` in every order. Fewer than `floor` would be of something that was made smaller.
fn exhaust(proof: &str, floor: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let orders = Arc::new(AtomicUsize::new(0));
    let count = orders.clone();
    loom::model(move || {
        count.fetch_add(1, Ordering::Relaxed);
        scenario();
    });
    let orders = orders.load(Ordering::Relaxed);
    println!("{proof}: {orders} orders, which are all");
    assert!(orders >= floor, "{proof}: only {orders} orders");
    tally::record(proof, orders, None, "exhaustive");
}

#[test]
fn fences_of_three_threads() {
    exhaust("loom: fences of three threads", 500, || {
        let fences = Arc::new(Fences::new());
        let mint = |time| {
            let fences = fences.clone();
            move || fences.next(None, Timestamp::from_micros(time))
        };
        let others = [mint(5), mint(7)].map(thread::spawn);
        let mine = mint(5)();
        let over = fences.next(Some(mine), Timestamp::ZERO);
        let [one, two] = others.map(|it| it.join().expect("no panic"));
        let mut times = [mine, over, one, two].map(|fence: Fence| fence.bits() >> 64);
        assert!(times[0] < times[1]);
        times.sort_unstable();
        assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
        // Whoever comes after them is above them all.
        let last = fences.next(None, Timestamp::ZERO).bits() >> 64;
        assert!(last > times[3], "{last} after {times:?}");
    });
}

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

fn guarded() -> (Arc<ManualClock>, Arc<GuardedClock>) {
    let clock = Arc::new(ManualClock::new());
    let guard = GuardedClock::new(clock.clone(), Timestamp::ZERO);
    (clock, Arc::new(guard))
}

#[test]
fn looks_at_the_clock_by_three_threads() {
    exhaust("loom: looks at the clock by three threads", 100, || {
        let (clock, guard) = guarded();
        let before = guard.now();
        clock.step_forward(DAY);
        clock.advance(SECOND);
        let look = || {
            let guard = guard.clone();
            thread::spawn(move || {
                let first = guard.now();
                let second = guard.now();
                assert!(first <= second, "it went back");
                second
            })
        };
        let seen = [look(), look()].map(|it| it.join().expect("no panic"));
        let now = guard.now();
        assert!(seen.iter().all(|seen| *seen <= now), "it went back");
        // A second was lived through, so a tenth of one was worked off: once, not once for each.
        assert_eq!(now.since(before), SECOND + SECOND / 10);
    });
}

#[test]
fn two_who_confirm_a_step_at_once_move_the_clock_once() {
    exhaust("loom: two confirm a step at once", 4, || {
        let (clock, guard) = guarded();
        clock.step_forward(DAY);
        clock.advance(SECOND);
        let other = {
            let guard = guard.clone();
            thread::spawn(move || guard.confirm())
        };
        let moved = guard.confirm();
        let moved = moved + other.join().expect("no panic");
        assert_eq!(guard.now(), clock.wall(), "ahead of the time of day");
        assert!(moved <= DAY, "a day was {moved:?}");
    });
}

#[test]
fn a_look_beside_a_confirmation_does_not_overshoot() {
    exhaust("loom: a look beside a confirmation", 9, || {
        let (clock, guard) = guarded();
        clock.step_forward(DAY);
        clock.advance(SECOND);
        let other = {
            let guard = guard.clone();
            thread::spawn(move || guard.now())
        };
        guard.confirm();
        other.join().expect("no panic");
        assert_eq!(guard.now(), clock.wall(), "ahead of the time of day");
    });
}
