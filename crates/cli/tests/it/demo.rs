//! `onceward demo`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Run, STARTING, onceward, run};

/// A demo that runs, and what it has printed so far.
struct Demo {
    child: Child,
    stdout: BufReader<ChildStdout>,
    printed: String,
    /// Where it keeps its records while it runs.
    tmp: TempDir,
}

// === impl Demo ===

impl Demo {
    /// Starts a demo and waits for its guide.
    fn start() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let mut command = onceward(["demo", "--listen", "127.0.0.1:0"]);
        command.env("TMPDIR", tmp.path());
        let starting = STARTING.read().unwrap();
        let mut child = command.spawn().unwrap();
        drop(starting);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut demo = Self {
            child,
            stdout,
            printed: String::new(),
            tmp,
        };
        demo.read_until("Ctrl-C ends it.");
        demo
    }

    /// Reads what it prints up to the line that starts with `start`, and returns that line.
    fn read_until(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "no {start:?} in {}", self.printed);
            self.printed.push_str(&line);
            if line.starts_with(start) {
                return line;
            }
        }
    }

    /// Sends a request to the gateway, and returns its answer.
    fn send(&self, line: &str, more: &str, body: &str) -> String {
        let (_, address) = self.printed.split_once("gateway  http://").unwrap();
        let address = address.split_whitespace().next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let len = body.len();
        write!(
            stream,
            "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\
             Content-Length: {len}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn pay(&self, path: &str, key: &str, trouble: &str) -> String {
        let headers = format!("Idempotency-Key: {key}\r\n{trouble}");
        let body = r#"{"amount":100,"order":"o-1"}"#;
        self.send(&format!("POST {path}"), &headers, body)
    }

    /// Tells it to end, checks that it does so in good order, and returns all that it printed.
    fn end(mut self, signal: Signal) -> String {
        assert!(self.is_folder_used(), "records are kept in the folder");
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.stdout.read_to_string(&mut self.printed).unwrap();
        let mut stderr = String::new();
        let mut talk = self.child.stderr.take().unwrap();
        talk.read_to_string(&mut stderr).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
        assert!(!self.is_folder_used(), "the records are left behind");
        self.printed
    }

    fn is_folder_used(&self) -> bool {
        fs::read_dir(self.tmp.path()).unwrap().next().is_some()
    }
}

#[test]
fn drive_charges_nobody_twice_behind_the_gateway() {
    let driven = run("demo --drive --json --operations 50");
    let report = driven.expect_json();
    let count = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(count("operations"), 50);
    assert_eq!(count("duplicates"), 0);
    assert!(count("duplicates_without") > 0);
    assert_eq!(count("charges_with"), 50, "{report}");
    assert_eq!(count("charged_once"), 50, "{report}");
    let without = 50 + count("duplicates_without");
    assert_eq!(count("charges_without"), without, "{report}");
    assert!(count("attempts") > 50, "{report}");
    for name in [
        "replays",
        "waits",
        "refusals",
        "unknown",
        "answers_lost",
        "in_parallel",
        "changed",
    ] {
        assert!(count(name) > 0, "{name} in {report}");
    }
    assert!(driven.stderr.contains("50 of 50"), "{}", driven.stderr);
}

#[test]
fn drive_ends_with_a_table_and_leaves_nothing_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let mut command = onceward(["demo", "--drive", "--seed", "7"]);
    let driven = Run::of(command.env("TMPDIR", tmp.path()));
    let table = driven.expect_done();
    let rows = |name| table.lines().find(|line| line.starts_with(name)).unwrap();
    let operations: Vec<_> = rows("operations").split_whitespace().take(3).collect();
    let duplicates: Vec<_> = rows("duplicates").split_whitespace().collect();
    assert_eq!(operations, ["operations", "60", "60"]);
    assert_eq!(duplicates[2], "0", "{table}");
    assert_ne!(duplicates[1], "0", "{table}");
    assert!(fs::read_dir(tmp.path()).unwrap().next().is_none());
}

#[test]
fn drive_that_is_told_to_end_gives_no_report_and_leaves_nothing_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let mut command = onceward(["demo", "--drive", "--operations", "300"]);
    let starting = STARTING.read().unwrap();
    let mut child = command.env("TMPDIR", tmp.path()).spawn().unwrap();
    drop(starting);
    // In the midst of the second run, when there are records to be removed.
    let mut talk = BufReader::new(child.stderr.take().unwrap()).lines();
    for said in ["with the gateway:", "  20 of 300 "] {
        let heard = talk.find(|line| line.as_ref().unwrap().starts_with(said));
        assert!(heard.is_some(), "{said}");
    }
    assert!(fs::read_dir(tmp.path()).unwrap().next().is_some());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let last = talk.map(Result::unwrap).collect::<Vec<_>>().join("\n");
    let ended = Run::from(child.wait_with_output().unwrap());
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(2), ""));
    assert!(last.contains("error: told to end before"), "{last}");
    assert!(fs::read_dir(tmp.path()).unwrap().next().is_none());
}

#[test]
fn guide_is_printed_and_counters_follow_what_is_tried() {
    let mut demo = Demo::start();
    demo.read_until("charges 0   replays 0   waits 0   refusals 0   unknown 0");

    let first = demo.pay("/payments", "first", "");
    assert!(first.starts_with("HTTP/1.1 201 "), "{first}");
    assert!(first.contains("location: /payments/pay_1\r\n"), "{first}");
    let receipt = r#"{"payment":"pay_1","amount":100}"#;
    assert!(first.contains(receipt), "{first}");
    let again = demo.pay("/payments", "first", "");
    assert!(again.contains("idempotent-replayed: true\r\n"), "{again}");
    assert!(again.contains(receipt), "{again}");
    demo.read_until("charges 1   replays 1   waits 0   refusals 0   unknown 0");

    let ledger = demo.send("GET /charges", "", "");
    assert!(ledger.contains(r#""count":1"#), "{ledger}");
    let printed = demo.end(Signal::INT);
    let total = "\nIn total: charges 1   replays 1   waits 0   refusals 0   unknown 0\n";
    assert!(printed.ends_with(total), "{printed}");
    for said in ["curl -i http://127.0.0.1:", "1. ", "5. ", "422 key-reused"] {
        assert!(printed.contains(said), "{said:?} is not in {printed}");
    }
}

#[test]
fn lost_answer_is_unknown_unless_the_service_knows_keys() {
    let demo = Demo::start();
    let lost = "Trouble: lost-answer\r\n";
    for _ in 0..2 {
        let unknown = demo.pay("/payments", "third", lost);
        assert!(unknown.starts_with("HTTP/1.1 409 "), "{unknown}");
        assert!(unknown.contains("outcome-unknown"), "{unknown}");
    }
    let unknown = demo.pay("/orders", "fourth", lost);
    assert!(unknown.contains("outcome-unknown"), "{unknown}");
    let settled = demo.pay("/orders", "fourth", lost);
    assert!(settled.starts_with("HTTP/1.1 201 "), "{settled}");
    let printed = demo.end(Signal::TERM);
    let total = "\nIn total: charges 2   replays 0   waits 0   refusals 0   unknown 3\n";
    assert!(printed.ends_with(total), "{printed}");
}

#[test]
fn refusals_of_the_service_are_told_apart() {
    let demo = Demo::start();
    let refused = demo.pay("/payments", "k1", "Trouble: refused\r\n");
    assert!(refused.starts_with("HTTP/1.1 402 "), "{refused}");
    // Closed for a moment is over when the trouble is: nothing was stored.
    let closed = demo.pay("/payments", "k2", "Trouble: unavailable\r\n");
    assert!(closed.starts_with("HTTP/1.1 503 "), "{closed}");
    let open = demo.pay("/payments", "k2", "");
    assert!(open.starts_with("HTTP/1.1 201 "), "{open}");
    let unknown = demo.pay("/payments", "k3", "Trouble: nonsense\r\n");
    assert!(unknown.starts_with("HTTP/1.1 400 "), "{unknown}");
    let printed = demo.end(Signal::TERM);
    assert!(printed.contains("In total: charges 1 "), "{printed}");
}

#[test]
fn port_in_use_is_told_with_the_option_that_helps() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    let failed = run(&format!("demo --listen {taken}"));
    let (error, hint) = failed.expect_failed();
    assert!(error.contains("the port is in use"), "{error}");
    assert!(hint.contains("--listen"), "{hint}");
}

#[test]
fn demo_is_for_this_machine_alone() {
    let failed = run("demo --listen 0.0.0.0:0");
    let (error, hint) = failed.expect_failed();
    assert!(error.contains("this machine alone"), "{error}");
    assert!(hint.contains("127.0.0.1"), "{hint}");
}

#[test]
fn options_of_a_drive_mean_nothing_without_it() {
    for line in [
        "demo --json",
        "demo --operations 60",
        "demo --seed 1",
        "demo --drive --operations 49",
        "demo --drive --listen 127.0.0.1:0",
    ] {
        let refused = run(line);
        assert_eq!(refused.status, Some(2), "{line}");
        assert_eq!(refused.stdout, "", "{line}");
    }
}
