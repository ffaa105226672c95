//! The service behind the gateways: it keeps a ledger, and has bad days.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use onceward::{Fence, Key, Scope, Secret, Slot, SlotId};
use onceward_rig::lab::Lab;
use tokio::time::sleep;
use turmoil::net::{TcpListener, TcpStream};

use crate::depot::Depot;
use crate::notes::Notes;
use crate::plan::Class;
use crate::wire::{self, Request, Shape};

/// A payments service with a route of each class.
pub(crate) struct Service {
    pub(crate) notes: Arc<Notes>,
    pub(crate) depot: Arc<Depot>,
    pub(crate) lab: Arc<Lab>,
    pub(crate) secret: Secret,
    pub(crate) rng: RefCell<Rng>,
    /// Whether it has a bad day.
    pub(crate) faulty: Cell<bool>,
    pub(crate) accounts: RefCell<BTreeMap<String, Account>>,
    /// How many requests are under way.
    pub(crate) busy: Cell<usize>,
}

/// What the service knows about one key.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) effects: Vec<Effected>,
    /// The first answer that was final: what a service that deduplicates repeats.
    answer: Option<(u16, String)>,
    /// The highest fence seen.
    fence: Option<Fence>,
}

/// Something that happened, and cannot be taken back.
#[derive(Debug)]
pub(crate) struct Effected {
    pub(crate) payload: String,
    pub(crate) receipt: String,
}

/// How a request is treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    Good(Shape),
    /// Refuses for good, without an effect.
    Decline,
    /// Fails for good, without an effect.
    Fail,
    /// Asks to try again, without an effect.
    TryAgain,
    /// Executes, and closes without an answer.
    LoseAnswer,
    /// Closes without executing.
    Close,
    /// Executes, and answers after a while.
    Slow(Duration),
    /// Executes after a while, whoever still waits for it.
    Late(Duration),
    /// Executes, and stops in the middle of its answer.
    Cut(Shape),
    /// Says that something behind it failed, having executed or not.
    Behind {
        status: u16,
        executes: bool,
    },
}

/// One request under way.
struct Busy(Rc<Service>);

impl Busy {
    fn new(service: &Rc<Service>) -> Self {
        service.busy.set(service.busy.get() + 1);
        Self(service.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

// === impl Service ===

impl Service {
    pub(crate) const PORT: u16 = 3000;

    /// Serves, until the host is stopped.
    pub(crate) async fn run(self: Rc<Self>) -> turmoil::Result {
        let listener = TcpListener::bind(("0.0.0.0", Self::PORT)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::task::spawn_local(self.clone().talk(stream));
        }
    }

    async fn talk(self: Rc<Self>, mut stream: TcpStream) {
        loop {
            let Some(ahead) = Request::ahead(&mut stream).await else {
                return;
            };
            let key = ahead.header("idempotency-key").unwrap_or_default();
            // Closed on unread bytes, the connection is reset.
            if self.faulty.get() && self.rng.borrow_mut().u8(0..40) == 0 {
                self.notes.doubt("upstream: reset", key);
                return;
            }
            let Some(request) = Request::read(&mut stream).await else {
                return;
            };
            let busy = Busy::new(&self);
            let goes_on = match request.method.as_str() {
                "GET" => self.probed(&request, &mut stream).await,
                _ => self.asked(&request, &mut stream).await,
            };
            drop(busy);
            if !goes_on {
                return;
            }
        }
    }

    /// Answers a request to do the work. Returns whether the connection is still good.
    async fn asked(&self, request: &Request, stream: &mut TcpStream) -> bool {
        let manner = self.manner();
        let Some(order) = self.order(request) else {
            return false;
        };
        let key = order.key;
        self.notes.say(format_args!(
            "upstream: {key} {manner:?} under {}",
            order.fence
        ));
        match manner {
            Manner::LoseAnswer => self.notes.doubt("upstream: answer lost", key),
            Manner::Close => self.notes.doubt("upstream: closed", key),
            Manner::Slow(_) => self.notes.doubt("upstream: slow", key),
            Manner::Late(_) => self.notes.doubt("upstream: late", key),
            Manner::Cut(_) => self.notes.doubt("upstream: cut", key),
            Manner::Behind { .. } => self.notes.doubt("upstream: 502 or 504", key),
            Manner::TryAgain => self.notes.fault("upstream: 503"),
            Manner::Good(_) | Manner::Decline | Manner::Fail => {}
        }
        let (status, body, shape) = match manner {
            Manner::Good(shape) => {
                let (status, body) = self.execute(&order, Some(201));
                (status, body, shape)
            }
            Manner::Decline => with_length(self.execute(&order, Some(402))),
            Manner::Fail => with_length(self.execute(&order, Some(500))),
            Manner::TryAgain => (503, "try again".into(), Shape::Whole),
            Manner::Close => return false,
            Manner::LoseAnswer => {
                self.execute(&order, Some(201));
                return false;
            }
            Manner::Slow(span) => {
                let done = self.execute(&order, Some(201));
                sleep(span).await;
                with_length(done)
            }
            Manner::Late(span) => {
                sleep(span).await;
                with_length(self.execute(&order, Some(201)))
            }
            Manner::Cut(shape) => {
                let (status, body) = self.execute(&order, Some(201));
                (status, body, shape)
            }
            Manner::Behind { status, executes } => {
                if executes {
                    self.execute(&order, Some(201));
                }
                (status, "something behind failed".into(), Shape::Whole)
            }
        };
        let written = wire::answer(stream, status, &[], &body, shape).await;
        written.is_ok() && !matches!(shape, Shape::Half | Shape::Endless)
    }

    fn manner(&self) -> Manner {
        let mut rng = self.rng.borrow_mut();
        let whole = match rng.bool() {
            true => Shape::Whole,
            false => Shape::Chunked,
        };
        let final_ones = rng.u8(0..20);
        match final_ones {
            0 => return Manner::Decline,
            1 => return Manner::Fail,
            _ if !self.faulty.get() => return Manner::Good(whole),
            _ => {}
        }
        let span = Duration::from_millis(rng.u64(100..4_000));
        match rng.u8(0..40) {
            0..3 => Manner::LoseAnswer,
            3..5 => Manner::Close,
            5..8 => Manner::Slow(span),
            8..11 => Manner::Late(span),
            11 | 12 => Manner::Cut(Shape::Half),
            13 => Manner::Cut(Shape::Endless),
            14..16 => Manner::TryAgain,
            16..18 => Manner::Behind {
                status: if rng.bool() { 502 } else { 504 },
                executes: rng.bool(),
            },
            _ => Manner::Good(whole),
        }
    }

    /// Does the work, as a service of its class does, and returns what it says.
    fn execute(&self, order: &Order<'_>, status: Option<u16>) -> (u16, String) {
        let mut accounts = self.accounts.borrow_mut();
        let account = accounts.entry(order.key.to_owned()).or_default();
        if order.class == Class::Probed && account.fence.is_some_and(|seen| order.fence < seen) {
            self.notes
                .say(format_args!("upstream: {} is stale", order.key));
            return (412, "stale".into());
        }
        account.fence = account.fence.max(Some(order.fence));
        if let Some(first) = account
            .answer
            .as_ref()
            .filter(|_| order.class != Class::Opaque)
        {
            return first.clone();
        }
        let answer = match status {
            Some(402) => (402, format!("declined {}", order.key)),
            Some(500) => (500, format!("failed {}", order.key)),
            _ => {
                let receipt = self.lab.service.charge(order.slot, order.fence, None);
                let receipt = receipt.expect("the lab charges whenever it is asked");
                self.notes.say(format_args!(
                    "upstream: {} has its effect: {receipt}",
                    order.key
                ));
                account.effects.push(Effected {
                    payload: order.payload.to_owned(),
                    receipt: receipt.clone(),
                });
                (201, receipt)
            }
        };
        account.answer.get_or_insert(answer.clone());
        answer
    }

    /// Answers whether the work happened, and honours the fence from now on.
    async fn probed(&self, request: &Request, stream: &mut TcpStream) -> bool {
        let Some((key, fence)) = key_and_fence(request) else {
            self.notes
                .broken("a probe came without its key or fence".into());
            return false;
        };
        let bad = match self.faulty.get() {
            true => self.rng.borrow_mut().u8(0..8),
            false => u8::MAX,
        };
        let found = {
            let mut accounts = self.accounts.borrow_mut();
            let account = accounts.entry(key.to_owned()).or_default();
            account.fence = account.fence.max(Some(fence));
            // One that is older than the newest may not act on what it is told.
            (account.fence == Some(fence)).then(|| account.answer.clone())
        };
        self.notes.say(format_args!(
            "upstream: {key} probed under {fence}: {found:?}"
        ));
        if bad < 2 {
            self.notes.doubt("upstream: answer to a probe lost", key);
            return false;
        }
        let fence = fence.to_string();
        let answered = match found {
            _ if bad == 2 => wire::answer(stream, 500, &[], "who knows", Shape::Whole).await,
            None => wire::answer(stream, 409, &[], "an older fence", Shape::Whole).await,
            Some(None) => {
                let said = [
                    ("Idempotency-Outcome", "not-done"),
                    ("Idempotency-Fence", &fence),
                ];
                wire::answer(stream, 404, &said, "", Shape::Whole).await
            }
            Some(Some((status, body))) => {
                let said = [("Idempotency-Outcome", "done")];
                wire::answer(stream, status, &said, &body, Shape::Whole).await
            }
        };
        answered.is_ok()
    }

    /// Reads what is asked for, and holds it against what the store granted.
    fn order<'a>(&self, request: &'a Request) -> Option<Order<'a>> {
        let class = Class::at(&request.path);
        let (Some(class), Some((key, fence))) = (class, key_and_fence(request)) else {
            let what = format!("a request came that nobody sent: {request:?}");
            self.notes.broken(what);
            return None;
        };
        let slot = Slot::new(
            Scope::new("shared", &format!("POST {}", request.path)),
            Key::parse(key).expect("keys of plans are printable"),
        );
        let slot = slot.id(&self.secret);
        if self.depot.granted(fence) != Some(slot) {
            let what = format!("{key} is executed under {fence}, which was never granted for it");
            self.notes.broken(what);
        }
        Some(Order {
            key,
            class,
            fence,
            slot,
            payload: &request.body,
        })
    }
}

/// What a request asks for.
struct Order<'a> {
    key: &'a str,
    class: Class,
    fence: Fence,
    slot: SlotId,
    payload: &'a str,
}

fn key_and_fence(request: &Request) -> Option<(&str, Fence)> {
    let key = request.header("idempotency-key")?.trim_matches('"');
    let fence = request.header("idempotency-fence")?;
    let fence = u128::from_str_radix(fence, 16).ok()?;
    Some((key, Fence::from_bits(fence)))
}

fn with_length((status, body): (u16, String)) -> (u16, String, Shape) {
    (status, body, Shape::Whole)
}
