//! The corpus: requests that servers have been known to read in different ways.
//!
//! Each is either refused, and its connection closed, or it is exactly one request whose end
//! everybody agrees on.

mod cases;

use self::Expected::{Marked, One, Refused};
use self::cases::{line, post};
use super::*;

/// A name, the bytes, and what becomes of them.
type Case = (&'static str, String, Expected);

enum Expected {
    /// It is not handed on, or its body ends in an error.
    Refused,
    /// It is handed on with a conflict, answered 400, and the connection is closed.
    Marked(Conflict),
    /// It is one request with this body.
    One(&'static str),
}

/// Sends every case, at once and byte by byte, each on a connection of its own.
async fn check(cases: Vec<Case>) {
    let world = World::start(Settings::default());
    for (name, raw, expected) in cases {
        for step in [raw.len(), 1] {
            if step == 1 && raw.len() > 2_000 {
                continue;
            }
            world.seen.lock().clear();
            let mut caller = world.call().await;
            caller.stream.set_nodelay(true).unwrap();
            for piece in raw.as_bytes().chunks(step) {
                // What is refused early need not take the rest.
                if caller.stream.write_all(piece).await.is_err() {
                    break;
                }
            }
            let _ = caller.stream.shutdown().await;
            let answers = caller.hear_all().await;
            judge(
                &format!("{name} in steps of {step}"),
                &expected,
                &world.seen(),
                &answers,
            );
        }
    }
    world.end().await;
}

fn judge(name: &str, expected: &Expected, seen: &[Seen], answers: &str) {
    let is_400 = answers.starts_with("HTTP/1.1 4") || answers.starts_with("HTTP/1.0 4");
    assert!(answers.matches("HTTP/1.").count() <= 1, "{name}: {answers}");
    assert!(seen.len() <= 1, "{name}: {seen:?}");
    match expected {
        Refused => {
            assert!(answers.is_empty() || is_400, "{name}: {answers}");
            // What the server answers by itself has a body, for clients crash on one that has none.
            assert!(
                answers.is_empty() || !seen.is_empty() || answers.contains("\"error\":{"),
                "{name}: {answers}"
            );
            let whole = seen.iter().any(|seen| seen.body.is_ok());
            assert!(!whole, "{name}: {seen:?}");
        }
        Marked(conflict) => {
            assert!(
                is_400 && answers.contains("connection: close"),
                "{name}: {answers}"
            );
            assert_eq!(seen.len(), 1, "{name}");
            assert_eq!(seen[0].conflict, Some(*conflict), "{name}");
        }
        One(body) => {
            assert_eq!(seen.len(), 1, "{name}: {answers}");
            assert_eq!(seen[0].conflict, None, "{name}");
            assert_eq!(seen[0].body.as_deref(), Ok(body.as_bytes()), "{name}");
            assert!(answers.contains(" 200 OK\r\n"), "{name}: {answers}");
        }
    }
}

#[tokio::test]
async fn a_length_has_one_reading_or_none() {
    check(cases::lengths()).await;
}

#[tokio::test]
async fn a_chunk_has_one_reading_or_none() {
    check(cases::chunks()).await;
}

#[tokio::test]
async fn a_head_has_one_reading_or_none() {
    check(cases::heads()).await;
}

#[tokio::test]
async fn a_target_has_one_reading_or_none() {
    check(cases::targets()).await;
}

#[tokio::test]
async fn nothing_behind_a_conflict_is_read() {
    let world = World::start(Settings::default());
    for lines in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Host: b\r\n",
    ] {
        world.seen.lock().clear();
        let mut caller = world.call().await;
        let smuggled = line("GET /hidden HTTP/1.1");
        caller
            .say(post(lines, &format!("0\r\n\r\n{smuggled}")))
            .await;
        let answers = caller.hear_all().await;
        assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{answers}");
        assert_eq!(world.seen().len(), 1, "{lines}");
    }
    world.end().await;
}
