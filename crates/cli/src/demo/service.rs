//! The sample service: it charges customers, and misbehaves when it is asked to.
//!
//! - `POST /payments` charges every time that it is asked, as most services do.
//! - `POST /orders` knows keys: under the same `Idempotency-Key` it charges once.
//! - `GET /charges` shows the ledger.
//!
//! The header `Trouble` asks for misbehaviour; see [`Trouble`]. A header, and not a query, so
//! that a retry without it is still the same request.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use onceward_gateway::units;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::ledger::Ledger;

/// A sample service that runs. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) ledger: Arc<Ledger>,
    pub(super) addr: SocketAddr,
    _accepting: JoinSet<()>,
}

/// What a caller can ask of the service to go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// `lost-answer`: it charges, and hangs up without an answer.
    LostAnswer,
    /// `slow=3s`: it charges, and takes this long to answer.
    Slow(Duration),
    /// `refused`: the card has no money, 402. Nothing is charged.
    Refused,
    /// `unavailable`: 503. Nothing is charged.
    Unavailable,
}

/// What a caller wants to pay.
#[derive(Debug, Deserialize)]
struct Payment {
    amount: u64,
    order: String,
}

/// What a caller gets for a payment.
#[derive(Debug, Serialize)]
struct Receipt {
    payment: String,
    amount: u64,
}

/// The connection ends without an answer.
#[derive(Debug)]
struct HungUp;

type Answer = Response<Full<Bytes>>;

/// The largest request that is read.
const BODY_MAX: usize = 64 * 1024;

// === impl Service ===

impl Service {
    /// Starts a service with an empty ledger on a free port of this machine.
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&ledger)));
        Ok(Self {
            ledger,
            addr,
            _accepting: accepting,
        })
    }
}

async fn accept(listener: TcpListener, ledger: Arc<Ledger>) {
    // The connections live as long as this task, and end with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(&ledger)))),
                // The caller is gone again, or there are no files left: others close theirs.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, ledger: Arc<Ledger>) {
    let service = service_fn(move |request| answer(request, Arc::clone(&ledger)));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A connection that breaks is what this demo is about.
    let _ = connection.await;
}

async fn answer(request: Request<Incoming>, ledger: Arc<Ledger>) -> Result<Answer, HungUp> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/payments") => pay(request, &ledger, false).await,
        (&Method::POST, "/orders") => pay(request, &ledger, true).await,
        (&Method::GET, "/charges") => {
            let charges = ledger.charges();
            let list = json!({ "count": charges.len(), "charges": charges });
            Ok(say(StatusCode::OK, &list))
        }
        _ => {
            let known = "POST /payments, POST /orders or GET /charges";
            Ok(say(StatusCode::NOT_FOUND, &json!({ "error": known })))
        }
    }
}

async fn pay(
    request: Request<Incoming>,
    ledger: &Ledger,
    knows_keys: bool,
) -> Result<Answer, HungUp> {
    let (head, body) = request.into_parts();
    // A request that breaks off charges nothing.
    let body = Limited::new(body, BODY_MAX).collect().await;
    let body = body.map_err(|_| HungUp)?.to_bytes();
    let payment: Payment = match serde_json::from_slice(&body) {
        Ok(payment) => payment,
        Err(error) => return Ok(invalid(&error.to_string())),
    };
    let trouble = match Trouble::asked_for(&head.headers) {
        Ok(trouble) => trouble,
        Err(unknown) => return Ok(invalid(&unknown)),
    };
    match trouble {
        Some(Trouble::Refused) => {
            let error = json!({ "error": "the card has no money" });
            return Ok(say(StatusCode::PAYMENT_REQUIRED, &error));
        }
        Some(Trouble::Unavailable) => {
            let error = json!({ "error": "closed for a moment; nothing was charged" });
            return Ok(say(StatusCode::SERVICE_UNAVAILABLE, &error));
        }
        Some(Trouble::LostAnswer | Trouble::Slow(_)) | None => {}
    }

    let Payment { amount, order } = payment;
    let key = head.headers.get("idempotency-key").filter(|_| knows_keys);
    let (charge, made) = match key.and_then(|key| key.to_str().ok()) {
        Some(key) => ledger.charge_under(key, &order, amount),
        None => (ledger.charge(&order, amount), true),
    };
    match trouble {
        Some(Trouble::LostAnswer) if made => {
            ledger.lose_answer();
            return Err(HungUp);
        }
        Some(Trouble::Slow(time)) if made => tokio::time::sleep(time).await,
        _ => {}
    }
    Ok(paid(&Receipt {
        payment: charge.payment,
        amount: charge.amount,
    }))
}

fn paid(receipt: &Receipt) -> Answer {
    let mut answer = say(StatusCode::CREATED, receipt);
    let location = format!("/payments/{}", receipt.payment);
    let location = location.parse().expect("a number is visible ASCII");
    answer.headers_mut().insert(header::LOCATION, location);
    answer
}

fn invalid(why: &str) -> Answer {
    say(StatusCode::BAD_REQUEST, &json!({ "error": why }))
}

fn say(status: StatusCode, body: &impl Serialize) -> Answer {
    let body = serde_json::to_string(body).expect("an answer has text keys");
    let mut answer = Response::new(Full::from(format!("{body}\n")));
    *answer.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

// === impl Trouble ===

impl Trouble {
    /// The header that asks for it.
    pub(super) const HEADER: &str = "Trouble";

    /// The longest that the service can be asked to take.
    const SLOW_MAX: Duration = Duration::from_secs(30);

    fn asked_for(headers: &HeaderMap) -> Result<Option<Self>, String> {
        let Some(value) = headers.get(Self::HEADER) else {
            return Ok(None);
        };
        let trouble = value.to_str().ok().and_then(Self::parse);
        let known = "Trouble is one of lost-answer, slow=3s, refused and unavailable";
        trouble.map(Some).ok_or_else(|| known.to_owned())
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "lost-answer" => Self::LostAnswer,
            "refused" => Self::Refused,
            "unavailable" => Self::Unavailable,
            _ => {
                let time = units::duration(text.strip_prefix("slow=")?).ok()?;
                Self::Slow(time.min(Self::SLOW_MAX))
            }
        })
    }

    /// How it is asked for.
    pub(super) fn value(self) -> String {
        match self {
            Self::LostAnswer => "lost-answer".into(),
            Self::Slow(time) => format!("slow={}ms", time.as_millis()),
            Self::Refused => "refused".into(),
            Self::Unavailable => "unavailable".into(),
        }
    }
}

// === impl HungUp ===

impl std::fmt::Display for HungUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up")
    }
}

impl std::error::Error for HungUp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_read_as_it_is_written() {
        for trouble in [
            Trouble::LostAnswer,
            Trouble::Slow(Duration::from_millis(250)),
            Trouble::Refused,
            Trouble::Unavailable,
        ] {
            assert_eq!(Trouble::parse(&trouble.value()), Some(trouble));
        }
        let three = Trouble::Slow(Duration::from_secs(3));
        assert_eq!(Trouble::parse("slow=3s"), Some(three));
        for unknown in ["", "slow", "slow=", "slow=3", "lost"] {
            assert_eq!(Trouble::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn nobody_makes_it_slow_for_longer_than_a_caller_waits() {
        let most = Trouble::Slow(Trouble::SLOW_MAX);
        assert_eq!(Trouble::parse("slow=1h"), Some(most));
    }
}
