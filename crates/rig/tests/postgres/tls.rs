//! TLS to a real server: what each `sslmode` accepts, and what is said where it does not.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use onceward_rig::postgres::{Builder, Server};
use onceward_stores::postgres::PostgresStore;
use rcgen::KeyPair;
use tempfile::TempDir;

use crate::authority::{Authority, authority, refusal};
use crate::shared::open;

const HINT: &str = "see sslmode, sslrootcert, sslcert and sslkey in the URL, the names in the \
                    server's certificate, and whether the server has TLS at all";

/// A server with a certificate for `localhost`, on which `app` needs a password and the rules
/// hold for others.
fn with_tls(signer: &Authority, rules: &[&str]) -> Builder {
    let signed = signer.sign(&["localhost"], "server");
    let builder = Server::builder()
        .setting("fsync", "off")
        .tls(&signed.certificate, &signed.key);
    rules
        .iter()
        .fold(builder, |builder, rule| builder.rule(rule))
}

/// Starts it and makes the roles, each with a schema of its own.
async fn start(builder: Builder) -> Server {
    let server = builder.start().await;
    for role in ["app", "carol"] {
        server
            .sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 's3cret'"))
            .await;
        server
            .sql(&format!("CREATE SCHEMA {role} AUTHORIZATION {role}"))
            .await;
    }
    server
}

/// The URL of a role, with a host name that leads to the server whatever it is.
fn url(server: &Server, who: &str, host: &str, parameters: &str) -> String {
    let role = who.split(':').next().unwrap();
    let port = server.addr().port();
    format!("postgres://{who}@{host}:{port}/postgres?hostaddr=127.0.0.1&schema={role}&{parameters}")
}

/// Opens a store, and returns how many of its sessions are in TLS, and how many are not.
async fn sessions(server: &Server, url: &str) -> (PostgresStore, usize, usize) {
    let store = open(url);
    let shown = format!("{store:?} {:?}", store.settings());
    assert!(!shown.contains("s3cret"), "{shown}");
    let counted = "SELECT count(*) FILTER (WHERE ssl) || ' ' || count(*) FILTER (WHERE NOT ssl) \
                   FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                   WHERE application_name = 'onceward'";
    let counts = server.value(counted).await;
    let (safe, clear) = counts.split_once(' ').unwrap();
    (store, safe.parse().unwrap(), clear.parse().unwrap())
}

/// Opens a store all of whose sessions are in TLS.
async fn safely(server: &Server, url: &str) {
    let (store, safe, clear) = sessions(server, url).await;
    assert!(safe > 0 && clear == 0, "{safe} in TLS and {clear} in clear");
    drop(store);
}

/// Why a store does not open.
fn refused(url: &str) -> String {
    let error = refusal(url);
    let line = error.line();
    assert_eq!(error.hint(), HINT, "{line}");
    line
}

fn root(path: &Path) -> String {
    format!("sslrootcert={}", path.display())
}

#[tokio::test]
async fn a_line_is_encrypted_where_it_is_required_and_by_default_where_the_server_can() {
    let authority = Authority::new("ours");
    let server = start(with_tls(&authority, &[])).await;
    let of = |parameters: &str| url(&server, "app", "localhost", parameters);
    safely(&server, &of("sslmode=require")).await;
    safely(&server, &of("sslmode=prefer")).await;
    safely(&server, &of("")).await;
    // An address without a name is no reason to go without.
    let port = server.addr().port();
    let nameless =
        format!("postgres:///postgres?user=app&port={port}&hostaddr=127.0.0.1&schema=app");
    safely(&server, &nameless).await;
    let full = format!("{nameless}&sslmode=verify-full&{}", root(&authority.root()));
    let line = refused(&full);
    assert!(line.ends_with("is not that of 127.0.0.1"), "{line}");
    let (store, safe, clear) = sessions(&server, &of("sslmode=disable")).await;
    assert!(safe == 0 && clear > 0, "{safe} in TLS and {clear} in clear");
    drop(store);
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let authority = Authority::new("ours");
    let server = start(Server::builder().setting("fsync", "off")).await;
    let of = |parameters: &str| url(&server, "app:s3cret", "localhost", parameters);
    let port = server.addr().port();
    let expected = format!(
        "no TLS with PostgreSQL at localhost:{port}/postgres: \
         error performing TLS handshake: server does not support TLS"
    );
    let rooted = root(&authority.root());
    for parameters in [
        "sslmode=require",
        &format!("sslmode=verify-ca&{rooted}"),
        &format!("sslmode=verify-full&{rooted}"),
    ] {
        assert_eq!(refused(&of(parameters)), expected);
    }
    let (store, safe, clear) = sessions(&server, &of("")).await;
    assert!(safe == 0 && clear > 0, "{safe} in TLS and {clear} in clear");
    drop(store);
}

#[tokio::test]
async fn another_authority_and_another_name_are_refused_where_they_are_looked_at() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = start(with_tls(&ours, &[])).await;
    let (good, bad) = (root(&ours.root()), root(&theirs.root()));
    let of = |host: &str, mode: &str, root: &str| {
        url(
            &server,
            "app:s3cret",
            host,
            &format!("sslmode={mode}&{root}"),
        )
    };
    safely(&server, &of("localhost", "verify-full", &good)).await;
    safely(&server, &of("localhost", "verify-ca", &good)).await;
    safely(&server, &of("db.example", "verify-ca", &good)).await;
    safely(&server, &of("db.example", "require", &good)).await;

    let port = server.addr().port();
    let said =
        |host: &str, why: &str| format!("no TLS with PostgreSQL at {host}:{port}/postgres: {why}");
    let stranger = "nobody who is trusted has signed the server's certificate";
    for mode in ["verify-full", "verify-ca", "require"] {
        let line = refused(&of("localhost", mode, &bad));
        assert_eq!(line, said("localhost", stranger), "{mode}");
    }
    // The system's own authorities did not sign it either.
    let line = refused(&of("localhost", "verify-full", "sslrootcert=system"));
    assert!(line.starts_with(&said("localhost", "")), "{line}");
    for host in ["db.example", "127.0.0.1"] {
        let line = refused(&of(host, "verify-full", &good));
        let why = format!("the server's certificate is not that of {host}");
        assert_eq!(line, said(host, &why));
    }
}

#[tokio::test]
async fn a_certificate_that_signed_itself_may_be_its_own_root() {
    let key = KeyPair::generate().unwrap();
    let alone = authority("alone", &["localhost"])
        .self_signed(&key)
        .unwrap();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("server.pem");
    std::fs::write(&path, alone.pem()).unwrap();
    let builder = Server::builder().setting("fsync", "off");
    let server = start(builder.tls(&alone.pem(), &key.serialize_pem())).await;
    let full = format!("sslmode=verify-full&{}", root(&path));
    safely(&server, &url(&server, "app", "localhost", &full)).await;
    let line = refused(&url(&server, "app", "db.example", &full));
    assert!(line.ends_with("is not that of db.example"), "{line}");

    let other = root(&Authority::new("other").root());
    let full = format!("sslmode=verify-full&{other}");
    refused(&url(&server, "app", "localhost", &full));
}

#[tokio::test]
async fn a_certificate_of_the_callers_own_is_sent_where_it_is_given() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let rules = [
        "hostssl all carol 127.0.0.1/32 cert",
        "hostssl all app 127.0.0.1/32 scram-sha-256 clientcert=verify-ca",
    ];
    let trusting = std::fs::read_to_string(ours.root()).unwrap();
    let server = start(with_tls(&ours, &rules).trusts(&trusting)).await;
    let full = format!("sslmode=verify-full&{}", root(&ours.root()));
    let of = |who: &str, own: &str| url(&server, who, "localhost", &format!("{full}&{own}"));
    safely(&server, &of("carol", &ours.caller("carol"))).await;
    safely(&server, &of("app:s3cret", &ours.caller("anybody"))).await;

    let line = refused(&of("app:s3cret", ""));
    let expected = "connection requires a valid client certificate";
    assert!(line.ends_with(expected), "{line}");
    let line = refused(&of("carol", &ours.caller("mallory")));
    let expected = "certificate authentication failed for user \"carol\"";
    assert!(line.ends_with(expected), "{line}");
    let line = refused(&of("carol", &theirs.caller("carol")));
    assert!(line.contains("broke it off with the alert"), "{line}");
}

#[tokio::test]
async fn a_password_is_bound_to_the_line_it_is_given_on() {
    let authority = Authority::new("ours");
    let rules = ["hostssl all app 127.0.0.1/32 scram-sha-256"];
    let server = start(with_tls(&authority, &rules)).await;
    let full = format!("sslmode=verify-full&{}", root(&authority.root()));
    for binding in ["require", "prefer", "disable"] {
        let parameters = format!("{full}&channel_binding={binding}");
        safely(
            &server,
            &url(&server, "app:s3cret", "localhost", &parameters),
        )
        .await;
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("ours");
    let server = start(with_tls(&authority, &[])).await;
    let missing = authority.folder.path().join("missing.pem");
    let empty = authority.folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let of = |parameters: &str| url(&server, "app:s3cret", "localhost", parameters);
    for path in [&missing, &empty] {
        let name = path.display().to_string();
        let line = refused(&of(&format!("sslmode=verify-full&sslrootcert={name}")));
        assert!(line.contains(&name), "{line}");
        let line = refused(&of(&format!(
            "sslmode=require&sslcert={name}&sslkey={name}"
        )));
        assert!(line.contains(&name), "{line}");
    }
}

#[tokio::test]
async fn a_password_comes_from_a_file_that_nobody_else_may_read() {
    const URL: &str = "ONCEWARD_TEST_URL";
    const NAME: &str = "tls::a_password_comes_from_a_file_that_nobody_else_may_read";
    // The environment is for a process as a whole, so this test is run once more in its own.
    if let Ok(url) = std::env::var(URL) {
        drop(open(&url));
        return;
    }
    let authority = Authority::new("ours");
    let rules = ["hostssl all app 127.0.0.1/32 scram-sha-256"];
    let server = start(with_tls(&authority, &rules)).await;
    let file = authority.folder.path().join("passwords");
    let port = server.addr().port();
    let text = format!("localhost:1:*:*:wrong\nlocalhost:{port}:*:app:s3cret\n*:*:*:*:wrong\n");
    std::fs::write(&file, text).unwrap();
    let own = std::env::current_exe().unwrap();
    for (mode, opens) in [(0o600, true), (0o644, false)] {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let output = std::process::Command::new(&own)
            .args(["--exact", NAME])
            .env(URL, url(&server, "app", "localhost", "sslmode=require"))
            .env("PGPASSFILE", &file)
            .env_remove("PGPASSWORD")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), opens, "{mode:o}: {said}");
        assert!(opens || said.contains("none was given"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}
