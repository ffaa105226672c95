//! `onceward plan`.

use serde_json::json;

use crate::{Run, onceward, run};

/// The load that the help works out.
const EXAMPLE: &str = "plan --rate 80 --deadline 10s --retry-horizon 90s --network 30s --clock 5s \
                       --margin 20% --key-bits 128 --duplicates 6%";

/// Returns `text` with each run of spaces made one, so that columns read as words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn table_says_what_the_load_needs() {
    let plan = run(EXAMPLE);
    let table = words(plan.expect_done());
    for said in [
        "retention 135 s",
        "deadline 10 s + retry horizon 90 s + network 30 s + clock 5 s",
        "records 12,960",
        "originals 75.2/s",
        "duplicates 4.8/s",
        "2,880 in 10 minutes",
        "collision risk 2.47e-31",
        "bytes (estimate)",
        "memory 17.6 MiB",
        "embedded 15.4 MiB",
        "postgres 17 MiB",
        "redis 20.1 MiB",
        "dynamodb 14.5 MiB",
    ] {
        assert!(table.contains(said), "{said:?} is not in {table}");
    }
    assert_eq!(plan.stderr, "");
}

#[test]
fn json_has_every_number() {
    let plan = run(&format!("{EXAMPLE} --json"));
    let wanted = json!({
        "retention_s": 135,
        "retention_needed_s": 135,
        "records": 12_960,
        "records_steady": 10_800,
        "originals_per_s": 75.2,
        "duplicates_per_s": 4.8,
        "duplicates_in_10_min": 2_880,
        "key_bits": 128,
        "answer_bytes": 1_024,
        "bytes_are": "estimate",
        "bytes": {
            "memory": 18_455_040,
            "embedded": 16_122_240,
            "postgres": 17_807_040,
            "redis": 21_047_040,
            "dynamodb": 15_215_040,
        },
        "warnings": [],
    });
    let mut answer = plan.expect_json();
    // Compared as text: the parser here does not promise the last digit of so small a number.
    answer
        .as_object_mut()
        .unwrap()
        .remove("collision_probability");
    assert!(plan.stdout.contains(r#""collision_probability":2.47e-31,"#));
    assert_eq!(answer, wanted);
    assert_eq!(plan.stderr, "");
}

#[test]
fn retention_too_short_is_warned_about() {
    let line = format!("{EXAMPLE} --retention 60s");
    let table = run(&line);
    assert!(words(table.expect_done()).contains("retention 60 s as given; callers need 135 s"));
    assert!(table.stderr.starts_with("warning: "), "{}", table.stderr);
    assert!(
        table.stderr.contains("runs the work again"),
        "{}",
        table.stderr
    );

    let machine = run(&format!("{line} --json"));
    let answer = machine.expect_json();
    assert_eq!(answer["retention_s"], 60);
    assert_eq!(answer["retention_needed_s"], 135);
    let warning = answer["warnings"][0].as_str().unwrap();
    assert_eq!(machine.stderr, format!("warning: {warning}\n"));
}

#[test]
fn retention_that_suffices_is_used_as_given() {
    let plan = run("plan --rate 80 --retention 24h --json");
    let answer = plan.expect_json();
    assert_eq!(answer["retention_s"], 86_400);
    assert_eq!(answer["warnings"], json!([]));
}

#[test]
fn bad_values_are_refused_with_a_hint() {
    for (option, value, problem, hint) in [
        ("--rate", "0", "is no load at all", "such as 80"),
        ("--rate", "0.0", "is no load at all", "such as 80"),
        ("--rate", "-5", "is negative", "plain number"),
        ("--rate", "NaN", "is not a plain number", "plain number"),
        ("--rate", "inf", "is not a plain number", "plain number"),
        ("--rate", "1e300", "is not a plain number", "plain number"),
        (
            "--rate",
            "99999999999999999999",
            "is too large",
            "up to 1000000000",
        ),
        ("--rate", "", "is empty", "plain number"),
        ("--deadline", "10", "has no unit", "such as 500ms"),
        ("--deadline", "-10s", "is negative", "such as 500ms"),
        (
            "--retry-horizon",
            "1.5h",
            "is not a whole number",
            "such as 500ms",
        ),
        ("--network", "10 parsecs", "unknown unit", "such as 500ms"),
        (
            "--clock",
            "99999999999999999999d",
            "is too large",
            "up to 36500d",
        ),
        ("--retention", "0s", "keeps nothing", "such as 24h"),
        ("--margin", "20", "has no % sign", "such as 20%"),
        ("--margin", "-1%", "is negative", "such as 20%"),
        ("--margin", "1001%", "is too large", "at most 1000%"),
        (
            "--duplicates",
            "101%",
            "is more than all requests",
            "from 0% to 100%",
        ),
        (
            "--duplicates",
            "NaN%",
            "is not a plain number",
            "such as 20%",
        ),
        (
            "--key-bits",
            "0",
            "is not a number of random bits",
            "from 1 to 512",
        ),
        (
            "--key-bits",
            "513",
            "is not a number of random bits",
            "from 1 to 512",
        ),
        (
            "--key-bits",
            "-8",
            "is not a number of random bits",
            "from 1 to 512",
        ),
        ("--answer-size", "1KB", "unknown unit", "such as 512B"),
        ("--answer-size", "2000TiB", "is too large", "up to 1024TiB"),
    ] {
        let rate = (option != "--rate").then_some(["--rate", "80"]);
        let args = ["plan", option, value].into_iter();
        let refused = Run::of(&mut onceward(args.chain(rate.into_iter().flatten())));
        let (error, advice) = refused.expect_failed();
        assert!(
            error.starts_with(&format!("{option} {value:?} ")),
            "{error}"
        );
        assert!(error.contains(problem), "{error}");
        assert!(advice.contains(hint), "{advice}");
    }
}

#[test]
fn retention_that_adds_up_to_nothing_is_refused() {
    let refused = run("plan --rate 1 --deadline 0s --retry-horizon 0s --network 0s --clock 0s");
    let (error, hint) = refused.expect_failed();
    assert!(error.contains("retention of zero"), "{error}");
    assert!(hint.contains("--retry-horizon"), "{hint}");
}

#[test]
fn largest_load_is_still_a_number() {
    let line = "plan --rate 1000000000 --retention 36500d --margin 1000% --key-bits 1 \
                --duplicates 100% --answer-size 1024TiB";
    let table = run(line);
    assert!(!table.expect_done().contains("inf"), "{}", table.stdout);

    let answer = run(&format!("{line} --json")).expect_json();
    assert_eq!(answer["collision_probability"], 1);
    assert!(answer["bytes"]["memory"].as_f64().unwrap().is_finite());
}

#[test]
fn help_teaches_what_the_numbers_mean() {
    let help = run("plan --help");
    let text = words(help.expect_done());
    for said in [
        "retention = deadline + retry horizon + network + clock",
        "records = rate x retention x (100% + margin)",
        "an estimate",
        "Example: onceward plan --rate 80",
        "12,960 records",
        "Requests with a key per second",
        "[default: 1KiB]",
    ] {
        assert!(text.contains(said), "{said:?} is not in {text}");
    }
}

#[test]
fn example_in_the_help_is_the_one_tested() {
    let help = run("plan --help");
    let text = words(&help.expect_done().replace('\\', " "));
    assert!(text.contains(&words(EXAMPLE)), "{text}");
}
