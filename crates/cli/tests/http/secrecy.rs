//! P20: logs, numbers and refusals hold nothing that callers sent or got.

use onceward_rig::gateway::{Act, Answer, Ask, Origin, Seen};

use crate::{admin, ask, expect_problem, launch};

/// Words that appear nowhere else.
const KEY: &str = "canary-key-7f3a91";
const BODY: &str = "canary-body-7f3a91";
const BEARER: &str = "canary-bearer-7f3a91";
const COOKIE: &str = "canary-cookie-7f3a91";
const QUERY: &str = "canary-query-7f3a91";
const ANSWER: &str = "canary-answer-7f3a91";
const SESSION: &str = "canary-session-7f3a91";

const ALL: [&str; 7] = [KEY, BODY, BEARER, COOKIE, QUERY, ANSWER, SESSION];

fn canary(path: &str, key: &str) -> Ask {
    let asked = Ask::post(&format!("{path}?q={QUERY}"))
        .key(key)
        .bearer(BEARER);
    asked
        .field("Cookie", &format!("session={COOKIE}"))
        .body(BODY)
}

#[track_caller]
fn expect_none(place: &str, text: &str) {
    for word in ALL {
        assert!(!text.contains(word), "{word} in {place}: {text}");
    }
}

async fn says_nothing(format: &str) {
    let origin = Origin::scripted(|seen: &Seen| match seen.target.split('?').next() {
        Some("/vanish") => Act::Vanish,
        Some("/503") => Answer::new(503, ANSWER).into(),
        Some("/cut") => Act::Cut {
            answer: Answer::new(200, ANSWER),
            after: 50,
        },
        _ => Answer::new(201, ANSWER).field("Set-Cookie", SESSION).into(),
    })
    .await;
    let config = format!(
        "[log]\nformat = \"{format}\"\naccess = true\n\
         [defaults]\nmax_request = \"1KiB\"\n\
         [[route]]\nmatch = \"POST /probed\"\neffect = \"probed\"\nprobe = {{ url = \"/p/{{key}}\" }}\n\
         [[route]]\nmatch = \"POST /query\"\nkey_from = {{ query = \"q\" }}\n"
    );
    let launch = launch(&origin).config(&config);
    let mut gateway = launch.variable("ONCEWARD_LOG", "debug").start().await;
    for path in ["/pay", "/vanish", "/503", "/cut", "/probed", "/query"] {
        let first = ask(&gateway, &canary(path, KEY)).await;
        let retry = ask(&gateway, &canary(path, KEY)).await;
        for answer in [first, retry]
            .iter()
            .filter(|answer| answer.problem().is_some())
        {
            expect_none("a problem", &format!("{answer:?} {}", answer.text()));
        }
    }
    let bad = [
        (
            canary("/pay", KEY).body(format!("{BODY}-other")),
            422,
            "key-reused",
        ),
        (canary("/pay", &format!("{KEY},{KEY}")), 400, "invalid-key"),
        (canary("/pay", &format!("\"{KEY}")), 400, "invalid-key"),
        (canary("/pay", &KEY.repeat(20)), 400, "invalid-key"),
        (
            canary("/pay", KEY).field("Idempotency-Key", KEY),
            400,
            "invalid-key",
        ),
        (
            canary("/pay", KEY).body(BODY.repeat(100)),
            413,
            "body-too-large",
        ),
    ];
    for (asked, status, name) in &bad {
        let refused = ask(&gateway, asked).await;
        expect_problem(&refused, *status, name);
        expect_none("a problem", &format!("{refused:?} {}", refused.text()));
    }
    let unkeyed = Ask::post(&format!("/vanish?q={QUERY}"))
        .bearer(BEARER)
        .body(BODY);
    let failed = ask(&gateway, &unkeyed).await;
    expect_none("a problem", &format!("{failed:?} {}", failed.text()));

    let metrics = admin(&gateway, "/metrics").await;
    assert!(
        metrics.text().contains("onceward_requests_total"),
        "{}",
        metrics.text()
    );
    expect_none("the numbers", &metrics.text());
    expect_none("readiness", &admin(&gateway, "/readyz").await.text());
    gateway.term();
    let said = gateway.ended().await.stderr;
    assert!(
        said.lines().filter(|line| line.contains("/pay")).count() >= 8,
        "{said}"
    );
    expect_none("the log", &said);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_for_people_holds_no_keys_bodies_or_credentials() {
    says_nothing("text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_for_machines_holds_no_keys_bodies_or_credentials() {
    says_nothing("json").await;
}
