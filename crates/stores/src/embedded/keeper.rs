//! The keeper of HEAD: a thread that renews it, at most once a second.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::head::Head;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex};

/// Renews HEAD in the background: writers only note what it should say.
#[derive(Debug)]
pub(super) struct Keeper {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Desk {
    note: Mutex<Note>,
    changed: Condvar,
}

#[derive(Debug)]
struct Note {
    head: Head,
    is_new: bool,
    is_urgent: bool,
    is_over: bool,
}

// === impl Keeper ===

impl Keeper {
    const EVERY: Duration = Duration::from_secs(1);

    /// Starts the thread. `head` is what HEAD says already.
    pub(super) fn start(folder: PathBuf, head: Head) -> std::io::Result<Self> {
        let desk = Arc::new(Desk {
            note: Mutex::new(Note {
                head,
                is_new: false,
                is_urgent: false,
                is_over: false,
            }),
            changed: Condvar::new(),
        });
        let thread = thread::Builder::new()
            .name("onceward-head".to_owned())
            .spawn({
                let desk = Arc::clone(&desk);
                move || desk.keep(&folder)
            })?;
        Ok(Self {
            desk,
            thread: Some(thread),
        })
    }

    /// Notes what HEAD should say.
    pub(super) fn note(&self, head: Head) {
        let mut note = self.desk.note.lock();
        note.head = head;
        // One that waits for its second to pass need not be woken.
        if !note.is_new {
            note.is_new = true;
            self.desk.changed.notify_one();
        }
    }

    /// Renews HEAD soon.
    pub(super) fn hurry(&self) {
        self.desk.note.lock().is_urgent = true;
        self.desk.changed.notify_one();
    }

    /// Stops renewing. Returns what HEAD should say.
    pub(super) fn stop(&mut self) -> Head {
        self.desk.note.lock().is_over = true;
        self.desk.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the keeper does not panic");
        }
        self.desk.note.lock().head
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}

// === impl Desk ===

impl Desk {
    fn keep(&self, folder: &std::path::Path) {
        let mut note = self.note.lock();
        loop {
            self.changed
                .wait_while(&mut note, |it| !it.is_new && !it.is_over);
            if note.is_over {
                return;
            }
            (note.is_new, note.is_urgent) = (false, false);
            let head = note.head;
            drop(note);
            if let Err(error) = head.write(folder) {
                // What HEAD says stays true: it is a lower bound.
                tracing::warn!(%error, "HEAD could not be renewed");
            }
            note = self.note.lock();
            self.changed.wait_while_for(
                &mut note,
                |it| !it.is_urgent && !it.is_over,
                Keeper::EVERY,
            );
        }
    }
}
