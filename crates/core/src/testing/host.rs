//! Processes of a simulation: they can be held up, and they can die.

use std::fmt;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The process that an engine lives in, as a simulation plays it.
pub trait Host: fmt::Debug + Send + Sync + 'static {
    /// Whether a task of the process may run now. One that is to wait is woken by the host.
    fn admit(&self, cx: &mut Context<'_>) -> Admission;

    /// A task of the process panicked.
    fn panicked(&self);
}

/// Whether a task may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may.
    Run,
    /// Not now: the process is held up.
    Wait,
    /// Never again: the process is gone, and the task with it.
    Gone,
}

/// A task of a process that can be held up and can die.
///
/// One whose process is gone is dropped and never ends: nobody is left to hear of it.
pub struct Hosted<F: Future> {
    host: Arc<dyn Host>,
    task: Option<Pin<Box<F>>>,
}

// === impl Hosted ===

impl<F: Future> Hosted<F> {
    /// Returns `task` as a task of `host`.
    pub fn new(host: Arc<dyn Host>, task: F) -> Self {
        let task = Some(Box::pin(task));
        Self { host, task }
    }
}

impl<F: Future> Future for Hosted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let admission = self.host.admit(cx);
        if admission == Admission::Gone {
            self.task = None;
        }
        let Some(task) = self.task.as_mut().filter(|_| admission == Admission::Run) else {
            return Poll::Pending;
        };
        let polled = panic::catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx)));
        polled.unwrap_or_else(|cause| {
            self.host.panicked();
            panic::resume_unwind(cause)
        })
    }
}

impl<F: Future> fmt::Debug for Hosted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosted")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

    use parking_lot::Mutex;

    use super::*;

    #[derive(Debug)]
    struct Gate {
        admission: Mutex<Admission>,
        panics: AtomicUsize,
    }

    impl Host for Gate {
        fn admit(&self, _: &mut Context<'_>) -> Admission {
            *self.admission.lock()
        }

        fn panicked(&self) {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn gate(admission: Admission) -> Arc<Gate> {
        Arc::new(Gate {
            admission: Mutex::new(admission),
            panics: AtomicUsize::new(0),
        })
    }

    fn poll<F: Future>(task: &mut Hosted<F>) -> Poll<F::Output> {
        Pin::new(task).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn a_task_runs_only_while_its_process_does() {
        let gate = gate(Admission::Wait);
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let mut task = Hosted::new(gate.clone(), async move {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert!(poll(&mut task).is_pending());
        assert_eq!(runs.load(Ordering::Relaxed), 0);

        *gate.admission.lock() = Admission::Run;
        assert!(poll(&mut task).is_ready());
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_task_whose_process_is_gone_is_dropped_and_never_ends() {
        let gate = gate(Admission::Gone);
        let held = Arc::new(());
        let inside = held.clone();
        let mut task = Hosted::new(gate.clone(), async move { drop(inside) });
        assert!(poll(&mut task).is_pending());
        assert_eq!(Arc::strong_count(&held), 1);

        *gate.admission.lock() = Admission::Run;
        assert!(poll(&mut task).is_pending());
    }

    #[test]
    fn a_panic_is_reported_and_goes_on() {
        let gate = gate(Admission::Run);
        // Without a message: nothing is to be printed.
        let work = async { panic::resume_unwind(Box::new("told to")) };
        let mut task: Hosted<_> = Hosted::new(gate.clone(), work);
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            let _: Poll<()> = poll(&mut task);
        }));
        assert!(caught.is_err());
        assert_eq!(gate.panics.load(Ordering::Relaxed), 1);
    }
}
