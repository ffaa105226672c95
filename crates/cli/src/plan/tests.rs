//! The arithmetic by hand, and at its limits.

use std::time::Duration;

use clap::Parser as _;

use super::{
    Args, Capacity, Figure, Load, METHOD,
    capacity::{Bytes, OVERHEAD},
    table, warnings,
};

/// The load that the help works out.
const EXAMPLE: &str = "--rate 80 --deadline 10s --retry-horizon 90s --network 30s --clock 5s \
                       --margin 20% --key-bits 128 --duplicates 6%";

/// A command line of this command alone.
#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(options: &str) -> Args {
    let words = std::iter::once("plan").chain(options.split_whitespace());
    Line::try_parse_from(words).unwrap().args
}

fn plan(options: &str) -> (Load, Capacity) {
    let load = args(options).load().unwrap();
    (load, Capacity::of(&load))
}

#[test]
fn example_comes_out_as_worked_by_hand() {
    let (load, capacity) = plan(EXAMPLE);

    assert_eq!(load.retention, Duration::from_secs(135));
    assert_eq!(capacity.records, 12_960);
    assert_eq!(capacity.records_steady, 10_800);
    assert_eq!(capacity.originals_per_s, Figure(75.2));
    assert_eq!(capacity.duplicates_per_s, Figure(4.8));
    assert_eq!(capacity.duplicates_in_10_min, Figure(2_880.0));
    assert_eq!(capacity.collision_probability, Figure(2.47e-31));
    let bytes = Bytes {
        memory: 12_960 * 1_424,
        embedded: 12_960 * 1_244,
        postgres: 12_960 * 1_374,
        redis: 12_960 * 1_624,
        dynamodb: 12_960 * 1_174,
    };
    assert_eq!(capacity.bytes, bytes);
    assert!(warnings(&load, &capacity).is_empty());
}

#[test]
fn bodies_that_go_first_are_counted_by_themselves() {
    let (load, capacity) = plan("--rate 10 --retention 1000s --keep-body 100s --margin 0%");
    let bodies = capacity.bodies.unwrap();
    assert_eq!((capacity.records, bodies.records), (10_000, 1_000));
    assert_eq!(bodies.bytes_if_they_stayed.embedded, 10_000 * 1_244);
    // Nine of ten are without the 768 bytes of their body.
    let wanted = 10_000 * (220 + 256) + 1_000 * 768;
    assert_eq!(capacity.bytes.embedded, wanted);
    let told = table::of(&load, &capacity);
    assert!(
        told.contains("1,000  of them, which are younger than 100 s"),
        "{told}"
    );
    assert!(told.contains(" if bodies stayed"), "{told}");
    let warned = warnings(&load, &capacity);
    assert!(
        warned
            .iter()
            .any(|it| it.starts_with("bodies are kept for 100 s")),
        "{warned:?}"
    );

    let small = plan("--rate 10 --retention 1000s --keep-body 1s --answer-size 100B").1;
    assert_eq!(small.bytes, small.bodies.unwrap().bytes_if_they_stayed);
    assert!(
        args("--rate 1 --retention 10s --keep-body 10s")
            .load()
            .is_err()
    );
    assert_eq!(plan("--rate 10 --retention 1000s").1.bodies, None);
}

#[test]
fn records_round_up_from_the_exact_product() {
    // In floating point 10 x 10 x 1.1 is 110.00000000000001, which would round up to 111.
    let exact = plan("--rate 10 --retention 10s --margin 10%").1;
    assert_eq!(exact.records, 110);

    let part = plan("--rate 0.001 --retention 1s --margin 0%").1;
    assert_eq!(part.records, 1);
}

#[test]
fn given_retention_replaces_the_sum() {
    let (load, capacity) = plan(&format!("{EXAMPLE} --retention 60s"));

    assert_eq!(capacity.records, 80 * 60 * 12 / 10);
    assert_eq!(capacity.retention_s, Figure(60.0));
    assert_eq!(capacity.retention_needed_s, Figure(135.0));
    let told = warnings(&load, &capacity);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("60 s is shorter than the 135 s"),
        "{told:?}"
    );
}

#[test]
fn retention_that_suffices_is_not_warned_about() {
    for retention in ["135s", "24h"] {
        let (load, capacity) = plan(&format!("{EXAMPLE} --retention {retention}"));
        assert!(warnings(&load, &capacity).is_empty(), "{retention}");
    }
}

#[test]
fn short_keys_collide() {
    let (load, certain) = plan("--rate 80 --key-bits 1");
    assert_eq!(certain.collision_probability, Figure(1.0));
    assert_eq!(warnings(&load, &certain).len(), 1);

    // 23 people, 365 birthdays: the textbook says 0.507 where the bound says about a half.
    let (_, even) = plan("--rate 23 --retention 1s --margin 0% --key-bits 9");
    let Figure(risk) = even.collision_probability;
    assert!((0.38..0.40).contains(&risk), "{risk}");
}

#[test]
fn lone_record_cannot_collide() {
    let (_, capacity) = plan("--rate 1 --retention 1s --margin 0% --key-bits 1");
    assert_eq!(capacity.records, 1);
    assert_eq!(capacity.collision_probability, Figure(0.0));
}

#[test]
fn limits_of_all_inputs_stay_finite() {
    let (load, capacity) = plan(
        "--rate 1000000000 --deadline 36500d --retry-horizon 36500d --network 36500d \
         --clock 36500d --margin 1000% --key-bits 512 --duplicates 100% --answer-size 1024TiB",
    );

    assert_eq!(capacity.records, 11 * 4 * 36_500 * 86_400 * 1_000_000_000);
    assert_eq!(capacity.originals_per_s, Figure(0.0));
    assert!(capacity.collision_probability.0 > 0.0);
    let shown = table::of(&load, &capacity) + &serde_json::to_string(&capacity).unwrap();
    for word in ["inf", "NaN", "null"] {
        assert!(!shown.contains(word), "{shown}");
    }
}

#[test]
fn smallest_inputs_stay_above_zero() {
    let options = "--rate 0.000001 --retention 1ms --margin 0% --duplicates 0.000001%";
    let (_, capacity) = plan(options);
    assert_eq!(capacity.records, 1);
    assert_eq!(capacity.duplicates_per_s, Figure(1e-14));
}

#[test]
fn durations_of_zero_keep_nothing() {
    let nothing = "--rate 1 --deadline 0s --retry-horizon 0s --network 0s --clock 0s";
    assert!(args(nothing).load().is_err());
    assert!(args(&format!("{nothing} --retention 1s")).load().is_ok());
}

#[test]
fn every_option_but_the_rate_has_a_default() {
    let (load, capacity) = plan("--rate 1");
    assert_eq!(load.retention, Duration::from_secs(3_600 + 60 + 30 + 5));
    assert!(warnings(&load, &capacity).is_empty());
}

#[test]
fn columns_are_aligned() {
    let (load, capacity) = plan(EXAMPLE);
    let table = table::of(&load, &capacity);
    let line = |what| table.lines().find(|line| line.starts_with(what)).unwrap();
    let end = |what, amount: &str| line(what).find(amount).unwrap() + amount.len();

    assert_eq!(end("retention", "135 s"), end("records", "12,960"));
    assert_eq!(end("retention", "135 s"), end("memory", "17.6 MiB"));
    assert!(table.lines().all(|line| line.trim_end() == line), "{table}");
}

#[test]
fn help_names_the_overheads_that_count() {
    for (store, overhead) in OVERHEAD.by_store() {
        let said = format!("{store} {overhead} B");
        assert!(METHOD.contains(&said), "{said}");
    }
}
