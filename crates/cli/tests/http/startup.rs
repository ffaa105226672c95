//! Starting: what is wrong is said in one line with a hint, and nothing listens.

use std::net::TcpListener;

use onceward_rig::gateway::{Ended, Launch, nowhere};

use crate::{ask, expect_problem, pay};

fn launch() -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_onceward"))
        .upstream(nowhere())
        .in_memory()
}

#[track_caller]
fn expect_refusal(ended: &Ended, about: &str) {
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let count = |start: &str| {
        ended
            .stderr
            .lines()
            .filter(|line| line.starts_with(start))
            .count()
    };
    assert_eq!(count("error:"), 1, "{}", ended.stderr);
    assert_eq!(count("hint:"), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains(about),
        "{about} is not named: {}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("listening on"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_typo_in_the_configuration_is_found_and_named() {
    let ended = launch()
        .config("[defaults]\nretentoin = \"24h\"\n")
        .fail()
        .await;
    expect_refusal(&ended, "retentoin");
    assert!(
        ended.stderr.contains("retention"),
        "the nearest name is said: {}",
        ended.stderr
    );
}

#[tokio::test]
async fn configuration_that_is_no_toml_is_refused() {
    expect_refusal(
        &launch().config("[defaults\n").fail().await,
        "onceward.toml",
    );
    let missing = launch().argument("--config", "missing.toml").fail().await;
    expect_refusal(&missing, "missing.toml");
}

#[tokio::test]
async fn values_that_make_no_sense_are_refused() {
    let configs = [
        ("[defaults]\nretention = \"soon\"\n", "retention"),
        ("[defaults]\neffect = \"maybe\"\n", "effect"),
        ("[[route]]\nmatch = \"POST payments\"\n", "match"),
        (
            "[[route]]\nmatch = \"POST /a\"\neffect = \"probed\"\n",
            "probe",
        ),
        ("[identity]\nfrom = \"jwt\"\n", "jwt"),
        (
            "[defaults]\nstore_statuses = [503]\nrelease_statuses = [503]\n",
            "503",
        ),
    ];
    for (config, about) in configs {
        expect_refusal(&launch().config(config).fail().await, about);
    }
}

#[tokio::test]
async fn a_port_in_use_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for listener in ["--listen", "--admin"] {
        let ended = launch().argument(listener, &addr).fail().await;
        expect_refusal(&ended, &addr);
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_read_is_refused() {
    let launch = launch();
    launch.file("bad.pem", "not a certificate");
    let missing = "[tls]\ncert = \"missing.pem\"\nkey = \"missing.pem\"\n";
    expect_refusal(&launch.clone().config(missing).fail().await, "missing.pem");
    let bad = "[tls]\ncert = \"bad.pem\"\nkey = \"bad.pem\"\n";
    expect_refusal(&launch.config(bad).fail().await, "bad.pem");
}

#[tokio::test]
async fn a_store_that_cannot_be_there_is_refused() {
    let launch = launch();
    let file = launch.file("file", "not a folder");
    let store = format!("embedded:{}/store", file.display());
    expect_refusal(
        &launch.clone().argument("--store", &store).fail().await,
        "store",
    );
    expect_refusal(
        &launch.argument("--store", "nonsense:x").fail().await,
        "nonsense",
    );
}

#[tokio::test]
async fn a_listener_for_everybody_needs_a_certificate() {
    let ended = launch().argument("--listen", "0.0.0.0:0").fail().await;
    expect_refusal(&ended, "tls");
}

#[tokio::test]
async fn a_store_in_use_is_refused() {
    let first = launch();
    let store = format!("embedded:{}", first.folder().join("store").display());
    let first = first.argument("--store", &store);
    let second = first.clone();
    let _first = first.start().await;
    expect_refusal(&second.fail().await, "store");
}

#[tokio::test]
async fn keys_of_an_issuer_that_cannot_be_read_are_refused() {
    let config = "[identity]\nfrom = \"jwt\"\njwt = { keys = \"missing-jwks.json\" }\n";
    expect_refusal(&launch().config(config).fail().await, "missing-jwks.json");
}

#[tokio::test]
async fn a_service_that_is_not_there_yet_is_no_reason_not_to_start() {
    let gateway = launch().start().await;
    for _ in 0..2 {
        expect_problem(&ask(&gateway, &pay("k")).await, 502, "upstream-unreachable");
    }
    let unkeyed = ask(&gateway, &onceward_rig::gateway::Ask::get("/")).await;
    expect_problem(&unkeyed, 502, "upstream-unreachable");
}

#[tokio::test]
async fn a_strict_gateway_refuses_a_store_that_forgets() {
    let ended = launch().config("strict = true\n").fail().await;
    expect_refusal(&ended, "strict");
}

#[tokio::test]
async fn no_service_is_no_gateway() {
    let ended = launch().without("--upstream").fail().await;
    expect_refusal(&ended, "upstream");
    for url in [
        "127.0.0.1:3000",
        "ftp://127.0.0.1",
        "http://",
        "http://a/path?query",
    ] {
        let ended = launch().argument("--upstream", url).fail().await;
        assert_eq!(ended.code, Some(2), "{url}: {}", ended.stderr);
    }
}
