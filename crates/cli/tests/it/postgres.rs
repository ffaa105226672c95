//! Stores in a database: what every command says when it cannot use one, and `onceward migrate`.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::LazyLock;

use onceward_rig::gateway::nowhere;
use onceward_rig::postgres::{Builder, Server, shared_url};
use tokio::runtime::Runtime;

use crate::{Run, doctor, onceward};

/// A line of each command that opens a store. Those that serve or check do so on no port.
const OPENING: [&str; 5] = [
    "list",
    "inspect --slot 01234567",
    "release --all --who ann --why ledger",
    "sweep",
    "serve --upstream http://127.0.0.1:1 --listen 127.0.0.1:0 --admin off",
];

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Starts a server of one test's own.
fn start(builder: Builder) -> Server {
    RUNTIME.block_on(builder.start())
}

/// The URL of a schema of this name on the server that all tests share.
fn schema(name: &str) -> String {
    let url = RUNTIME.block_on(shared_url());
    let between = if url.contains('?') { '&' } else { '?' };
    format!("{url}{between}schema={name}_{:08x}", fastrand::u32(..))
}

/// Runs `line` on the store that `url` names, which the environment tells.
fn run_on(line: &str, url: &str) -> Run {
    let mut command = onceward(line.split_whitespace());
    Run::of(command.env("ONCEWARD_STORE", url))
}

/// Checks that every command fails in one line that says `error`, and with a hint that says
/// `hint`.
#[track_caller]
fn expect_refusals(url: &str, error: &str, hint: &str) {
    for line in OPENING.into_iter().chain(["migrate"]) {
        expect_refusal(&run_on(line, url), line, error, hint);
    }
}

#[track_caller]
fn expect_refusal(run: &Run, line: &str, error: &str, hint: &str) {
    let (said, hinted) = run.expect_failed();
    assert!(said.contains(error), "{line}: {said}");
    assert!(hinted.contains(hint), "{line}: {hinted}");
    assert!(!run.stderr.contains("s3cret"), "{line}: {}", run.stderr);
}

/// A server with a role that has a password, and few rights.
fn guarded() -> Server {
    let server = start(Server::builder().rule("host all teller 127.0.0.1/32 scram-sha-256"));
    let role = "CREATE ROLE teller LOGIN PASSWORD 's3cret'; \
                REVOKE CREATE ON DATABASE postgres FROM PUBLIC";
    RUNTIME.block_on(server.sql(role));
    server
}

#[test]
fn passwords_are_told_from_rights_and_never_repeated() {
    let server = guarded();
    let addr = server.addr();
    let right = format!("postgres://teller:s3cret@{addr}/postgres");
    let wrong = format!("postgres://teller:s3cret-no@{addr}/postgres");
    let none = format!("postgres://teller@{addr}/postgres");
    expect_refusals(&wrong, "password", "PGPASSWORD");
    expect_refusal(&run_on("list", &none), "list", "password", "PGPASSWORD");
    // The password is right, and nothing is allowed.
    for line in ["migrate", OPENING[4]] {
        expect_refusal(&run_on(line, &right), line, "may not", "GRANT");
    }

    RUNTIME.block_on(server.sql("CREATE SCHEMA onceward AUTHORIZATION teller"));
    let mut migrate = onceward(["migrate", "--json", "--store", &none]);
    let migrated = Run::of(migrate.env("PGPASSWORD", "s3cret")).expect_json();
    assert_eq!(migrated["from"], 0);
    run_on("list", &right).expect_done();
}

#[test]
fn password_comes_from_a_file_as_well() {
    let server = guarded();
    RUNTIME.block_on(server.sql("CREATE SCHEMA onceward AUTHORIZATION teller"));
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("onceward.toml");
    let password = folder.path().join("password");
    let text = format!(
        "[store]\nurl = \"postgres://teller@{}/postgres\"\npassword_file = {password:?}\n",
        server.addr()
    );
    std::fs::write(&config, text).unwrap();
    let checked = || {
        let mut command = onceward(["doctor", "--json", "--admin", "off"]);
        command.args(["--upstream", "http://127.0.0.1:1"]);
        command.args(["--listen", "127.0.0.1:0"]);
        let run = Run::of(command.arg("--config").arg(&config));
        doctor::found(&run, "store")
    };
    let (state, said) = checked();
    assert_eq!(state, "bad", "{said}");
    assert!(said.contains("cannot be read"), "{said}");
    std::fs::write(&password, "s3cret-no\n").unwrap();
    let (state, said) = checked();
    assert!(state == "bad" && said.contains("password"), "{said}");
    std::fs::write(&password, "s3cret\n").unwrap();
    let (state, said) = checked();
    assert_eq!(state, "note", "{said}");
}

#[test]
fn password_on_the_command_line_is_refused() {
    let url = "postgres://teller:s3cret@127.0.0.1:1/postgres";
    for line in OPENING.into_iter().chain(["migrate", "repair"]) {
        let mut command = onceward(line.split_whitespace());
        let run = Run::of(command.args(["--store", url]));
        expect_refusal(&run, line, "holds a password", "ONCEWARD_STORE");
    }
}

#[test]
fn mistyped_urls_are_repeated_without_their_password() {
    let url = |scheme: &str, rest: &str| format!("{scheme}://teller:s3cret@127.0.0.1{rest}");
    for (url, error) in [
        (url("postgress", "/postgres"), "is not a store URL"),
        (url("postgres", "/postgres?conections=3"), "conections"),
        (url("postgres", ":port/postgres"), "cannot be"),
    ] {
        let run = run_on("list", &url);
        let (said, _) = run.expect_failed();
        assert!(said.contains(error), "{said}");
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    }
}

#[test]
fn server_that_is_away_is_unreachable() {
    let url = format!("postgres://teller@{}/postgres", nowhere());
    expect_refusals(&url, "cannot be reached", "host and port");
}

#[test]
fn database_that_is_missing_is_named() {
    let server = RUNTIME.block_on(shared_url());
    let (place, _) = server.rsplit_once('/').unwrap();
    let url = format!("{place}/nobody_made_this");
    expect_refusals(&url, "nobody_made_this", "createdb");
}

#[test]
fn standby_takes_no_records() {
    let primary = start(Server::builder());
    let standby = start(Server::builder().standby_of(&primary));
    expect_refusals(&standby.url(), "read-only", "primary");
}

/// A server that lets everybody in and says that it is of another time.
fn old_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            // Whatever it says first is its startup: there is no TLS.
            let _ = stream.read(&mut [0; 1024]);
            let mut hello = b"R\0\0\0\x08\0\0\0\0".to_vec();
            let version = b"server_version\x0012.22\0";
            hello.push(b'S');
            hello.extend((version.len() as u32 + 4).to_be_bytes());
            hello.extend(version);
            hello.extend(b"Z\0\0\0\x05I");
            let _ = stream.write_all(&hello);
            // Until it hangs up.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    format!("postgres://teller@{addr}/postgres?sslmode=disable")
}

#[test]
fn server_of_another_time_is_too_old() {
    expect_refusals(&old_server(), "12.22", "13");
}

#[test]
fn tables_are_made_by_migrate_and_by_serve_alone() {
    let url = schema("made");
    for line in &OPENING[..4] {
        let run = run_on(line, &url);
        let (said, hint) = run.expect_failed();
        assert!(said.contains("version 0"), "{line}: {said}");
        assert!(hint.contains("onceward migrate"), "{hint}");
    }
    for _ in 0..2 {
        let planned = run_on("migrate --dry-run --json", &url);
        planned.expect_no();
        assert!(planned.stdout.contains("\"from\":0"), "{}", planned.stdout);
    }
    let migrated = run_on("migrate --json", &url).expect_json();
    assert_eq!(
        (&migrated["from"], &migrated["dry_run"]),
        (&0.into(), &false.into())
    );
    let to = migrated["to"].as_i64().unwrap();
    assert!(to > 0);
    let again = run_on("migrate --dry-run --json", &url).expect_json();
    assert_eq!(again["from"], to);
    let said = run_on("migrate", &url);
    assert!(
        said.expect_done().contains("nothing to do"),
        "{}",
        said.stdout
    );
    assert_eq!(run_on("list --json", &url).expect_done(), "");
}

#[test]
fn tables_of_a_newer_program_are_left_alone() {
    let server = start(Server::builder().setting("fsync", "off"));
    run_on("migrate", &server.url()).expect_done();
    let newer = "INSERT INTO onceward.schema_version (version, what) VALUES (99, 'later')";
    RUNTIME.block_on(server.sql(newer));
    expect_refusals(&server.url(), "99", "newer");
}

#[test]
fn only_databases_are_migrated_and_only_folders_repaired() {
    let refused = run_on("migrate", "embedded:./data");
    let (error, hint) = refused.expect_failed();
    assert!(error.contains("embedded:./data"), "{error}");
    assert!(hint.contains("postgres://"), "{hint}");
    for line in ["repair", "repair --dry-run"] {
        let refused = run_on(line, "postgres://teller@127.0.0.1:1/postgres");
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("only an embedded store"), "{error}");
        assert!(hint.contains("backup"), "{hint}");
    }
}

#[test]
fn doctor_tells_what_the_server_is_set_to() {
    let server = start(Server::builder().setting("synchronous_commit", "off"));
    let looked = || {
        let mut command = onceward(["doctor", "--json", "--admin", "off"]);
        command.args([
            "--upstream",
            "http://127.0.0.1:1",
            "--listen",
            "127.0.0.1:0",
        ]);
        Run::of(command.env("ONCEWARD_STORE", server.url()))
    };
    let (state, said) = doctor::found(&looked(), "store");
    assert_eq!(state, "note", "{said}");
    assert!(said.contains("no tables yet"), "{said}");
    run_on("migrate", &server.url()).expect_done();
    let run = looked();
    let (state, said) = doctor::found(&run, "store");
    assert_eq!(state, "good", "{said}");
    let (state, said) = doctor::found(&run, "durability");
    assert!(state == "note" && said.starts_with("D1"), "{said}");
    let (state, said) = doctor::found(&run, "synchronous_commit");
    assert!(state == "note" && said.contains("off"), "{said}");
    let (_, said) = doctor::found(&run, "fsync");
    assert!(said.contains("on"), "{said}");
    assert_eq!(doctor::found(&run, "store clock").0, "good");
    assert!(doctor::found(&run, "server").1.contains("ms"));
    assert!(doctor::found(&run, "server_version").0 == "good");

    RUNTIME.block_on(server.sql("ALTER SYSTEM SET synchronous_commit = on; "));
    RUNTIME.block_on(server.sql("SELECT pg_reload_conf()"));
    let (state, said) = doctor::found(&looked(), "durability");
    assert!(state == "good" && said.starts_with("D2"), "{said}");
}

#[test]
fn strict_gateway_does_not_start_on_a_server_that_can_forget() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("onceward.toml");
    std::fs::write(&config, "strict = true\n").unwrap();
    let server = start(Server::builder().setting("synchronous_commit", "off"));
    let mut command = onceward(OPENING[4].split_whitespace());
    command.arg("--config").arg(&config);
    let refused = Run::of(command.env("ONCEWARD_STORE", server.url()));
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("strict = true"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("D1"), "{}", refused.stderr);
}
