//! Couriers: tasks that wake callers where they are.
//!
//! Whoever wakes a task of another thread pays for it: a lock, and as often as not a system call,
//! for every single one. The writer answers hundreds at a time, so it leaves the wakers of one
//! runtime in a bag, and wakes the one task there that wakes them all. What wakes a task in its own
//! thread is next to nothing.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use tokio::runtime::{Handle, Id, RuntimeFlavor};

use crate::sync::Mutex;

/// The couriers of all runtimes from which somebody asked, until the store is closed.
#[derive(Debug)]
pub(super) struct Couriers {
    /// What tells them from those of other stores.
    number: u64,
    homes: Mutex<Option<Vec<Home>>>,
}

/// A runtime, and who wakes callers there.
#[derive(Debug)]
struct Home {
    runtime: Id,
    courier: Arc<Courier>,
}

/// Who is to be woken in one runtime.
#[derive(Default)]
pub(super) struct Courier(Mutex<Bag>);

#[derive(Default)]
struct Bag {
    callers: Vec<Waker>,
    /// Wakes the task that wakes them.
    task: Option<Waker>,
    /// There is no such task any more.
    is_over: bool,
}

/// The courier that a thread asked for last, so that it need not ask where all threads do.
struct Known {
    couriers: u64,
    runtime: Id,
    courier: Weak<Courier>,
}

thread_local! {
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// The task's hold on its courier: when it is gone, nobody is left who would wake anybody.
struct Round(Arc<Courier>);

// === impl Couriers ===

impl Couriers {
    /// The courier of the current runtime, if one is worth while there.
    ///
    /// Only a runtime with threads of its own has one. Others go on only while somebody drives
    /// them, and that may be the very caller who waits for its answer some other way.
    ///
    /// Nobody waits for the task: it ends with its runtime or with the store, whichever is first,
    /// and wakes who is left then. To wait for it could be to wait for one's own runtime.
    pub(super) fn here(&self) -> Option<Arc<Courier>> {
        let runtime = Handle::try_current().ok()?;
        if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        let id = runtime.id();
        if let Some(courier) = self.known(id) {
            return Some(courier);
        }
        let courier = self.at(&runtime)?;
        KNOWN.set(Some(Known {
            couriers: self.number,
            runtime: id,
            courier: Arc::downgrade(&courier),
        }));
        Some(courier)
    }

    /// The courier of a runtime, if this thread asked for it last. It may be over, and then wakes
    /// nobody later than it is told.
    fn known(&self, runtime: Id) -> Option<Arc<Courier>> {
        KNOWN.with_borrow(|known| {
            let known = known.as_ref()?;
            let is_it = (known.couriers, known.runtime) == (self.number, runtime);
            is_it.then(|| known.courier.upgrade())?
        })
    }

    /// The courier of a runtime, who begins if there is none yet.
    fn at(&self, runtime: &Handle) -> Option<Arc<Courier>> {
        let id = runtime.id();
        let mut homes = self.homes.lock();
        let homes = homes.as_mut()?;
        if let Some(home) = homes.iter().find(|home| home.runtime == id) {
            return Some(Arc::clone(&home.courier));
        }
        // Runtimes may come and go.
        homes.retain(|home| !home.courier.0.lock().is_over);
        let courier = Arc::<Courier>::default();
        runtime.spawn(Round(Arc::clone(&courier)).run());
        homes.push(Home {
            runtime: id,
            courier: Arc::clone(&courier),
        });
        Some(courier)
    }

    /// Ends all of them. Who still waits is woken directly.
    pub(super) fn end(&self) {
        let homes = self.homes.lock().take();
        for home in homes.into_iter().flatten() {
            home.courier.end();
        }
    }
}

impl Drop for Couriers {
    /// A writer that died has not ended them.
    fn drop(&mut self) {
        self.end();
    }
}

impl Default for Couriers {
    fn default() -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        Self {
            number: STORES.fetch_add(1, Ordering::Relaxed),
            homes: Mutex::new(Some(Vec::new())),
        }
    }
}

// === impl Courier ===

impl Courier {
    /// Has all of them woken.
    pub(super) fn rouse(&self, mut callers: Vec<Waker>) {
        let mut bag = self.0.lock();
        if bag.is_over {
            drop(bag);
            return callers.into_iter().for_each(Waker::wake);
        }
        match bag.callers.is_empty() {
            true => bag.callers = callers,
            false => bag.callers.append(&mut callers),
        }
        let task = bag.task.take();
        drop(bag);
        if let Some(task) = task {
            task.wake();
        }
    }

    fn end(&self) {
        let mut bag = self.0.lock();
        bag.is_over = true;
        let (callers, task) = (mem::take(&mut bag.callers), bag.task.take());
        drop(bag);
        callers.into_iter().chain(task).for_each(Waker::wake);
    }
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courier").finish_non_exhaustive()
    }
}

// === impl Round ===

impl Round {
    async fn run(self) {
        loop {
            let left = poll_fn(|cx| {
                let mut bag = self.0.0.lock();
                match (bag.callers.is_empty(), bag.is_over) {
                    (false, _) => Poll::Ready(Some(mem::take(&mut bag.callers))),
                    (true, true) => Poll::Ready(None),
                    (true, false) => {
                        bag.task = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            });
            match left.await {
                Some(callers) => callers.into_iter().for_each(Waker::wake),
                None => return,
            }
        }
    }
}

impl Drop for Round {
    /// A runtime that ends drops its tasks, and those who wait may be elsewhere.
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Wake;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// Tells on a channel that it was woken.
    struct Bell(Mutex<mpsc::Sender<usize>>, usize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.lock().send(self.1).unwrap();
        }
    }

    fn runtime() -> Runtime {
        Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap()
    }

    fn bells(count: usize) -> (Vec<Waker>, mpsc::Receiver<usize>) {
        let (rung, rings) = mpsc::channel();
        let bell = |n| Waker::from(Arc::new(Bell(Mutex::new(rung.clone()), n)));
        ((0..count).map(bell).collect(), rings)
    }

    #[test]
    fn everybody_who_was_left_is_woken() {
        let (couriers, runtime) = (Couriers::default(), runtime());
        let courier = runtime.block_on(async { couriers.here() }).unwrap();
        let (callers, rings) = bells(100);
        courier.rouse(callers);
        let woken: Vec<_> = rings.iter().collect();
        assert_eq!(woken, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn there_is_one_courier_to_a_runtime_with_threads_of_its_own() {
        let (couriers, one, other) = (Couriers::default(), runtime(), runtime());
        let first = one.block_on(async { couriers.here() }).unwrap();
        let again = one.block_on(async { couriers.here() }).unwrap();
        let elsewhere = other.block_on(async { couriers.here() }).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &elsewhere));
        let lone = Builder::new_current_thread().build().unwrap();
        assert!(lone.block_on(async { couriers.here() }).is_none());
        assert!(couriers.here().is_none());
    }

    #[test]
    fn the_courier_of_another_store_or_runtime_is_not_mistaken_for_this_one() {
        let (mine, other, runtime) = (Couriers::default(), Couriers::default(), runtime());
        let ask = |couriers: &Couriers| runtime.block_on(async { couriers.here() }).unwrap();
        let first = ask(&mine);
        let second = ask(&other);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first, &ask(&mine)) && Arc::ptr_eq(&second, &ask(&other)));
    }

    #[test]
    fn who_waits_elsewhere_is_woken_when_the_runtime_ends() {
        let (couriers, runtime) = (Couriers::default(), runtime());
        let courier = runtime.block_on(async { couriers.here() }).unwrap();
        let (early, before) = bells(1);
        courier.rouse(early);
        drop(runtime);
        let (late, after) = bells(1);
        courier.rouse(late);
        for rings in [before, after] {
            assert_eq!(rings.recv(), Ok(0));
        }
    }

    #[test]
    fn nobody_is_left_asleep_by_a_store_that_closes() {
        let (couriers, runtime) = (Couriers::default(), runtime());
        let courier = runtime.block_on(async { couriers.here() }).unwrap();
        let (callers, rings) = bells(1);
        courier.rouse(callers);
        couriers.end();
        assert_eq!(rings.recv(), Ok(0));
        // Whoever still knows of it is woken all the same.
        let (callers, rings) = bells(1);
        courier.rouse(callers);
        assert_eq!(rings.recv(), Ok(0));
        let elsewhere = std::thread::scope(|threads| {
            let ask = || runtime.block_on(async { couriers.here() });
            threads.spawn(ask).join().unwrap()
        });
        assert!(elsewhere.is_none());
    }
}
