//! A row of the tally, as `onceward-rig` reads it. The rig depends on this crate, so the line is
//! written here.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::ops::Range;

/// Adds a row to the file that `ONCEWARD_TALLY` names, if it names one.
pub(crate) fn record(proof: &str, trials: usize, seeds: Option<Range<u64>>, note: &str) {
    let Some(file) = std::env::var_os("ONCEWARD_TALLY") else {
        return;
    };
    let seeds = seeds.map_or(String::new(), |Range { start, end }| {
        format!("\"seeds\":[{{\"start\":{start},\"end\":{end}}}],")
    });
    let (proof, note) = (json(proof), json(note));
    let line = format!(
        "{{\"proof\":{proof},\"trials\":{trials},{seeds}\"violations\":0,\"note\":{note}}}\n"
    );
    let file = OpenOptions::new().create(true).append(true).open(file);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("the file of the tally can be written");
}

/// A text as JSON has it, which is not as Rust has it.
fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '\0'..='\x1f' => quoted.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

#[test]
fn a_text_is_quoted_as_json_has_it() {
    assert_eq!(
        json("a \"b\" \\ \n ’\u{7f}"),
        "\"a \\\"b\\\" \\\\ \\u000a ’\u{7f}\""
    );
}
