//! The upstream: takes payments as fast as it can, and counts how often each key reached it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::message::{self, Inbox};
use super::payment::{Answer, KEY_LEN, Name};
use crate::Failed;

/// Answer payments, and count them
///
/// Prints its address, then serves until its standard input ends. `GET /_count` tells how many
/// payments came and how many of them under a key that had come before; `POST /_reset` forgets.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// What reached the upstream since it was last told to forget.
#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    /// Requests under a key that had been seen before.
    repeated: u64,
    seen: HashSet<u64>,
}

/// What a request wants.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Pay([u8; KEY_LEN]),
    Count,
    Reset,
    Unknown,
}

// === impl Args ===

impl Args {
    pub(crate) fn run(&self) -> Result<(), Failed> {
        std::thread::spawn(|| {
            // Whoever started this holds the other end: no upstream outlives its bench.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind(self.listen).await?;
            let mut stdout = std::io::stdout();
            writeln!(stdout, "{}", listener.local_addr()?)?;
            stdout.flush()?;
            serve(listener).await
        })
    }
}

/// Serves every connection that `listener` accepts.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Failed> {
    let tally = Arc::new(Mutex::new(Tally::default()));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let tally = Arc::clone(&tally);
        tokio::spawn(async move {
            if let Err(error) = converse(stream, &tally).await {
                eprintln!("upstream: {error}");
            }
        });
    }
}

async fn converse(mut stream: TcpStream, tally: &Mutex<Tally>) -> Result<(), Failed> {
    let (mut inbox, mut answer) = (Inbox::new(), Answer::new());
    loop {
        let mut ask = Ask::Unknown;
        let parse = |bytes: &[u8]| {
            message::request(bytes, |method, path, fields| {
                ask = Ask::of(method, path, fields);
            })
        };
        let Some(frame) = inbox.next(&mut stream, parse).await? else {
            return Ok(());
        };
        inbox.take(frame);
        let counted = || tally.lock().unwrap_or_else(PoisonError::into_inner);
        match ask {
            Ask::Pay(key) => {
                counted().add(&key);
                stream.write_all(answer.bytes(&key)).await?;
            }
            Ask::Count => {
                let text = counted().to_string();
                stream.write_all(text.as_bytes()).await?;
            }
            Ask::Reset => {
                *counted() = Tally::default();
                stream.write_all(NO_CONTENT).await?;
            }
            Ask::Unknown => stream.write_all(NOT_FOUND).await?,
        }
    }
}

const NO_CONTENT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

// === impl Ask ===

impl Ask {
    fn of(method: &str, path: &str, fields: &[httparse::Header<'_>]) -> Self {
        match (method, path) {
            ("POST", "/payments") => match message::field(fields, "idempotency-key") {
                None => Self::Pay(Name::None.bytes()),
                Some(key) => key.try_into().map_or(Self::Unknown, Self::Pay),
            },
            ("GET", "/_count") => Self::Count,
            ("POST", "/_reset") => Self::Reset,
            _ => Self::Unknown,
        }
    }
}

// === impl Tally ===

impl Tally {
    fn add(&mut self, key: &[u8; KEY_LEN]) {
        self.requests += 1;
        if *key == Name::None.bytes() {
            return;
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            self.repeated += 1;
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            requests, repeated, ..
        } = self;
        let body = format!(r#"{{"requests":{requests},"repeated":{repeated}}}"#);
        let len = body.len();
        write!(f, "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{body}")
    }
}
