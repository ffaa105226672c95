//! Callers: connections that pay one request after the other and check every answer.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::message::{self, Inbox};
use super::mix::{Ask, Mix, Script};
use super::payment::{Answer, Request};
use crate::Failed;
use crate::load::{Load, Watch};

/// A load to put on one listener.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) to: SocketAddr,
    /// Whether that listener replays, or passes every request on.
    pub(crate) replays: bool,
    pub(crate) mix: Mix,
    pub(crate) connections: usize,
    pub(crate) pace: Pace,
    /// How long it runs before it is measured.
    pub(crate) warm: Duration,
    /// How long it is measured.
    pub(crate) span: Duration,
    /// The most requests of each connection.
    pub(crate) each: u32,
    /// The number in the next new key.
    pub(crate) numbers: Arc<AtomicU64>,
}

/// When a connection sends its next request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// As soon as the last one is answered.
    Closed,
    /// So many per second over all connections, whatever the answers do.
    PerSecond(u32),
}

/// What came of an [`Order`].
#[derive(Debug)]
pub(crate) struct Turn {
    /// What was measured, without the warm-up.
    pub(crate) load: Load,
    /// Requests sent and answered, with the warm-up.
    pub(crate) asked: u64,
    /// Those of them that were not to be replays.
    pub(crate) executed: u64,
}

/// One connection.
#[derive(Debug)]
struct Line {
    stream: TcpStream,
    inbox: Inbox,
    request: Request,
    answer: Answer,
}

/// How much longer than planned a load may take.
const PATIENCE: Duration = Duration::from_secs(30);

// === impl Order ===

impl Order {
    /// How many threads the callers share. One is busy all the time before a gateway that replays
    /// is: what it could ask for would be measured, and not what is answered.
    const THREADS: usize = 2;

    /// Puts the load on, from threads of its own.
    ///
    /// # Errors
    ///
    /// Returns an error for the first answer that is not the one expected.
    pub(crate) async fn run(self) -> Result<Turn, Failed> {
        let all_open = Arc::new(Barrier::new(Self::THREADS));
        let threads = (0..Self::THREADS).map(|nth| {
            let (order, all_open) = (self.clone(), Arc::clone(&all_open));
            let callers = (nth..self.connections).step_by(Self::THREADS);
            let (done, ended) = oneshot::channel();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let turn = match runtime {
                    Ok(runtime) => runtime.block_on(order.run_here(callers, &all_open)),
                    Err(error) => Err(error.into()),
                };
                // Nobody is there to read it when the bench was interrupted.
                let _ = done.send(turn);
            });
            ended
        });
        let mut whole = Turn::empty();
        for ended in threads.collect::<Vec<_>>() {
            let turn = ended
                .await
                .map_err(|_| "a thread of callers ended early")??;
            whole.add(&turn);
        }
        whole.load.rate = whole.load.latency.len() as f64 / self.span.as_secs_f64();
        Ok(whole)
    }

    async fn run_here(
        self,
        callers: impl Iterator<Item = usize>,
        all_open: &Barrier,
    ) -> Result<Turn, Failed> {
        let mut lines = Vec::new();
        for caller in callers {
            lines.push((caller, Line::open(self.to, self.mix.is_keyed()).await?));
        }
        timeout(PATIENCE, all_open.wait())
            .await
            .map_err(|_| "not all callers could connect")?;
        let start = Watch::start();
        let mut callers = JoinSet::new();
        // One for all, because a histogram each would not fit into the processor's caches.
        let turn = Arc::new(Mutex::new(Turn::empty()));
        for (caller, line) in lines {
            let turn = Arc::clone(&turn);
            callers.spawn(self.clone().keep_busy(caller, line, start, turn));
        }
        let all = async {
            while let Some(one) = callers.join_next().await {
                one??;
            }
            Ok::<_, Failed>(())
        };
        match timeout(self.end() + PATIENCE, all).await {
            Ok(ended) => ended?,
            Err(_) => return Err(format!("{} stopped answering", self.to).into()),
        }
        let turn = Arc::into_inner(turn).expect("all callers ended");
        Ok(turn.into_inner().expect("no caller panicked"))
    }

    /// Returns when the load ends, from its start.
    fn end(&self) -> Duration {
        self.warm.saturating_add(self.span)
    }

    async fn keep_busy(
        self,
        caller: usize,
        mut line: Line,
        start: Watch,
        turn: Arc<Mutex<Turn>>,
    ) -> Result<(), Failed> {
        let mut script = Script::new(self.mix.clone(), Arc::clone(&self.numbers), caller);
        for nth in 0..self.each {
            let free = start.elapsed();
            let due = self.due(caller, nth);
            // By when it is due: to leave out the ones that are late would flatter.
            if due.unwrap_or(free) >= self.end() {
                break;
            }
            let begun = match due {
                None => free,
                Some(due) => {
                    if let Some(early) = due.checked_sub(free) {
                        sleep(early).await;
                    }
                    counts_from(due, free, start.elapsed())
                }
            };
            let ask = script.next();
            line.ask(ask, self.replays).await?;
            let done = start.elapsed();
            let mut turn = turn.lock().expect("no caller panicked");
            turn.asked += 1;
            turn.executed += u64::from(!(self.replays && ask.again));
            let measured = match self.pace {
                Pace::Closed => self.warm <= done && done < self.end(),
                Pace::PerSecond(_) => self.warm <= begun,
            };
            if measured {
                turn.load.record(done.saturating_sub(begun));
            }
        }
        Ok(())
    }

    /// Returns when a caller's nth request is due, from the start of the load.
    fn due(&self, caller: usize, nth: u32) -> Option<Duration> {
        let Pace::PerSecond(rate) = self.pace else {
            return None;
        };
        let place = nth as f64 * self.connections as f64 + caller as f64;
        Some(Duration::from_secs_f64(place / f64::from(rate)))
    }
}

/// Returns since when a request counts that was due at `due`, on a connection that was free at
/// `free`, and is sent at `now`.
fn counts_from(due: Duration, free: Duration, now: Duration) -> Duration {
    match free > due {
        // The last answer was late: what that one keeps waiting counts as well.
        true => due,
        // How late a timer rings is this program's fault, and does not count.
        false => now,
    }
}

// === impl Turn ===

impl Turn {
    fn empty() -> Self {
        Self {
            load: Load::empty(),
            asked: 0,
            executed: 0,
        }
    }

    /// Adds what came of another part of the same load.
    fn add(&mut self, other: &Self) {
        self.load.add(&other.load);
        self.asked += other.asked;
        self.executed += other.executed;
    }
}

// === impl Line ===

impl Line {
    async fn open(to: SocketAddr, keyed: bool) -> Result<Self, Failed> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            inbox: Inbox::new(),
            request: Request::new(keyed),
            answer: Answer::new(),
        })
    }

    /// Sends one request and checks its answer.
    async fn ask(&mut self, ask: Ask, replays: bool) -> Result<(), Failed> {
        let bytes = self.request.bytes(ask.name);
        self.stream.write_all(bytes).await?;
        let (mut status, mut replayed) = (0, false);
        let parse = |bytes: &[u8]| {
            message::answer(bytes, |code, fields| {
                status = code;
                replayed = message::field(fields, "idempotent-replayed") == Some(b"true");
            })
        };
        let Some(frame) = self.inbox.next(&mut self.stream, parse).await? else {
            return Err(format!("the connection ended instead of an answer to {ask:?}").into());
        };
        let body = self.answer.body(&ask.name.bytes());
        let right =
            status == 200 && replayed == (replays && ask.again) && self.inbox.body(frame) == body;
        if !right {
            let (head, body) = (self.inbox.head(frame), self.inbox.body(frame));
            let (head, body) = (head.escape_ascii(), body.escape_ascii());
            return Err(format!("{ask:?} got a wrong answer: {head}{body}").into());
        }
        self.inbox.take(frame);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, counts_from};

    #[test]
    fn request_behind_a_late_answer_counts_from_when_it_was_due() {
        let [early, due, late] = [10, 20, 90].map(Duration::from_millis);
        assert_eq!(counts_from(due, late, late), due);
        assert_eq!(counts_from(due, early, due), due);
    }

    #[test]
    fn timer_that_rings_late_does_not_count() {
        let [early, due, rang] = [10, 20, 21].map(Duration::from_millis);
        assert_eq!(counts_from(due, early, rang), rang);
    }
}
