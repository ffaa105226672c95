//! Tenant canaries: a hundred callers with the same keys, each with secrets of its own. Nobody
//! gets a byte of another, and logs, numbers and refusals hold no byte of anybody.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use futures_util::future::join_all;
use onceward_rig::gateway::{Act, Answer, Ask, Fields, Gateway, Origin, Received, Seen, Wire};
use onceward_rig::tally::Tally;

use crate::budget::Budget;
use crate::{admin, durable, turn};

/// How many callers there are.
const TENANTS: usize = 100;

/// How many connections they share: what one left behind there, the next could get.
const CONNECTIONS: usize = 32;

/// How many requests are made before one gateway, at the least and at the most: all that is seen
/// and said is kept until it is searched.
const REQUESTS_MIN: usize = 5_000;
const REQUESTS_MAX: usize = 100_000;

/// What every secret begins with; three digits follow that say whose it is.
const MARK: &str = "canary-t";

/// What a caller does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    /// Pays, and pays again, and tries the words of another under the same key.
    Pay,
    /// The service closes without a word.
    Vanish,
    /// The service is cut in the middle of its answer.
    Cut,
    /// The service says that it did nothing.
    Busy,
    /// Sends a key that is none.
    BadKey,
    /// Sends more than may be sent.
    TooLarge,
    /// Sends no key.
    Unkeyed,
}

/// What came back, and how often.
#[derive(Default)]
struct Counts {
    requests: AtomicUsize,
    replays: AtomicUsize,
    problems: parking_lot::Mutex<BTreeMap<String, usize>>,
}

/// What was made of it in all.
#[derive(Default)]
struct Sum {
    requests: usize,
    replays: usize,
    refusals: usize,
    lines: usize,
}

/// Callers on one connection.
struct Desk<'a> {
    gateway: &'a Gateway,
    wire: Wire,
    counts: &'a Counts,
}

/// A secret of a tenant.
fn secret(tenant: usize, what: &str) -> String {
    format!("{MARK}{tenant:03}-{what}-5e1f0c")
}

/// Whose secrets are in a text.
fn owners(text: &str) -> Vec<usize> {
    let marks = text.match_indices(MARK);
    let digits = marks.map(|(at, _)| text.get(at + MARK.len()..at + MARK.len() + 3));
    // A secret that is cut is a secret too.
    let mut owners: Vec<_> = digits
        .map(|digits| digits.and_then(|it| it.parse().ok()).unwrap_or(usize::MAX))
        .collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

fn lines(fields: &Fields) -> String {
    let line = |(name, value): (&str, &str)| format!("{name}: {value}\n");
    fields.iter().map(line).collect()
}

fn whole(answer: &Received) -> String {
    let (fields, trailers) = (lines(&answer.fields), lines(&answer.trailers));
    format!("{fields}{}{trailers}", answer.text())
}

/// A service that gives every caller its own secrets.
async fn service() -> Origin {
    Origin::scripted(|seen: &Seen| {
        let caller = owners(seen.fields.get("authorization").unwrap_or_default());
        let [tenant] = caller[..] else {
            return Answer::new(500, "a request of nobody").into();
        };
        let answer = |status| {
            Answer::new(status, secret(tenant, "answer"))
                .field("X-Owner", &secret(tenant, "owner"))
                .field("Set-Cookie", &secret(tenant, "session"))
        };
        match seen.target.split('?').next() {
            Some("/vanish") => Act::Vanish,
            Some("/cut") => Act::Cut {
                answer: answer(200),
                after: 120,
            },
            Some("/busy") => answer(503).into(),
            _ => answer(201).into(),
        }
    })
    .await
}

// === impl Kind ===

impl Kind {
    fn random() -> Self {
        match fastrand::u32(0..20) {
            0 => Self::Vanish,
            1 => Self::Cut,
            2 => Self::Busy,
            3 => Self::BadKey,
            4 => Self::TooLarge,
            5 | 6 => Self::Unkeyed,
            _ => Self::Pay,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Vanish => "/vanish",
            Self::Cut => "/cut",
            Self::Busy => "/busy",
            Self::Pay | Self::BadKey | Self::TooLarge | Self::Unkeyed => "/pay",
        }
    }

    /// Status and problem that are right for it.
    fn allows(self, status: u16, problem: Option<&str>) -> bool {
        match self {
            Self::Pay | Self::Unkeyed => (status, problem) == (201, None),
            Self::Busy => (status, problem) == (503, None) || problem == Some("in-progress"),
            Self::BadKey => problem == Some("invalid-key"),
            Self::TooLarge => problem == Some("body-too-large"),
            Self::Vanish | Self::Cut => {
                matches!(problem, Some("outcome-unknown" | "in-progress"))
            }
        }
    }

    fn ask(self, tenant: usize, number: usize) -> Ask {
        let target = format!("{}?q={}", self.path(), secret(tenant, "query"));
        let asked = Ask::post(&target)
            .bearer(&secret(tenant, "bearer"))
            .field("X-Tenant", &secret(tenant, "name"))
            .field("X-Note", &secret(tenant, "note"))
            .field("Cookie", &format!("session={}", secret(tenant, "cookie")))
            .body(secret(tenant, "body"));
        let key = format!("shared{}-{number}", self.path());
        match self {
            Self::Unkeyed => asked,
            Self::BadKey => asked.key(&format!("\"{}", secret(tenant, "key"))),
            Self::TooLarge => asked.key(&key).body(secret(tenant, "body").repeat(100)),
            Self::Pay | Self::Vanish | Self::Cut | Self::Busy => asked.key(&key),
        }
    }
}

// === impl Desk ===

impl Desk<'_> {
    /// Sends a request of a tenant and checks that what comes back is nobody else's.
    async fn send(&mut self, tenant: usize, asked: &Ask) -> (Received, Option<String>) {
        self.wire.send(&asked.bytes()).await.unwrap();
        let answer = self.wire.read().await.unwrap();
        if answer.closes {
            self.wire = Wire::connect(self.gateway.addr()).await.unwrap();
        }
        let problem = answer.problem();
        let found = owners(&whole(&answer));
        match &problem {
            // What we say ourselves repeats nothing that was sent, not even to its sender.
            Some(name) => {
                assert_eq!(found, [0; 0], "{name} to {tenant}: {}", whole(&answer));
                *self.counts.problems.lock().entry(name.clone()).or_default() += 1;
            }
            None => assert_eq!(found, [tenant], "to {tenant}: {}", whole(&answer)),
        }
        self.counts.requests.fetch_add(1, Relaxed);
        let replay = usize::from(answer.is_replay());
        self.counts.replays.fetch_add(replay, Relaxed);
        (answer, problem)
    }

    async fn serve(&mut self, tenant: usize, number: usize) {
        let kind = Kind::random();
        let asked = kind.ask(tenant, number);
        let (answer, problem) = self.send(tenant, &asked).await;
        assert!(
            kind.allows(answer.status, problem.as_deref()),
            "{kind:?}: {} {}",
            answer.status,
            answer.text()
        );
        if kind != Kind::Pay {
            return;
        }
        let (again, _) = self.send(tenant, &asked).await;
        assert!(again.is_replay() && again.body == answer.body, "{again:?}");
        let other = (tenant + fastrand::usize(1..TENANTS)) % TENANTS;
        let probe = asked.body(secret(other, "body"));
        let (_, problem) = self.send(tenant, &probe).await;
        assert_eq!(problem.as_deref(), Some("key-reused"));
    }
}

/// Every request that reached the service is one caller's, and was executed once.
fn check_seen(origin: &Origin) {
    let mut executions = BTreeMap::new();
    for seen in origin.seen() {
        let caller = seen.fields.get("authorization").unwrap_or_default();
        let body = String::from_utf8_lossy(&seen.body);
        let all = format!("{}\n{}{body}", seen.target, lines(&seen.fields));
        assert_eq!(owners(&all).len(), 1, "two callers in one request: {all}");
        if let Some(key) = seen.key().filter(|_| !seen.target.starts_with("/busy")) {
            let times = executions.entry((caller.to_owned(), key)).or_insert(0);
            *times += 1;
            assert_eq!(*times, 1, "executed again: {all}");
        }
    }
    assert_eq!(origin.malformed(), [""; 0]);
}

async fn canaries(format: &str, identity: &str, seconds: u64) {
    let _turn = turn().await;
    let config = format!(
        "[log]\nformat = \"{format}\"\naccess = true\n\
         [defaults]\nmax_request = \"1KiB\"\n{identity}"
    );
    let budget = Budget::seconds(seconds);
    let mut all = Sum::default();
    while all.requests == 0 || budget.lasts() {
        let sum = one_gateway(&config, &budget).await;
        all.requests += sum.requests;
        all.replays += sum.replays;
        all.refusals += sum.refusals;
        all.lines += sum.lines;
    }
    let Sum {
        requests,
        replays,
        refusals,
        lines,
    } = all;
    let note =
        format!("{format} log of {lines} lines; {replays} replays, {refusals} refusals, leaks 0");
    Tally::record("tenant canary", requests as u64, None, 0, &note);
}

/// Lets everybody loose on a gateway, and searches what it did and said.
async fn one_gateway(config: &str, budget: &Budget) -> Sum {
    let origin = service().await;
    let launch = durable(&origin).config(config);
    let mut gateway = launch.variable("ONCEWARD_LOG", "debug").start().await;
    let counts = Counts::default();
    let goes_on = || {
        let made = counts.requests.load(Relaxed);
        made < REQUESTS_MIN || (made < REQUESTS_MAX && budget.lasts())
    };
    join_all((0..CONNECTIONS).map(|_| async {
        let wire = Wire::connect(gateway.addr()).await.unwrap();
        let mut desk = Desk {
            gateway: &gateway,
            wire,
            counts: &counts,
        };
        while goes_on() {
            // Everybody is at the same few keys, and comes back to them.
            let number = counts.requests.load(Relaxed) / (TENANTS * 8) + fastrand::usize(0..3);
            desk.serve(fastrand::usize(0..TENANTS), number).await;
        }
    }))
    .await;

    for path in ["/metrics", "/readyz", "/healthz", "/nothing"] {
        let answer = admin(&gateway, path).await;
        assert_eq!(owners(&whole(&answer)), [0; 0], "{path}: {}", answer.text());
    }
    gateway.term();
    let said = gateway.ended().await.stderr;
    let leaked = said.lines().find(|line| line.contains(MARK));
    assert_eq!(leaked, None, "in the log");
    check_seen(&origin);
    let sum = Sum {
        requests: counts.requests.into_inner(),
        replays: counts.replays.into_inner(),
        refusals: counts.problems.lock().values().sum(),
        lines: said.lines().count(),
    };
    sum.check(&counts.problems.into_inner());
    sum
}

// === impl Sum ===

impl Sum {
    /// Checks that enough happened to be worth the search.
    fn check(&self, problems: &BTreeMap<String, usize>) {
        let made = self.requests;
        assert!(self.lines > made / 2, "{} lines of log", self.lines);
        assert!(self.replays > made / 10, "{} replays", self.replays);
        let names = [
            "invalid-key",
            "key-reused",
            "body-too-large",
            "outcome-unknown",
        ];
        for name in names {
            let times = problems.get(name).copied().unwrap_or(0);
            assert!(times >= 20, "{name} only {times} times: {problems:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_known_by_credential_leak_nothing_to_each_other_or_to_a_text_log() {
    canaries("text", "", 9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_named_by_a_proxy_leak_nothing_to_each_other_or_to_a_json_log() {
    let identity = "[identity]\nfrom = \"header\"\n\
                    header = { name = \"X-Tenant\", peers = [\"127.0.0.1/32\"] }\n";
    canaries("json", identity, 9).await;
}
