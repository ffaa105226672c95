//! Callers: they ask under a key until they know, on whatever gateway answers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::{sleep, timeout};
use turmoil::net::TcpStream;

use crate::frayed::{Fray, Frayed};
use crate::notes::Notes;
use crate::plan::{Class, Plan};

/// What callers share.
pub(crate) struct Street {
    pub(crate) notes: Arc<Notes>,
    pub(crate) gateways: usize,
    pub(crate) answers: RefCell<Vec<Seen>>,
    /// When faults ended.
    pub(crate) healed: Cell<Option<Duration>>,
    /// The longest time from then to an answer.
    pub(crate) slowest: Cell<Duration>,
    /// Whether callers hang up, and ask for other things under the same key.
    pub(crate) rude: bool,
}

/// Somebody who wants one piece of work done.
pub(crate) struct Caller {
    pub(crate) street: Rc<Street>,
    pub(crate) number: usize,
    pub(crate) key: String,
    pub(crate) class: Class,
    pub(crate) payload: String,
    pub(crate) rng: RefCell<Rng>,
}

/// An answer, and who saw it when.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) key: String,
    pub(crate) class: Class,
    pub(crate) payload: String,
    pub(crate) caller: usize,
    pub(crate) said: Said,
    /// When it was asked for and when it came, as histories count time.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// When it came, since the run began.
    pub(crate) at: Duration,
    /// The payload is not what the key was used for before.
    pub(crate) cheats: bool,
}

/// What an answer says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    /// It is final, from the service behind.
    Final {
        status: u16,
        body: String,
        replayed: bool,
    },
    /// Nobody knows.
    Unknown,
    /// The key is used for something else.
    Mismatch,
    /// Something for now.
    Later(u16),
}

// === impl Caller ===

impl Caller {
    /// How long after the faults everything has to be answered: a lease, and what it takes to
    /// notice that a connection or the store's answer is lost.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(12);

    pub(crate) const PORT: u16 = 8080;

    /// How long a patient caller waits for an answer.
    const WITHIN: Duration = Duration::from_secs(8);

    /// How many keys one caller comes to use.
    const ROUNDS_MAX: usize = 6;

    /// Asks under one key after the other while there are faults, and then once more under all of
    /// them, until the answers are final.
    pub(crate) async fn work(self: Rc<Self>) {
        let mut rounds = vec![self.round(0)];
        self.pause(0..800).await;
        while self.street.healed.get().is_none() {
            let number = rounds.len();
            let round = rounds[number - 1].clone();
            if self.street.rude && self.chance(4) {
                // Twice at the same time.
                self.street.notes.fault("caller: duplicates side by side");
                tokio::join!(round.clone().ask_rudely(), round.clone().ask_rudely());
            } else {
                round.clone().ask_rudely().await;
            }
            self.pause(20..600).await;
            if round.has_answer() && number < Self::ROUNDS_MAX && self.chance(2) {
                rounds.push(self.round(number));
            }
        }
        join_all(rounds.iter().map(|round| round.insist())).await;
        for round in rounds {
            for cheats in [false, self.street.rude && self.chance(3)] {
                let (gateway, fray) = (self.gateway(), Fray::default());
                round.ask(gateway, fray, Self::WITHIN, cheats).await;
            }
        }
    }

    /// The same caller under its next key.
    fn round(&self, number: usize) -> Rc<Self> {
        Rc::new(Self {
            street: self.street.clone(),
            number: self.number,
            key: format!("{}.{number}", self.key),
            class: self.class,
            payload: self.payload.clone(),
            rng: RefCell::new(self.rng.borrow_mut().fork()),
        })
    }

    /// Asks until there is an answer to rely on.
    async fn insist(&self) {
        let healed = self.street.healed.get().unwrap_or_default();
        loop {
            let said = self
                .ask(
                    self.gateway(),
                    Fray::default(),
                    Duration::from_secs(8),
                    false,
                )
                .await;
            let is_settled = match said {
                Some(Said::Final { .. } | Said::Mismatch) => true,
                // Where the service can tell, a retry finds out.
                Some(Said::Unknown) => self.class == Class::Opaque,
                Some(Said::Later(_)) | None => false,
            };
            let now = self.street.notes.now();
            let slowest = self.street.slowest.get().max(now - healed);
            self.street.slowest.set(slowest);
            if is_settled {
                return;
            }
            if now > healed + Self::PATIENCE {
                let what = format!(
                    "{} has no answer {:?} after the faults",
                    self.key,
                    now - healed
                );
                return self.street.notes.broken(what);
            }
            self.pause(50..300).await;
        }
    }

    /// Asks as a caller does that may hang up, lose patience, or cheat.
    async fn ask_rudely(self: Rc<Self>) {
        let rude = self.street.rude;
        let notes = &self.street.notes;
        let mut within = Self::WITHIN;
        let mut fray = Fray::default();
        let mut cheats = false;
        if rude {
            fray.http2 = self.chance(3);
            let lot = self.rng.borrow_mut().u8(0..14);
            match lot {
                0 | 1 => {
                    notes.fault("caller: hangs up while sending");
                    fray.writes = self.rng.borrow_mut().usize(1..200);
                }
                2 | 3 => {
                    notes.fault("caller: hangs up while reading");
                    fray.reads = self.rng.borrow_mut().usize(0..200);
                }
                4..7 => {
                    notes.fault("caller: loses patience");
                    within = Duration::from_millis(self.rng.borrow_mut().u64(20..1_500));
                }
                7 if self.is_settled() => {
                    notes.fault("caller: other payload");
                    cheats = true;
                }
                8..10 => {
                    notes.fault("caller: resets");
                    fray.deaf = true;
                    fray.http2 = false;
                    within = Duration::from_millis(self.rng.borrow_mut().u64(20..1_500));
                }
                _ => {}
            }
        }
        self.ask(self.gateway(), fray, within, cheats).await;
    }

    /// Whether somebody has a final answer to this very payload.
    fn is_settled(&self) -> bool {
        self.has_seen(|said| matches!(said, Said::Final { .. }))
    }

    /// Whether there is nothing new to hear, for now.
    fn has_answer(&self) -> bool {
        self.has_seen(|said| !matches!(said, Said::Later(_)))
    }

    fn has_seen(&self, what: impl Fn(&Said) -> bool) -> bool {
        let answers = self.street.answers.borrow();
        let own = |seen: &&Seen| seen.key == self.key && seen.payload == self.payload;
        answers.iter().filter(own).any(|seen| what(&seen.said))
    }

    /// Asks once and writes down what came of it.
    async fn ask(
        &self,
        gateway: usize,
        fray: Fray,
        within: Duration,
        cheats: bool,
    ) -> Option<Said> {
        let notes = &self.street.notes;
        let cheats = cheats && self.is_settled();
        let payload = match cheats {
            true => format!("{}!", self.payload),
            false => self.payload.clone(),
        };
        let from = notes.mono_ns();
        let asked = timeout(within, self.exchange(gateway, fray, payload.clone())).await;
        let said = match asked {
            Ok(Ok(said)) => said,
            Ok(Err(error)) => {
                notes.say(format_args!("caller {}: {} {error}", self.number, self.key));
                return None;
            }
            Err(_) => {
                notes.say(format_args!("caller {}: {} gave up", self.number, self.key));
                return None;
            }
        };
        notes.say(format_args!(
            "caller {}: {} {said:?} from gateway {gateway}{}",
            self.number,
            self.key,
            if cheats { " for another payload" } else { "" }
        ));
        self.street.answers.borrow_mut().push(Seen {
            key: self.key.clone(),
            class: self.class,
            payload,
            caller: self.number,
            said: said.clone(),
            from,
            // Later than whatever happened in this moment.
            to: notes.mono_ns() + 1_000_000,
            at: notes.now(),
            cheats,
        });
        Some(said)
    }

    async fn exchange(&self, gateway: usize, fray: Fray, payload: String) -> Result<Said, String> {
        let at = (format!("gateway-{gateway}"), Self::PORT);
        let stream = TcpStream::connect(at).await.map_err(told)?;
        let io = TokioIo::new(Frayed { stream, fray });
        let request = http::Request::post(self.class.path())
            .header("Idempotency-Key", &self.key)
            .header("Content-Type", "application/json");
        let body = Full::new(Bytes::from(payload));
        if fray.http2 {
            let uri = format!("http://pay.example{}", self.class.path());
            let request = request.uri(uri).body(body).expect("it is well-formed");
            let made = http2::handshake(TokioExecutor::new(), io).await;
            let (mut sender, connection) = made.map_err(told)?;
            return drive(connection, sender.send_request(request)).await;
        }
        let request = match fray.deaf {
            // What comes back before the answer is what a deaf caller resets the connection on.
            true => request.header("Expect", "100-continue"),
            false => request,
        };
        let request = request.header("Host", "pay.example").body(body);
        let request = request.expect("it is well-formed");
        let (mut sender, connection) = http1::handshake(io).await.map_err(told)?;
        drive(connection, sender.send_request(request)).await
    }

    fn gateway(&self) -> usize {
        self.rng.borrow_mut().usize(0..self.street.gateways)
    }

    fn chance(&self, one_in: u8) -> bool {
        self.rng.borrow_mut().u8(0..one_in) == 0
    }

    async fn pause(&self, millis: std::ops::Range<u64>) {
        let span = self.rng.borrow_mut().u64(millis);
        sleep(Duration::from_millis(span)).await;
    }
}

fn told(error: impl std::error::Error) -> String {
    error.to_string()
}

/// Waits for an answer on a connection. Dropped, it closes the connection.
async fn drive(
    connection: impl Future<Output = hyper::Result<()>>,
    asked: impl Future<Output = hyper::Result<http::Response<Incoming>>>,
) -> Result<Said, String> {
    let asking = async {
        let (head, body) = asked.await?.into_parts();
        Ok::<_, hyper::Error>((head, body.collect().await?.to_bytes()))
    };
    tokio::pin!(connection, asking);
    let answered = tokio::select! {
        biased;
        answered = &mut asking => answered,
        ended = &mut connection => match ended {
            Ok(()) => asking.await,
            Err(error) => Err(error),
        },
    };
    let (head, body) = answered.map_err(told)?;
    Ok(read(&head, &body))
}

fn read(head: &http::response::Parts, body: &[u8]) -> Said {
    let status = head.status.as_u16();
    let body = String::from_utf8_lossy(body).into_owned();
    let kind = head.headers.get("content-type");
    if kind.is_some_and(|kind| kind == "application/problem+json") {
        let is = |name: &str| body.contains(&format!(":problem:{name}\""));
        return match status {
            409 if is("outcome-unknown") => Said::Unknown,
            422 if is("key-reused") => Said::Mismatch,
            status => Said::Later(status),
        };
    }
    match status {
        502..=504 => Said::Later(status),
        status => Said::Final {
            status,
            body,
            replayed: head.headers.contains_key("idempotent-replayed"),
        },
    }
}

/// Puts every caller of a plan on its host.
pub(crate) fn settle(sim: &mut turmoil::Sim<'_>, plan: &Plan, street: &Rc<Street>, rng: &mut Rng) {
    for number in 0..plan.clients {
        let mut callers = Vec::new();
        for job in &plan.jobs {
            let mine = job.askers.iter().filter(|(asker, _)| *asker == number);
            callers.extend(mine.map(|(_, payload)| {
                Rc::new(Caller {
                    street: street.clone(),
                    number,
                    key: job.key.clone(),
                    class: job.class,
                    payload: payload.clone(),
                    rng: RefCell::new(rng.fork()),
                })
            }));
        }
        sim.client(format!("client-{number}"), async move {
            let working = callers.into_iter().map(Caller::work);
            let working: Vec<_> = working.map(tokio::task::spawn_local).collect();
            for work in working {
                work.await?;
            }
            Ok(())
        });
    }
}
