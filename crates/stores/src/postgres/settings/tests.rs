//! Tests of the settings.

use super::*;

fn parsed(text: &str) -> Settings {
    text.parse().unwrap()
}

#[test]
fn a_password_is_never_shown() {
    for url in [
        "postgres://app:hunter2@db/shop",
        "postgresql://app:hunter2@db/shop?schema=keys",
        "postgres://db/shop?user=app&password=hunter2",
        "postgres://app:x%40hunter2@db:1,db2:2/shop",
    ] {
        let settings = parsed(url);
        assert!(settings.has_password());
        let shown = format!("{settings} {settings:?} {}", settings.place());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn what_is_wrong_is_said_without_the_password() {
    for url in [
        "postgres://app:hunter2@db:port/shop",
        "postgres://app:hunter2@db/shop?connections=0",
        "postgres://app:hunter2@db/shop?unknown=1",
        "postgres://app:hunter2@db/shop?schema=a%22b",
        "postgres://app:hunter2@db/shop?timeout=5",
        "postgres://app:hunter2@db/shop?sslcert=x",
        "postgres://app:hunter2@db/shop?password=%ff",
        "postgres://app:hunter2@@db/shop",
        "postgres://app:pass@hunter2@db/shop",
    ] {
        let wrong = url.parse::<Settings>().unwrap_err();
        assert!(!format!("{wrong} {wrong:?}").contains("hunter2"), "{wrong}");
    }
}

#[test]
fn every_parameter_of_ours_is_taken() {
    let settings = parsed(
        "postgres://a@h/d?schema=s&prefix=p_&connections=2&timeout=800ms&migrate=off\
         &failover=never&sslmode=verify-full&sslrootcert=%2Fca.pem&connect_timeout=1",
    );
    assert_eq!(settings.table("records"), r#""s"."p_records""#);
    assert_eq!(settings.channel(), "onceward_s_p_");
    assert_eq!((settings.connections, settings.migrates), (2, false));
    assert_eq!(settings.timeout, Duration::from_millis(800));
    assert!(!settings.promotes);
    assert_eq!(settings.verify, Verify::Host);
    assert_eq!(settings.tls.root, Some("/ca.pem".into()));
    let config = settings.config();
    assert_eq!(config.get_ssl_mode(), SslMode::Require);
    assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(1)));
}

#[test]
fn what_a_url_leaves_out_has_a_default() {
    let settings = parsed("postgres://db");
    assert_eq!(settings.table("records"), r#""onceward"."records""#);
    assert_eq!((settings.connections, settings.migrates), (4, true));
    assert_eq!(settings.timeout, Duration::from_secs(5));
    let config = settings.config();
    assert_eq!(config.get_application_name(), Some("onceward"));
}

#[test]
fn a_root_that_is_named_is_a_root_to_be_held_to() {
    let settings = parsed("postgres://db/d?sslmode=require&sslrootcert=ca.pem");
    assert_eq!(settings.verify, Verify::Signature);
}

#[test]
fn the_systems_roots_are_believed_with_the_hosts_name_alone() {
    let settings = parsed("postgres://db/d?sslrootcert=system");
    assert_eq!(settings.verify, Verify::Host);
    assert_eq!(settings.config().get_ssl_mode(), SslMode::Require);
    for mode in ["disable", "prefer", "require", "verify-ca"] {
        let url = format!("postgres://db/d?sslmode={mode}&sslrootcert=system");
        assert!(url.parse::<Settings>().is_err(), "{mode}");
    }
    let rootless = "postgres://db/d?sslmode=verify-ca".parse::<Settings>();
    let wrong = rootless.unwrap_err().to_string();
    assert_eq!(wrong, "sslmode=verify-ca needs sslrootcert");
}

#[test]
fn an_address_without_a_name_is_its_own() {
    let settings = parsed("postgres:///shop?hostaddr=127.0.0.1");
    let hosts = settings.config().get_hosts().to_vec();
    assert_eq!(hosts, [Host::Tcp("127.0.0.1".to_owned())]);
    assert_eq!(settings.place(), "127.0.0.1:5432/shop");
}

#[test]
fn other_schemas_have_other_locks() {
    let lock = |url: &str| parsed(url).lock("sweep");
    assert_eq!(lock("postgres://a/d"), lock("postgres://b/d"));
    assert_ne!(lock("postgres://a/d"), lock("postgres://a/d?schema=s"));
    assert_ne!(
        lock("postgres://a/d?schema=ab&prefix=c"),
        lock("postgres://a/d?schema=a&prefix=bc")
    );
}
