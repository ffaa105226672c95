//! Histories that keep the promise, most of them with operations nobody knows the end of.
//!
//! Each must pass, and an order must be found for each. Times before `-` are questions, after it
//! answers; a missing answer is a crash or a timeout.

/// Makes one test of every script.
macro_rules! good {
    ($($name:ident: $script:literal;)*) => {$(
        #[test]
        fn $name() {
            super::passes($script);
        }
    )*};
}

mod calm;
mod faults;
mod settled;

use onceward_rig::history::{self, History, wgl};

fn passes(script: &str) {
    let history = History::script(script).unwrap();
    let report = history::check(&history);
    assert!(report.is_pass(), "{report}");

    let opinion = wgl::search(&history).unwrap();
    assert_eq!(opinion.refused, [], "no order explains it");
}
