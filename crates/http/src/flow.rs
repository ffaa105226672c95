//! Answers that are passed on while they are recorded: streams, and what is too large to keep.
//!
//! The end of the message is withheld until the record is stored, so that no caller holds a
//! complete answer that is not. A reader that is slow or gone does not stop the recording.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use onceward::BoxError;
use onceward::bugs::{Bug, seeded};
use onceward::clock::{Clock as _, SystemClock};
use tokio::sync::{Semaphore, mpsc};

use crate::body::{Flowing, Piece};
use crate::read::Pieces;

/// The recording end of an answer that flows.
pub(crate) struct Flow<B> {
    /// What was read before it was known that the answer flows.
    first: Option<Pieces>,
    body: B,
    recorded: Recorded,
    trailers: Option<HeaderMap>,
    reader: Option<mpsc::UnboundedSender<Piece>>,
    /// How many bytes may wait for the reader.
    room: Arc<Semaphore>,
    /// How many bytes the head announced, and are not yet here.
    left: Option<u64>,
    /// The bytes that would end the message.
    withheld: Option<Bytes>,
    /// How long the origin may be silent.
    patience: Option<Duration>,
    /// How much longer the reader may hold things up.
    reader_patience: Duration,
}

/// What is known of a body that goes by: all of it, or how it can be recognised.
struct Recorded {
    kept: Option<Pieces>,
    limit: usize,
    len: u64,
    digest: blake3::Hasher,
}

/// How many bytes a message has of which `read` were read, if its body or its head says so.
/// Either way the message ends with its last byte.
pub(crate) fn announced(read: usize, headers: &HeaderMap, body: &impl Body) -> Option<u64> {
    let rest = body.size_hint().exact();
    let whole = rest.map(|rest| rest + read as u64);
    whole.or_else(|| length_in(headers))
}

fn length_in(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

// === impl Flow ===

impl<B> Flow<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    /// How many bytes wait for a slow reader at the most.
    const ROOM: usize = 1 << 20;

    /// What a piece weighs beside its bytes.
    const PIECE: usize = 256;

    /// How long a reader may hold things up, in all, before it is left behind.
    const READER_PATIENCE: Duration = Duration::from_secs(10);

    /// Starts an answer of `announced` bytes, of which `first` is read already. Bodies up to
    /// `limit` are kept.
    pub(crate) fn new(
        first: Pieces,
        body: B,
        announced: Option<u64>,
        limit: usize,
        patience: Option<Duration>,
    ) -> (Self, Flowing) {
        let (sender, frames) = mpsc::unbounded_channel();
        let flow = Self {
            first: Some(first),
            body,
            recorded: Recorded::new(limit),
            trailers: None,
            reader: Some(sender),
            room: Arc::new(Semaphore::new(Self::ROOM)),
            left: announced,
            withheld: None,
            patience,
            reader_patience: Self::READER_PATIENCE,
        };
        let flowing = Flowing {
            frames,
            left: announced,
            ended: false,
        };
        (flow, flowing)
    }

    /// Records the rest of the answer and passes it on, up to the end that is withheld.
    pub(crate) async fn run(&mut self) -> Result<(), BoxError> {
        if let Some(first) = self.first.take() {
            self.take_in(first.join()).await?;
        }
        while let Some(frame) = self.next().await? {
            match frame.into_data() {
                Ok(data) => self.take_in(data).await?,
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
        }
        match self.left {
            None | Some(0) => Ok(()),
            Some(_) => Err("the body is shorter than announced".into()),
        }
    }

    async fn take_in(&mut self, data: Bytes) -> Result<(), BoxError> {
        // An empty piece after the last byte must not take the place of what is withheld.
        if data.is_empty() {
            return Ok(());
        }
        self.recorded.add(&data);
        if let Some(data) = self.unless_last(data)? {
            self.pass_on(data).await;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Frame<Bytes>>, BoxError> {
        let next = match self.patience {
            Some(limit) => tokio::time::timeout(limit, self.body.frame()).await?,
            None => self.body.frame().await,
        };
        next.transpose().map_err(Into::into)
    }

    /// Returns the body as a record keeps it, and what followed it.
    pub(crate) fn recorded(&mut self) -> (onceward::Body, Option<HeaderMap>) {
        (self.recorded.finish(), self.trailers.clone())
    }

    /// Lets the message end: the record is stored.
    pub(crate) fn end(mut self) {
        if let Some(data) = self.withheld.take() {
            self.give(Piece::Frame(Frame::data(data), None));
        }
        if let Some(trailers) = self.trailers.take() {
            self.give(Piece::Frame(Frame::trailers(trailers), None));
        }
        self.give(Piece::End);
    }

    /// Keeps `data` back if it would end a message whose length was announced.
    fn unless_last(&mut self, data: Bytes) -> Result<Option<Bytes>, BoxError> {
        let Some(left) = &mut self.left else {
            return Ok(Some(data));
        };
        let rest = left.checked_sub(data.len() as u64);
        *left = rest.ok_or("the body is longer than announced")?;
        if *left > 0 || seeded(Bug::EndNotWithheld) {
            return Ok(Some(data));
        }
        self.withheld = Some(data);
        Ok(None)
    }

    async fn pass_on(&mut self, data: Bytes) {
        if self.reader.is_none() {
            return;
        }
        // A piece weighs more than its bytes, or a million small ones would not weigh much.
        let weight = (data.len() + Self::PIECE).min(Self::ROOM) as u32;
        let began = SystemClock.stopwatch();
        let room = self.room.clone().acquire_many_owned(weight);
        let room = tokio::time::timeout(self.reader_patience, room).await;
        let waited = SystemClock.stopwatch().saturating_sub(began);
        self.reader_patience = self.reader_patience.saturating_sub(waited);
        match room {
            Ok(Ok(room)) => self.give(Piece::Frame(Frame::data(data), Some(room))),
            // Its message is cut; a retry gets what is recorded.
            Ok(Err(_)) | Err(_) => self.reader = None,
        }
    }

    fn give(&mut self, piece: Piece) {
        if let Some(reader) = &self.reader
            && reader.send(piece).is_err()
        {
            self.reader = None;
        }
    }
}

// === impl Recorded ===

impl Recorded {
    fn new(limit: usize) -> Self {
        Self {
            kept: Some(Pieces::default()),
            limit,
            len: 0,
            digest: blake3::Hasher::new(),
        }
    }

    fn add(&mut self, data: &Bytes) {
        self.len += data.len() as u64;
        self.digest.update(data);
        if self.len > self.limit as u64 {
            self.kept = None;
        }
        if let Some(kept) = &mut self.kept {
            kept.push(data.clone());
        }
    }

    fn finish(&mut self) -> onceward::Body {
        match self.kept.take() {
            Some(kept) => onceward::Body::Kept(kept.join()),
            None => onceward::Body::NotKept {
                len: self.len,
                digest: *self.digest.finalize().as_bytes(),
            },
        }
    }
}
