//! What URLs are understood, and what is said about the others.

use super::*;

fn settings(text: &str) -> Settings {
    text.parse().unwrap()
}

fn refused(text: &str) -> String {
    text.parse::<Settings>().unwrap_err().to_string()
}

#[test]
fn a_plain_url_names_one_server() {
    let found = settings("redis://keys");
    assert_eq!(found.servers, Servers::One);
    assert_eq!(found.place(), "keys:6379/0");
    assert_eq!(found.prefix(), "onceward");
    assert!(!found.has_tls);
    assert!(settings("rediss://keys").has_tls);
}

#[test]
fn sentinels_name_a_service() {
    let found = settings("redis+sentinel://a,b:1,[::1]:2/mymaster/3?tls=on");
    assert_eq!(found.servers, Servers::Sentinels("mymaster".to_owned()));
    assert_eq!(found.place(), "a:26379,b:1,[::1]:2/mymaster/3");
    assert_eq!(found.database, 3);
    assert!(found.has_tls);
    assert!(refused("redis+sentinel://a").contains("service"));
}

#[test]
fn a_cluster_has_many_nodes_and_one_database() {
    let found = settings("redis+cluster://a,b:1");
    assert_eq!(found.servers, Servers::Cluster);
    assert_eq!(found.place(), "a:6379,b:1");
    assert!(refused("redis+cluster://a/1").contains("database"));
    assert!(refused("redis://a,b").contains("several hosts"));
}

#[test]
fn a_password_is_never_shown() {
    for url in [
        "redis://u:sec%40ret@h/1?wait=1",
        "redis+cluster://:sec@ret@h",
    ] {
        let found = settings(url);
        assert_eq!(found.password().as_deref(), Some("sec@ret"));
        for text in [found.to_string(), format!("{found:?}"), found.place()] {
            assert!(!text.contains("ret"), "{text}");
        }
        assert_eq!(settings(&found.to_string()).hosts, found.hosts);
    }
    assert!(!refused("redis://h?password=secret").contains("secret"));
}

#[test]
fn what_is_no_setting_is_refused() {
    for wrong in [
        "redis://h?x=1",
        "redis://h?connections=0",
        "redis://h?connections=65",
        "redis://h?timeout=5",
        "redis://h?prefix={a}",
        "redis://h?prefix=",
        "redis://h?failover=maybe",
        "redis://h/x",
        "redis://",
        "redis://h:port",
        "rediss://h?tls=off",
        "redis://h?sslrootcert=ca.pem",
        "rediss://h?sslcert=a.pem",
        "redis://h?wait=1&wait_timeout=5s",
    ] {
        refused(wrong);
    }
}

#[test]
fn failover_is_expected_where_something_could_promote() {
    assert!(!settings("redis://h").may_fail_over());
    assert!(settings("redis+cluster://h").may_fail_over());
    assert!(settings("redis+sentinel://h/s").may_fail_over());
    assert!(!settings("redis+sentinel://h/s?failover=never").may_fail_over());
}
