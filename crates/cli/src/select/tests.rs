//! Names and filters, as command lines give them.

use clap::Parser as _;
use onceward::testing::{ExpectVerdict as _, World};

use super::*;

/// A command line of these options alone.
#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn which(options: &str) -> Result<Which, Failure> {
    let words = std::iter::once("x").chain(options.split_whitespace());
    Line::try_parse_from(words).unwrap().args.which()
}

fn refused_by_clap(options: &str) -> bool {
    let words = std::iter::once("x").chain(options.split_whitespace());
    Line::try_parse_from(words).is_err()
}

fn name(options: &str) -> Name {
    match which(options).unwrap() {
        Which::One(name) => name,
        Which::Passing(sieve) => panic!("not a name: {sieve:?}"),
    }
}

fn sieve(options: &str) -> Sieve {
    match which(options).unwrap() {
        Which::Passing(sieve) => sieve,
        Which::One(name) => panic!("not a filter: {name:?}"),
    }
}

#[test]
fn key_with_its_scope_names_one_record() {
    let slot = Slot::new(Scope::new("acct", "pay"), Key::parse("k1").unwrap());
    let named = name("--tenant acct --operation pay --key k1");
    assert_eq!(named, Name::Key(slot));
}

#[test]
fn key_without_its_scope_names_nothing() {
    for options in ["--key k1", "--key k1 --tenant t", "--key k1 --operation o"] {
        assert!(which(options).is_err(), "{options}");
    }
}

#[test]
fn name_and_filter_exclude_each_other() {
    for options in [
        "--slot 01234567 --tenant t",
        "--slot 01234567 --state open",
        "--slot 01234567 --older-than 2h",
        "--tenant t --operation o --key k --state open",
        "--tenant t --operation o --key k --older-than 2h",
    ] {
        assert!(refused_by_clap(options), "{options}");
    }
}

#[test]
fn parts_of_a_filter_add_up() {
    let sieve = sieve("--tenant t --operation o --state unknown --older-than 2h");
    assert!(!sieve.is_empty());
    assert_eq!(sieve.filter.tenant.as_deref(), Some("t"));
    assert_eq!(sieve.filter.operation.as_deref(), Some("o"));
    assert_eq!(sieve.filter.state, Some(StateName::Unknown));
    assert_eq!(sieve.older_than, Some(Duration::from_secs(7_200)));
}

#[test]
fn each_part_makes_a_filter_and_none_makes_none() {
    assert!(sieve("").is_empty());
    for options in [
        "--tenant t",
        "--operation o",
        "--state open",
        "--older-than 1s",
    ] {
        assert!(!sieve(options).is_empty(), "{options}");
    }
}

#[test]
fn keys_and_scopes_are_checked() {
    let key = "k".repeat(Key::LEN_MAX + 1);
    let tenant = "t".repeat(Scope::LEN_MAX + 1);
    assert!(which(&format!("--tenant t --operation o --key {key}")).is_err());
    assert!(which(&format!("--tenant {tenant} --operation o --key k")).is_err());
    assert!(state("expired").is_err());
}

#[tokio::test]
async fn named_record_is_found() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let found = name("--tenant alice --operation pay --key k1");
    let found = found.find(&world.engine).await.unwrap().unwrap();
    assert_eq!(found.slot, world.id("k1").await);

    let absent = name("--tenant alice --operation pay --key k2");
    assert!(absent.find(&world.engine).await.unwrap().is_none());
    drop(claim);
}

#[tokio::test]
async fn looking_for_a_key_in_an_unused_store_changes_nothing() {
    let world = World::new();
    let name = name("--tenant alice --operation pay --key k1");
    assert!(name.find(&world.engine).await.unwrap().is_none());
    assert!(!is_used(&world.engine).await.unwrap());
}

#[tokio::test]
async fn age_is_counted_by_the_clock_of_the_store() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let passing = async || {
        let filter = sieve("--older-than 2h")
            .filter(&world.engine)
            .await
            .unwrap();
        let page = world.engine.list(&filter, None, 10).await.unwrap();
        page.value.records.len()
    };
    assert_eq!(passing().await, 0);
    world.clock.advance(Duration::from_secs(7_200));
    assert_eq!(passing().await, 0);
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(passing().await, 1);
    drop(claim);
}
