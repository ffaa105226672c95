//! TLS to a real server: whom it is spoken with, and what is said where that fails.

use onceward::Store as _;
use onceward::testing::records::{self, LONG};
use onceward_rig::redis::{Options, RedisServer};
use onceward_stores::OpenError;
use onceward_stores::redis::RedisStore;

use crate::authority::{Authority, Signed, refusal};

/// A server with a certificate for `localhost` and a password.
async fn start(signed: &Signed, trusts: Option<&str>) -> RedisServer {
    let options = Options::default().password("s3cret");
    RedisServer::start(options.tls(&signed.certificate, &signed.key, trusts)).await
}

fn url(server: &RedisServer, host: &str, parameters: &str) -> String {
    let port = server.tls_port();
    format!("rediss://:s3cret@{host}:{port}?{parameters}")
}

fn root(authority: &Authority) -> String {
    format!("sslrootcert={}", authority.root().display())
}

/// Opens a store, and writes and reads with it.
async fn works(url: &str) {
    let settings = url.parse().expect("the URL is good");
    let store = RedisStore::open(settings).expect("the store opens");
    let shown = format!("{store:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    let slot = records::slot(url);
    let until = store.get(slot).await.unwrap().now + LONG;
    let inserted = store.insert(slot, &records::claimed(LONG), until).await;
    assert!(inserted.is_ok(), "{inserted:?}");
    assert!(store.get(slot).await.unwrap().value.is_some());
}

/// Why a store does not open: TLS is what went wrong.
fn refused(url: &str) -> String {
    let error = refusal(url);
    assert!(matches!(error, OpenError::Tls { .. }), "{error:?}");
    assert!(error.hint().contains("sslrootcert"), "{}", error.hint());
    error.line()
}

#[tokio::test]
async fn a_server_is_spoken_with_whose_certificate_is_signed_by_the_root() {
    let authority = Authority::new("ours");
    let server = start(&authority.sign(&["localhost"], "server"), None).await;
    works(&url(&server, "localhost", &root(&authority))).await;
}

#[tokio::test]
async fn another_authority_and_another_name_are_refused() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = start(&ours.sign(&["localhost"], "server"), None).await;
    refused(&url(&server, "localhost", &root(&theirs)));
    // The system's own authorities did not sign it either.
    refused(&url(&server, "localhost", ""));
    refused(&url(&server, "127.0.0.1", &root(&ours)));
}

#[tokio::test]
async fn a_certificate_of_the_callers_own_is_sent_where_it_is_given() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let trusted = std::fs::read_to_string(ours.root()).unwrap();
    let server = start(&ours.sign(&["localhost"], "server"), Some(&trusted)).await;
    let of = |own: &str| url(&server, "localhost", &format!("{}&{own}", root(&ours)));
    works(&of(&ours.caller("app"))).await;
    refused(&of(&theirs.caller("app")));
    refused(&url(&server, "localhost", &root(&ours)));
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_does_not_answer() {
    let authority = Authority::new("ours");
    let server = RedisServer::start(Options::default().password("s3cret")).await;
    let port = server.addr().port();
    let root = root(&authority);
    let error = refusal(&format!("rediss://:s3cret@localhost:{port}?{root}"));
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("ours");
    let server = start(&authority.sign(&["localhost"], "server"), None).await;
    let missing = authority.folder.path().join("missing.pem");
    let name = missing.display();
    let line = refused(&url(&server, "localhost", &format!("sslrootcert={name}")));
    assert!(line.contains(&name.to_string()), "{line}");
    let own = format!("{}&sslcert={name}&sslkey={name}", root(&authority));
    let line = refused(&url(&server, "localhost", &own));
    assert!(line.contains(&name.to_string()), "{line}");
}
