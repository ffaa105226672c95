//! Settling in a world whose claims lapse when the test says so.

use clap::Parser as _;
use onceward::{
    Outcome, State,
    testing::{ExpectVerdict as _, World},
};

use super::*;

/// A command line of these options alone.
#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    select: select::Args,
}

fn which(options: &str) -> Which {
    let words = std::iter::once("x").chain(options.split_whitespace());
    Line::try_parse_from(words).unwrap().select.which().unwrap()
}

fn settling(resolution: Resolution) -> Settling {
    Settling {
        resolution,
        by: By {
            who: "ann".into(),
            why: "seen in the ledger".into(),
        },
        dry_run: false,
    }
}

/// Settles the record under `key`.
async fn one(world: &World, settling: &Settling, key: &str) -> Result<Vec<String>, Failure> {
    let Which::One(name) = which(&format!("--tenant alice --operation pay --key {key}")) else {
        panic!("a key names one record");
    };
    let answer = settling.one(&world.engine, &name).await?;
    Ok(answer.slots)
}

/// Settles whatever passes.
async fn all(world: &World, settling: &Settling, filter: &str) -> usize {
    let Which::Passing(sieve) = which(filter) else {
        panic!("not a filter");
    };
    let answer = settling.all(&world.engine, sieve).await.unwrap();
    answer.slots.len()
}

/// Leaves a claim under `key` whose holder falls silent.
async fn lapse(world: &World, key: &str) {
    drop(world.begin(key).await.expect_claim());
    world.clock.advance(world.policy.lease);
}

#[tokio::test]
async fn lapsed_claim_can_be_settled_either_way() {
    let world = World::new();
    lapse(&world, "k1").await;
    lapse(&world, "k2").await;
    let completed = settling(Resolution::Completed(Outcome::success("paid")));
    let id = world.id("k1").await.to_string();
    assert_eq!(one(&world, &completed, "k1").await.unwrap(), [id]);
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");

    let released = settling(Resolution::NotExecuted);
    one(&world, &released, "k2").await.unwrap();
    let record = world.record("k2").await.unwrap();
    assert_eq!(record.state, State::Open);
    assert_eq!(&*record.audit[0].who, "ann");
    assert_eq!(&*record.audit[0].why, "seen in the ledger");
    drop(world.begin("k2").await.expect_claim());
}

#[tokio::test]
async fn nothing_but_the_unknown_is_settled_and_the_state_is_named() {
    let world = World::new();
    let settling = settling(Resolution::NotExecuted);
    let refused = async |key| format!("{:?}", one(&world, &settling, key).await.unwrap_err());

    let claim = world.begin("k1").await.expect_claim();
    let live = refused("k1").await;
    assert!(live.contains("is claimed, not unknown"), "{live}");
    assert!(live.contains("lapses in 30s"), "{live}");

    claim.complete("paid").await.unwrap();
    let done = refused("k1").await;
    assert!(done.contains("is completed, not unknown"), "{done}");

    lapse(&world, "k2").await;
    one(&world, &settling, "k2").await.unwrap();
    let open = refused("k2").await;
    assert!(open.contains("is open, not unknown"), "{open}");
}

#[tokio::test]
async fn absent_and_expired_records_are_nothing_to_settle() {
    let world = World::new();
    let settling = settling(Resolution::NotExecuted);
    assert!(one(&world, &settling, "k1").await.unwrap().is_empty());

    let claim = world.begin("k1").await.expect_claim();
    claim.complete("paid").await.unwrap();
    world.clock.advance(world.policy.retention);
    assert!(one(&world, &settling, "k1").await.unwrap().is_empty());
}

#[tokio::test]
async fn filter_settles_what_passes_and_leaves_the_rest() {
    let world = World::new();
    lapse(&world, "k1").await;
    lapse(&world.tenant("bob"), "k1").await;
    let claim = world.begin("k2").await.expect_claim();
    let settling = settling(Resolution::NotExecuted);

    assert_eq!(all(&world, &settling, "--tenant bob").await, 1);
    assert_eq!(all(&world, &settling, "--tenant bob").await, 0);
    assert_eq!(all(&world, &settling, "").await, 1);
    claim.complete("paid").await.unwrap();
}

#[tokio::test]
async fn dry_run_settles_nothing() {
    let world = World::new();
    lapse(&world, "k1").await;
    let dry = Settling {
        dry_run: true,
        ..settling(Resolution::NotExecuted)
    };
    let before = world.record("k1").await;
    assert_eq!(one(&world, &dry, "k1").await.unwrap().len(), 1);
    assert_eq!(all(&world, &dry, "--state claimed").await, 1);
    assert_eq!(world.record("k1").await, before);
}
