//! Histories that break the promise, each named after the rule that has to find it.
//!
//! `refused` says that the search for an order must refuse the history too; `blind` that it
//! cannot tell, mostly because what is wrong does not show in the answers.

/// Makes one test of every script: it breaks the rule that is named, and no other.
macro_rules! bad {
    ($($check:ident $wgl:ident $name:ident: $script:literal;)*) => {$(
        #[test]
        fn $name() {
            super::fails($script, onceward_rig::history::Check::$check, stringify!($wgl) == "refused");
        }
    )*};
}

mod effects;
mod owners;
mod runs;

use onceward_rig::history::{self, Check, History, wgl};

fn fails(script: &str, check: Check, refused: bool) {
    let history = History::script(script).unwrap();
    let report = history::check(&history);
    let mut broken: Vec<Check> = report.violations().iter().map(|it| it.check).collect();
    broken.dedup();
    assert_eq!(broken, [check], "{report}");

    let opinion = wgl::search(&history).unwrap();
    assert_eq!(!opinion.refused.is_empty(), refused, "{opinion:?}");
}
