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
    let line = format!(
        "{{\"proof\":{proof:?},\"trials\":{trials},{seeds}\"violations\":0,\"note\":{note:?}}}\n"
    );
    let file = OpenOptions::new().create(true).append(true).open(file);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("the file of the tally can be written");
}
