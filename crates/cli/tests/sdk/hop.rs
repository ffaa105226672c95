//! The network between an SDK and the gateway, where connections break on demand.

use std::{
    io::{Read as _, Write as _},
    mem,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

/// Longer than anything awaited here takes, also on a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// A hop that passes bytes on as they are.
pub(crate) struct Hop {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    traffic: Mutex<Traffic>,
    changed: Condvar,
}

/// What went through.
#[derive(Default)]
struct Traffic {
    requests: usize,
    statuses: Vec<u16>,
    /// Whether the next request is cut in its middle.
    cuts_request: bool,
    /// Whether the next answer is lost.
    loses_answer: bool,
    open: Vec<TcpStream>,
}

/// How much of some bytes gets through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passed {
    Whole,
    Half,
    Nothing,
}

// === impl Hop ===

impl Hop {
    /// Returns a new hop before `gateway`.
    pub(crate) fn before(gateway: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let inner = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                inner.join(client, TcpStream::connect(gateway).unwrap());
            }
        });
        Self { addr, shared }
    }

    /// Where an SDK is pointed at.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Loses the next answer: the gateway gives it, and the connection breaks instead.
    pub(crate) fn lose_next_answer(&self) {
        self.shared.traffic.lock().unwrap().loses_answer = true;
    }

    /// Passes on the first half of the next request, and breaks the connection.
    pub(crate) fn cut_next_request(&self) {
        self.shared.traffic.lock().unwrap().cuts_request = true;
    }

    /// Breaks every connection there is, on both sides.
    pub(crate) fn cut(&self) {
        for stream in self.shared.traffic.lock().unwrap().open.drain(..) {
            // Already broken is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How many requests went through.
    pub(crate) fn requests(&self) -> usize {
        self.shared.traffic.lock().unwrap().requests
    }

    /// The statuses of the answers, in their order.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        self.shared.traffic.lock().unwrap().statuses.clone()
    }

    /// Waits until so many requests went through.
    pub(crate) fn await_requests(&self, many: usize) -> Result<(), String> {
        self.wait(|traffic| traffic.requests >= many, "request")
    }

    /// Waits until there was an answer.
    pub(crate) fn await_answer(&self) -> Result<(), String> {
        self.wait(|traffic| !traffic.statuses.is_empty(), "answer")
    }

    fn wait(&self, seen: impl Fn(&Traffic) -> bool, what: &str) -> Result<(), String> {
        let traffic = self.shared.traffic.lock().unwrap();
        let unseen = |traffic: &mut Traffic| !seen(traffic);
        let changed = &self.shared.changed;
        let (_traffic, end) = changed
            .wait_timeout_while(traffic, SEEN_WITHIN, unseen)
            .unwrap();
        match end.timed_out() {
            true => Err(format!("no {what} came by")),
            false => Ok(()),
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Passes bytes on, both ways.
    fn join(self: &Arc<Self>, client: TcpStream, gateway: TcpStream) {
        let mut traffic = self.traffic.lock().unwrap();
        traffic.open.push(client.try_clone().unwrap());
        traffic.open.push(gateway.try_clone().unwrap());
        drop(traffic);
        let up = (client.try_clone().unwrap(), gateway.try_clone().unwrap());
        let inner = Arc::clone(self);
        thread::spawn(move || pump(up.0, up.1, |bytes| inner.request(bytes)));
        let inner = Arc::clone(self);
        thread::spawn(move || pump(gateway, client, |bytes| inner.answer(bytes)));
    }

    /// An SDK writes the head of a request in one piece, and waits for the answer to the last.
    fn request(&self, bytes: &[u8]) -> Passed {
        if !bytes.starts_with(b"POST ") {
            return Passed::Whole;
        }
        let mut traffic = self.traffic.lock().unwrap();
        traffic.requests += 1;
        self.changed.notify_all();
        match mem::take(&mut traffic.cuts_request) {
            true => Passed::Half,
            false => Passed::Whole,
        }
    }

    fn answer(&self, bytes: &[u8]) -> Passed {
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(12)]);
        let Some(status) = head.strip_prefix("HTTP/1.1 ") else {
            return Passed::Whole;
        };
        let mut traffic = self.traffic.lock().unwrap();
        traffic.statuses.push(status.parse().unwrap());
        self.changed.notify_all();
        match mem::take(&mut traffic.loses_answer) {
            true => Passed::Nothing,
            false => Passed::Whole,
        }
    }
}

/// Copies bytes until either side ends, or `passed` does not let all of them through.
fn pump(mut from: TcpStream, mut to: TcpStream, passed: impl Fn(&[u8]) -> Passed) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let passed = passed(&buffer[..len]);
        let through = match passed {
            Passed::Whole => len,
            Passed::Half => len / 2,
            Passed::Nothing => 0,
        };
        if to.write_all(&buffer[..through]).is_err() || passed != Passed::Whole {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
