//! Prints the table of a run's proofs, and says by its exit code whether they hold.
//!
//! `onceward-tally FILE`: 0 when every proof was tried and none broke, 1 when one broke, was
//! never tried, or there is none; 2 when the file cannot be read.

use std::{env, error::Error, fs::File, io::BufReader, process::ExitCode};

use onceward_rig::tally::Tally;

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let (Some(file), None) = (args.next(), args.next()) else {
        eprintln!("usage: onceward-tally FILE");
        return ExitCode::from(2);
    };
    match read(&file) {
        Ok(tally) => {
            print!("{tally}");
            verdict(&tally)
        }
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            eprintln!("hint: the proofs write it when ONCEWARD_TALLY names it");
            ExitCode::from(2)
        }
    }
}

fn read(file: &std::ffi::OsStr) -> Result<Tally, Box<dyn Error>> {
    Ok(Tally::read(BufReader::new(File::open(file)?))?)
}

fn verdict(tally: &Tally) -> ExitCode {
    if tally.is_clean() {
        return ExitCode::SUCCESS;
    }
    if tally.rows.is_empty() {
        eprintln!("no proof was counted");
    }
    for row in tally.rows.iter().filter(|row| !row.is_clean()) {
        eprintln!(
            "{}: {} violations in {} trials",
            row.proof, row.violations, row.trials
        );
    }
    ExitCode::from(1)
}
