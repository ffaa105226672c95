//! The example service as a process of its own, killed at any point.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use onceward_rig::postgres::{Scratch, scratch};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// How often the service is killed.
const KILLS: usize = 36;
/// How many callers there are between two kills.
const CALLERS: usize = 6;

/// A running service.
struct Service {
    child: Child,
    addr: SocketAddr,
}

impl Service {
    /// Starts the service, with its own tables beside those of the store.
    async fn start(url: &str, scratch: &Scratch) -> Self {
        let options = format!("-csearch_path%3D{}", scratch.schema());
        let mut child = Command::new(env!("CARGO_BIN_EXE_charges"))
            .env("DATABASE_URL", format!("{url}&options={options}"))
            .env("LISTEN", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the service starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines
            .next_line()
            .await
            .unwrap()
            .expect("it says where it listens");
        let addr = line.strip_prefix("listening on ").unwrap().parse().unwrap();
        // Its talk has to go somewhere.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, addr }
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Asks for a charge. `None` is no answer, or one that says to ask again.
async fn charge(addr: SocketAddr, key: &str, amount: usize) -> Option<String> {
    let body = format!("{{\"account\":\"alice\",\"amount\":{amount}}}");
    let request = format!(
        "POST /charges HTTP/1.1\r\nhost: x\r\nconnection: close\r\nidempotency-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(addr).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    match head.split(' ').nth(1)? {
        "201" => Some(body.to_owned()),
        "503" | "409" => None,
        other => panic!("{other}: {answer}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_killed_at_any_point_charges_once_for_each_key() {
    let (url, scratch) = scratch().await;
    let mut service = Service::start(&url, &scratch).await;
    let mut answers: BTreeMap<String, String> = BTreeMap::new();
    let mut waiting: Vec<String> = Vec::new();
    let mut cut_off = 0;
    for round in 0..KILLS {
        waiting.extend((0..CALLERS).map(|caller| format!("order-{round}-{caller}")));
        let mut callers = JoinSet::new();
        for key in &waiting {
            let (addr, key) = (service.addr, key.clone());
            callers.spawn(async move { (charge(addr, &key, 7).await, key) });
        }
        // Before the first answer, after the last, or anywhere between two.
        let mut heard = Vec::new();
        for _ in 0..fastrand::usize(..=CALLERS) {
            heard.extend(callers.join_next().await);
        }
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..20_000))).await;
        service.kill().await;
        while let Some(caller) = callers.join_next().await {
            heard.push(caller);
        }
        for caller in heard {
            match caller.unwrap() {
                (Some(answer), key) => {
                    waiting.retain(|waits| *waits != key);
                    answers.insert(key, answer);
                }
                (None, _) => cut_off += 1,
            }
        }
        service = Service::start(&url, &scratch).await;
    }
    // Everybody asks until there is an answer, and whoever has one gets it again.
    for key in waiting.iter().chain(answers.clone().keys()) {
        let answer = loop {
            match charge(service.addr, key, 7).await {
                Some(answer) => break answer,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let first = answers.entry(key.clone()).or_insert_with(|| answer.clone());
        assert_eq!(*first, answer);
    }
    let keys = KILLS * CALLERS;
    assert_eq!(answers.len(), keys);
    // The kills have to have met something.
    assert!(cut_off > KILLS, "only {cut_off} were cut off");

    let schema = scratch.schema();
    let count = async |query: &str| -> usize {
        let value = scratch
            .value(&query.replace("FROM ", &format!("FROM {schema}.")))
            .await;
        value.parse().unwrap()
    };
    while count("SELECT count(*) FROM outbox").await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (what, query) in [
        ("charges", "SELECT count(*) FROM charges"),
        ("keys charged", "SELECT count(DISTINCT key) FROM charges"),
        ("lines", "SELECT count(DISTINCT charge) FROM ledger"),
        ("all lines", "SELECT count(*) FROM ledger"),
        ("events", "SELECT count(*) FROM mailbox"),
        (
            "distinct events",
            "SELECT count(DISTINCT body) FROM mailbox",
        ),
    ] {
        assert_eq!(count(query).await, keys, "{what}");
    }
    let paid = count("SELECT 1000000 - balance FROM accounts WHERE name = 'alice'").await;
    assert_eq!(paid, 7 * keys);
    service.kill().await;
}
