//! The feed: what a connection and the body of a request under way tell each other.
//!
//! A body that did not come whole with its head is fetched while the service asks for it, and only
//! then. The connection's task alone reads from the socket. Mostly the body is polled in that same
//! task, which then needs nobody to wake it; but a service may hand the body to another one.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::{Mutex, MutexGuard};

use super::BoxError;
use crate::http1::decode::Decoder;

/// The connection's end. When it is dropped, a body that has not come to its end breaks off.
#[derive(Debug)]
pub(super) struct Feed {
    slot: Arc<Mutex<Slot>>,
    pub(super) decoder: Decoder,
    /// Whether the caller still waits for a word before it sends the body.
    pub(super) owes_word: bool,
    /// How many bytes were taken in for nobody while the answer waited.
    pub(super) drained: usize,
    is_broken: bool,
}

/// The body's end.
#[derive(Debug)]
pub(super) struct Fed {
    slot: Arc<Mutex<Slot>>,
}

#[derive(Default, Debug)]
struct Slot {
    frame: Option<Frame<Bytes>>,
    /// How many bytes are still to come, if that is known.
    left: Option<u64>,
    end: Option<End>,
    /// Whether the body was asked for a frame that was not there.
    is_wanted: bool,
    is_dropped: bool,
    /// Who waits for a frame.
    reader: Option<Waker>,
    /// Who fetches frames.
    driver: Option<Waker>,
}

/// How a body ended.
#[derive(Debug)]
enum End {
    Whole,
    /// The reason is told once.
    Broken(Option<BoxError>),
}

/// Makes both ends of a body that is still to come.
pub(super) fn pair(decoder: Decoder, owes_word: bool) -> (Feed, Fed) {
    let slot = Arc::new(Mutex::new(Slot {
        left: decoder.left(),
        ..Slot::default()
    }));
    let fed = Fed {
        slot: Arc::clone(&slot),
    };
    let feed = Feed {
        slot,
        decoder,
        owes_word,
        drained: 0,
        is_broken: false,
    };
    (feed, fed)
}

// === impl Feed ===

impl Feed {
    /// Whether the body waits for a frame. If not, the task is woken when it does.
    pub(super) fn is_wanted(&self, cx: &Context<'_>) -> bool {
        let mut slot = self.slot.lock();
        if slot.end.is_some() || slot.is_dropped {
            return false;
        }
        let (is_wanted, before) = (slot.is_wanted, remember(&mut slot.driver, cx));
        unlocked(slot, before, drop);
        is_wanted
    }

    /// Hands on a frame that was asked for.
    pub(super) fn give(&self, cx: &Context<'_>, frame: Frame<Bytes>) {
        let left = self.decoder.left();
        let is_last = left == Some(0) && frame.is_data();
        self.tell(cx, |slot| {
            slot.frame = Some(frame);
            slot.left = left;
            if is_last {
                slot.end = Some(End::Whole);
            }
        });
    }

    /// Says that the body is whole.
    pub(super) fn end(&self, cx: &Context<'_>) {
        self.tell(cx, |slot| slot.end = Some(End::Whole));
    }

    /// Says that the rest of the body will not come.
    pub(super) fn fail(&mut self, cx: &Context<'_>, error: impl Into<BoxError>) {
        self.is_broken = true;
        let end = End::Broken(Some(error.into()));
        self.tell(cx, |slot| slot.end = Some(end));
    }

    /// Tells the body something, and wakes whoever waits for it, unless it is in the task that is
    /// running.
    fn tell(&self, cx: &Context<'_>, what: impl FnOnce(&mut Slot)) {
        let mut slot = self.slot.lock();
        what(&mut slot);
        slot.is_wanted = false;
        let reader = slot.reader.take();
        unlocked(slot, reader, |reader| {
            if !reader.will_wake(cx.waker()) {
                reader.wake();
            }
        });
    }

    /// Whether the whole body has come off the connection.
    pub(super) fn is_over(&self) -> bool {
        !self.is_broken && self.decoder.is_at_end()
    }

    /// Whether the rest of the body may be read and forgotten: nobody asks for it any more.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_broken && self.slot.lock().is_dropped
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut slot = self.slot.lock();
        if slot.end.is_none() {
            slot.end = Some(End::Broken(Some("the connection is gone".into())));
        }
        let (driver, reader) = (slot.driver.take(), slot.reader.take());
        unlocked(slot, driver, drop);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

// === impl Fed ===

impl Fed {
    pub(super) fn poll_frame(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut slot = self.slot.lock();
        if let Some(frame) = slot.frame.take() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut slot.end {
            Some(End::Whole) => return Poll::Ready(None),
            Some(End::Broken(why)) => {
                let why = why.take();
                let error = why.unwrap_or_else(|| "the body broke off before".into());
                return Poll::Ready(Some(Err(error)));
            }
            None => {}
        }
        slot.is_wanted = true;
        let before = remember(&mut slot.reader, cx);
        // In the connection's own task it looks by itself after this.
        let driver = slot.driver.as_ref();
        let driver = driver
            .filter(|driver| !driver.will_wake(cx.waker()))
            .cloned();
        unlocked(slot, before, drop);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Pending
    }

    pub(super) fn is_at_end(&self) -> bool {
        let slot = self.slot.lock();
        slot.frame.is_none() && matches!(slot.end, Some(End::Whole))
    }

    /// How many bytes are still to come, if that is known.
    pub(super) fn left(&self) -> Option<u64> {
        let slot = self.slot.lock();
        let data = slot.frame.as_ref().and_then(Frame::data_ref);
        let waiting = data.map_or(0, |data| data.len() as u64);
        slot.left.map(|left| left + waiting)
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        let mut slot = self.slot.lock();
        slot.is_dropped = true;
        let reader = slot.reader.take();
        unlocked(slot, reader, drop);
    }
}

/// Leaves the current task's waker in `place`, and returns another one that was there.
fn remember(place: &mut Option<Waker>, cx: &Context<'_>) -> Option<Waker> {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => None,
        place => place.replace(cx.waker().clone()),
    }
}

/// Gives the slot free, and only then does `what` with a waker: it runs the code of whoever made
/// it, which may come here again.
fn unlocked(slot: MutexGuard<'_, Slot>, waker: Option<Waker>, what: impl FnOnce(Waker)) {
    drop(slot);
    if let Some(waker) = waker {
        what(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::http1::Limits;
    use crate::http1::decode::Length;
    use crate::server::Settings;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn task() -> (Arc<Woken>, Waker) {
        let woken = Arc::<Woken>::default();
        (Arc::clone(&woken), Waker::from(woken))
    }

    fn body(length: Length) -> (Feed, Fed) {
        let limits = Limits::of(&Settings::default());
        pair(Decoder::new(length, limits), false)
    }

    fn data(text: &'static str) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn nothing_is_fetched_before_it_is_asked_for() {
        let (feed, fed) = body(Length::Chunked);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(!feed.is_wanted(cx));
        assert!(fed.poll_frame(cx).is_pending());
        assert!(feed.is_wanted(cx));
        feed.give(cx, data("a"));
        assert!(!feed.is_wanted(cx));
        assert!(matches!(fed.poll_frame(cx), Poll::Ready(Some(Ok(_)))));
        assert!(!feed.is_wanted(cx));
    }

    #[test]
    fn whoever_waits_in_another_task_is_woken_and_nobody_else() {
        let (feed, fed) = body(Length::Chunked);
        let ((driver, near), (reader, far)) = (task(), task());
        let (near, far) = (
            &mut Context::from_waker(&near),
            &mut Context::from_waker(&far),
        );
        assert!(!feed.is_wanted(near));
        assert!(fed.poll_frame(far).is_pending());
        assert_eq!(driver.0.load(Ordering::Relaxed), 1);
        feed.give(near, data("a"));
        assert_eq!(reader.0.load(Ordering::Relaxed), 1);
        assert!(fed.poll_frame(near).is_ready());
        assert!(fed.poll_frame(near).is_pending());
        feed.end(near);
        assert_eq!(driver.0.load(Ordering::Relaxed), 1);
        assert!(matches!(fed.poll_frame(far), Poll::Ready(None)));
    }

    /// Somebody who looks at the body as soon as there is news, and before it leaves.
    struct Nosy(Arc<Fed>);

    impl Wake for Nosy {
        fn wake(self: Arc<Self>) {
            self.0.left();
        }
    }

    impl Drop for Nosy {
        fn drop(&mut self) {
            self.0.left();
        }
    }

    #[test]
    fn whoever_is_woken_or_forgotten_may_look_at_the_body() {
        let (feed, fed) = body(Length::Chunked);
        let fed = Arc::new(fed);
        let nosy = || Waker::from(Arc::new(Nosy(Arc::clone(&fed))));
        let near = &mut Context::from_waker(Waker::noop());
        for _ in 0..2 {
            // The second takes the place of the first.
            feed.is_wanted(&Context::from_waker(&nosy()));
            assert!(
                fed.poll_frame(&mut Context::from_waker(&nosy()))
                    .is_pending()
            );
        }
        feed.give(near, data("a"));
        assert!(fed.poll_frame(near).is_ready());
        assert!(
            fed.poll_frame(&mut Context::from_waker(&nosy()))
                .is_pending()
        );
        drop(feed);
        assert!(fed.poll_frame(near).is_ready());
    }

    #[test]
    fn a_body_whose_connection_is_gone_has_no_end() {
        let (feed, fed) = body(Length::Sized(5));
        let (reader, waker) = task();
        let cx = &mut Context::from_waker(&waker);
        assert!(fed.poll_frame(cx).is_pending());
        drop(feed);
        assert_eq!(reader.0.load(Ordering::Relaxed), 1);
        for _ in 0..2 {
            assert!(matches!(fed.poll_frame(cx), Poll::Ready(Some(Err(_)))));
        }
        assert!(!fed.is_at_end());
    }

    #[test]
    fn what_is_left_counts_what_was_fetched_and_not_taken() {
        let (mut feed, fed) = body(Length::Sized(5));
        let cx = &mut Context::from_waker(Waker::noop());
        assert_eq!(fed.left(), Some(5));
        feed.decoder.decode(b"hel").unwrap();
        feed.give(cx, data("hel"));
        assert_eq!(fed.left(), Some(5));
        assert!(fed.poll_frame(cx).is_ready());
        assert_eq!((fed.left(), fed.is_at_end()), (Some(2), false));
        feed.decoder.decode(b"lo").unwrap();
        feed.give(cx, data("lo"));
        assert!(!fed.is_at_end());
        assert!(fed.poll_frame(cx).is_ready());
        assert_eq!((fed.left(), fed.is_at_end()), (Some(0), true));
    }

    #[test]
    fn a_body_that_nobody_wants_any_more_is_not_fetched() {
        let (feed, fed) = body(Length::Chunked);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(fed.poll_frame(cx).is_pending());
        drop(fed);
        assert!(feed.is_idle() && !feed.is_wanted(cx));
    }
}
