//! What a scripted service does with a request.

use std::fmt::Write as _;

use tokio::sync::watch;

use crate::gateway::ask::chunk;

/// What to do once the head of a request is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Early {
    /// Read the rest.
    Read,
    /// Read half of the body and reset the connection.
    ResetHalfway,
    /// Reset the connection at once.
    Reset,
}

/// What to do with a request that came in full.
#[derive(Clone, Debug)]
pub enum Act {
    /// Answer it.
    Answer(Answer),
    /// Close the connection without a word.
    Vanish,
    /// Reset the connection without a word.
    Reset,
    /// Write the first bytes of an answer, head included, and close.
    Cut {
        /// The answer that is not written in full.
        answer: Answer,
        /// How many bytes of it are.
        after: usize,
    },
    /// Switch protocols, and from then on send back whatever comes.
    Echo,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    fields: String,
    payload: Payload,
    gate: Option<Gate>,
    interim: bool,
    pub(super) closes: bool,
}

/// The body of an answer, and how it is framed.
#[derive(Clone, Debug)]
pub enum Payload {
    /// None, and nothing said about it: for 204 and 304.
    None,
    /// With its length.
    Length(Vec<u8>),
    /// In chunks, with these field lines after them.
    Chunked(Vec<Vec<u8>>, String),
    /// To the end of the connection.
    UntilClose(Vec<u8>),
    /// In chunks, each written when the gate is opened once more, and the end after them.
    Paced(Vec<Vec<u8>>, Gate),
}

/// Something that waits until it is told.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<usize>);

// === impl Answer ===

impl Answer {
    /// An answer with a body of known length.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::with(status, Payload::Length(body.into()))
    }

    /// An answer with any body.
    pub fn with(status: u16, payload: Payload) -> Self {
        Self {
            status,
            fields: String::new(),
            payload,
            gate: None,
            interim: false,
            closes: false,
        }
    }

    /// What a service says that did something: 201, and a body that tells it from all others.
    pub fn receipt(number: usize) -> Self {
        Self::new(201, format!("receipt {number}")).field("Content-Type", "text/plain")
    }

    /// Adds a field line.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        write!(self.fields, "{name}: {value}\r\n").expect("a string takes all");
        self
    }

    /// Waits for the gate before the first byte.
    #[must_use]
    pub fn after(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Says something before it: a 103 with a `Link`.
    #[must_use]
    pub fn with_interim(mut self) -> Self {
        self.interim = true;
        self
    }

    /// Closes the connection behind it, and says so.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.closes = true;
        self.field("Connection", "close")
    }

    /// The pieces it is written in, each after one more opening of the gate beside it.
    pub(super) fn pieces(&self) -> Vec<(Option<&Gate>, Vec<u8>)> {
        let (framing, body, pace, end) = match &self.payload {
            Payload::None => (String::new(), vec![], None, vec![]),
            Payload::Length(body) => {
                let framing = format!("Content-Length: {}\r\n", body.len());
                (framing, vec![body.clone()], None, vec![])
            }
            Payload::UntilClose(body) => (String::new(), vec![body.clone()], None, vec![]),
            Payload::Chunked(pieces, trailers) => {
                let end = format!("0\r\n{trailers}\r\n").into_bytes();
                (
                    chunked(),
                    pieces.iter().map(|it| chunk(it)).collect(),
                    None,
                    end,
                )
            }
            Payload::Paced(pieces, gate) => {
                let pieces = pieces.iter().map(|it| chunk(it)).collect();
                (chunked(), pieces, Some(gate), b"0\r\n\r\n".to_vec())
            }
        };
        let Self { status, fields, .. } = self;
        let interim = match self.interim {
            true => "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n",
            false => "",
        };
        let head = format!("{interim}HTTP/1.1 {status} Said\r\n{fields}{framing}\r\n");
        let head = head.into_bytes();
        let mut all = vec![(self.gate.as_ref(), head)];
        all.extend(body.into_iter().map(|piece| (pace, piece)));
        all.push((pace, end));
        all
    }

    /// How many bytes it has, head included.
    pub fn wire_len(&self) -> usize {
        self.pieces().iter().map(|(_, piece)| piece.len()).sum()
    }

    /// Whether its end is that of the connection.
    pub(super) fn ends_connection(&self) -> bool {
        self.closes || matches!(self.payload, Payload::UntilClose(_))
    }
}

fn chunked() -> String {
    "Transfer-Encoding: chunked\r\n".into()
}

impl From<Answer> for Act {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

// === impl Gate ===

impl Gate {
    /// A gate that is closed.
    pub fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Lets one more pass.
    pub fn open_once(&self) {
        self.0.send_modify(|open| *open += 1);
    }

    /// Lets everybody pass from now on.
    pub fn open(&self) {
        self.0.send_replace(usize::MAX / 2);
    }

    /// Waits until it was opened `times` times.
    pub(super) async fn pass(&self, times: usize) {
        let mut changes = self.0.subscribe();
        // A gate that is gone stays as it is, and so does whoever waits for it.
        if changes.wait_for(|open| *open >= times).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
