//! The service behind the gateway: it counts what it does, and answers as it is told to.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// Longer than anything awaited here takes, also on a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// A service with side effects.
pub(crate) struct Origin {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

/// Where an SDK puts its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Header(&'static str),
    /// A member of the JSON body.
    Json(&'static str),
    /// A field of the form body.
    Form(&'static str),
}

/// What the service does about an arrival, after the work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Answers when it is let go.
    Hold,
    /// Breaks the connection instead of answering.
    Lose,
    /// Answers like a proxy that has lost the service.
    BadGateway,
}

struct Shared {
    place: Place,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Default)]
struct Stage {
    plan: VecDeque<Act>,
    /// Whether a key that was seen is answered as before, without doing anything.
    deduplicates: bool,
    /// The keys that arrived.
    arrivals: Vec<String>,
    /// The keys under which something was done.
    effects: Vec<String>,
    let_go: bool,
}

/// A request, as far as it matters.
struct Request {
    headers: Vec<(String, String)>,
    body: String,
}

// === impl Origin ===

impl Origin {
    /// Starts a service that finds keys in `place`.
    pub(crate) fn start(place: Place) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            place,
            stage: Mutex::default(),
            changed: Condvar::new(),
        });
        let inner = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let inner = Arc::clone(&inner);
                thread::spawn(move || inner.serve(&stream));
            }
        });
        Self { addr, shared }
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Forgets everything, and does this about the next arrivals; it answers those after.
    pub(crate) fn stage(&self, plan: &[Act]) {
        *self.shared.stage.lock().unwrap() = Stage {
            plan: plan.iter().copied().collect(),
            ..Stage::default()
        };
    }

    /// Like `stage`, and a key that was seen is answered without doing anything.
    pub(crate) fn stage_deduplicating(&self, plan: &[Act]) {
        self.stage(plan);
        self.shared.stage.lock().unwrap().deduplicates = true;
    }

    /// Lets go of what it holds.
    pub(crate) fn let_go(&self) {
        self.shared.stage.lock().unwrap().let_go = true;
        self.shared.changed.notify_all();
    }

    /// Waits until something has arrived.
    pub(crate) fn await_arrival(&self) -> Result<(), String> {
        let stage = self.shared.stage.lock().unwrap();
        let changed = &self.shared.changed;
        let none = |stage: &mut Stage| stage.arrivals.is_empty();
        let (_stage, end) = changed
            .wait_timeout_while(stage, SEEN_WITHIN, none)
            .unwrap();
        match end.timed_out() {
            true => Err("nothing arrived at the origin".into()),
            false => Ok(()),
        }
    }

    /// The keys of the requests that arrived.
    pub(crate) fn arrivals(&self) -> Vec<String> {
        self.shared.stage.lock().unwrap().arrivals.clone()
    }

    /// The keys under which something was done.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.shared.stage.lock().unwrap().effects.clone()
    }
}

// === impl Shared ===

impl Shared {
    /// Serves one request: the gateway opens another connection for the next.
    fn serve(&self, stream: &TcpStream) {
        let Some(request) = Request::read(stream) else {
            return;
        };
        let key = self.place.key(&request);
        let mut stage = self.stage.lock().unwrap();
        let number = stage.execute(&key);
        let act = stage.plan.pop_front();
        self.changed.notify_all();
        if act == Some(Act::Lose) {
            return;
        }
        if act == Some(Act::Hold) {
            let held = |stage: &mut Stage| !stage.let_go;
            let waited = self.changed.wait_timeout_while(stage, SEEN_WITHIN, held);
            drop(waited);
        } else {
            drop(stage);
        }
        let id = format!("made-{key}-{number}");
        let answered = match act {
            Some(Act::BadGateway) => bad_gateway(stream),
            _ => answer(stream, &request, &id),
        };
        // The gateway may have given up, and says so by itself.
        drop(answered);
    }
}

// === impl Stage ===

impl Stage {
    /// Does what is asked for, and returns which effect this was.
    fn execute(&mut self, key: &str) -> usize {
        self.arrivals.push(key.into());
        let before = self.effects.iter().position(|done| done == key);
        match before {
            Some(at) if self.deduplicates => at + 1,
            _ => {
                self.effects.push(key.into());
                self.effects.len()
            }
        }
    }
}

// === impl Place ===

impl Place {
    fn key(self, request: &Request) -> String {
        let key = match self {
            Self::Header(name) => request.header(name).map(str::to_owned),
            Self::Json(member) => {
                let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
                body[member].as_str().map(str::to_owned)
            }
            Self::Form(field) => {
                let mut pairs = request.body.split('&').filter_map(|it| it.split_once('='));
                let found = pairs.find(|(name, _)| *name == field);
                found.map(|(_, value)| value.to_owned())
            }
        };
        key.unwrap_or_else(|| "without".into())
    }
}

// === impl Request ===

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
        let mut request = Self {
            headers: Vec::new(),
            body: String::new(),
        };
        loop {
            line.clear();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            let field = (name.to_ascii_lowercase(), value.trim().to_owned());
            request.headers.push(field);
        }
        let len = request.header("content-length")?.parse().ok()?;
        let mut body = vec![0; len];
        reader.read_exact(&mut body).ok()?;
        request.body = String::from_utf8(body).ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        let found = fields.find(|(there, _)| there.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Answers in the words of all the services at once: each SDK picks its own.
fn answer(stream: &TcpStream, request: &Request, id: &str) -> io::Result<()> {
    let is_ec2 = request.body.starts_with("Action=");
    let body = match is_ec2 {
        true => format!(
            "<?xml version=\"1.0\"?><RunInstancesResponse><reservationId>{id}</reservationId>\
             </RunInstancesResponse>"
        ),
        false => everything(id).to_string(),
    };
    let (status, media_type) = match is_ec2 {
        true => ("200 OK", "text/xml"),
        false => ("201 Created", "application/json"),
    };
    write(stream, status, media_type, &body)
}

fn bad_gateway(stream: &TcpStream) -> io::Result<()> {
    let page = "<html><body>502 Bad Gateway</body></html>";
    write(stream, "502 Bad Gateway", "text/html", page)
}

fn write(mut stream: &TcpStream, status: &str, media_type: &str, body: &str) -> io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len(),
    )
}

fn everything(id: &str) -> Value {
    let then = "2026-01-01T00:00:00Z";
    json!({
        "id": id,
        "name": "name",
        "metadata": {},
        "created_at": then,
        "updated_at": then,
        "createdAt": then,
        "updatedAt": then,
        "validFrom": then,
        "validUntil": then,
        "pstnDialOutEnabled": false,
        "external_id": null,
        "domains": [],
        "customer": { "id": id },
        "customers": { "id": id },
    })
}
