use std::collections::VecDeque;

use http_body_util::BodyExt as _;

use super::*;

/// A body whose pieces come after so many milliseconds each.
struct Drip {
    pieces: VecDeque<(u64, usize)>,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Drip {
    fn new(pieces: impl IntoIterator<Item = (u64, usize)>) -> Self {
        Self {
            pieces: pieces.into_iter().collect(),
            wait: None,
        }
    }
}

impl Body for Drip {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(&(millis, len)) = self.pieces.front() else {
            return Poll::Ready(None);
        };
        if millis > 0 {
            let wait = self
                .wait
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_millis(millis))));
            ready!(wait.as_mut().poll(cx));
        }
        self.wait = None;
        self.pieces.pop_front();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; len])))))
    }
}

/// How much of `body` came, and how that ended.
async fn receive(body: Drip) -> (usize, Result<(), ReceiveError>) {
    let mut body = Received::new(body, &Settings::default());
    let mut len = 0;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => len += frame.into_data().map_or(0, |data| data.len()),
            Err(error) => return (len, Err(error)),
        }
    }
    (len, Ok(()))
}

#[tokio::test(start_paused = true)]
async fn a_body_at_the_slowest_pace_comes_through() {
    let (len, end) = receive(Drip::new((0..100).map(|_| (1_000, 1_100)))).await;
    assert!(end.is_ok());
    assert_eq!(len, 110_000);
}

#[tokio::test(start_paused = true)]
async fn a_body_below_the_slowest_pace_is_too_slow() {
    let (len, end) = receive(Drip::new((0..100).map(|_| (1_000, 10)))).await;
    assert!(matches!(end, Err(ReceiveError::TooSlow)));
    assert!((90..=110).contains(&len), "{len}");
}

#[tokio::test(start_paused = true)]
async fn a_long_lead_buys_no_more_than_the_grace() {
    let (len, end) = receive(Drip::new([(1, 1 << 24), (20_001, 1)])).await;
    assert!(matches!(end, Err(ReceiveError::TooSlow)));
    assert_eq!(len, 1 << 24);
    let (_, end) = receive(Drip::new([(1, 1 << 24), (19_000, 1)])).await;
    assert!(end.is_ok());
}

#[tokio::test(start_paused = true)]
async fn time_in_which_nobody_reads_is_not_the_senders() {
    let mut body = Received::new(Drip::new([(1, 10), (1, 10), (1, 10)]), &Settings::default());
    for _ in 0..3 {
        assert!(body.frame().await.unwrap().is_ok());
        tokio::time::advance(Duration::from_secs(3_600)).await;
    }
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_body_that_is_there_costs_no_timer() {
    let mut body = Received::new(Drip::new([(0, 10), (0, 10)]), &Settings::default());
    while let Some(frame) = body.frame().await {
        frame.unwrap();
    }
    assert!(body.pace.sleep.is_none());
}
