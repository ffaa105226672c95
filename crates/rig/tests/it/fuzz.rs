//! What fuzzing found worth keeping: every input of every corpus keeps the rules.

use std::fs;
use std::path::Path;

use onceward_rig::fuzz::{TARGETS, Target};
use onceward_rig::tally::Tally;

/// The inputs of a target, by name.
fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = fs::read_dir(folder.join(target.name)).expect("every target has a corpus");
    let files = files.map(|file| file.unwrap().path());
    let mut inputs: Vec<_> = files
        .map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(file).unwrap())
        })
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn every_input_of_every_corpus_keeps_the_rules() {
    let mut inputs = 0;
    for target in TARGETS {
        let corpus = corpus(target);
        assert!(corpus.len() >= 10, "{} has next to no corpus", target.name);
        inputs += corpus.len() as u64;
        for (name, input) in &corpus {
            // Said only where it matters: the panic itself tells the rest.
            let kept = std::panic::catch_unwind(|| (target.check)(input));
            assert!(kept.is_ok(), "fuzz/corpus/{}/{name}", target.name);
        }
    }
    Tally::record("fuzzing, corpus", inputs, None, 0, "every committed input");
}

#[test]
fn every_target_has_a_program_and_nothing_else_has() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/targets");
    let mut programs: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    programs.sort();
    let targets: Vec<String> = TARGETS.iter().map(|it| format!("{}.rs", it.name)).collect();
    assert_eq!(programs, targets);
}

#[test]
fn nothing_at_all_keeps_the_rules() {
    for target in TARGETS {
        (target.check)(b"");
        (0..=255).for_each(|byte| (target.check)(&[byte]));
    }
}
