//! Histories: a run written down, and the judge that reads it.
//!
//! A [`History`] holds what every process asked and was answered, which effects the service behind
//! accepted, and how every slot ended. [`check()`] says whether the promise was kept, by twelve
//! rules ([`Check`]) in time linear in the events. [`wgl`] is a second opinion on short ones,
//! which knows nothing of those rules: it looks for an order in which a plain slot could have
//! given the same answers.
//!
//! ```
//! use onceward_rig::history::{self, History};
//!
//! let history = History::script(
//!     "1-2  claim pay -> granted 1
//!      3    effect 1 receipt
//!      4-   complete 1 receipt             # the reply was lost
//!      5-6  claim pay -> replayed receipt
//!      9    end completed receipt",
//! )?;
//! assert!(history::check(&history).is_pass());
//! # Ok::<(), history::ReadError>(())
//! ```

mod check;
mod event;
mod generation;
mod jsonl;
mod lineage;
mod log;
mod op;
mod orders;
mod report;
mod script;
mod sight;
pub mod wgl;
mod witness;

use std::collections::BTreeMap;

pub use self::{
    check::check,
    event::{Answer, Class, Event, Fence, Kind, Verb},
    orders::{Order, check_orders},
    report::{Check, Counts, Judgement, Report, Violation},
    witness::{Expectations, FinalRead, LedgerRow, State, Totals},
};

/// Everything that is known about one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What the processes asked and learned. Those of one process are in its order; the order
    /// between processes is told by their times.
    pub events: Vec<Event>,

    /// The effects that the service behind accepted.
    pub ledger: Vec<LedgerRow>,

    /// The state of every slot after the run.
    pub finals: Vec<FinalRead>,

    /// How often each kind of fault was injected.
    pub faults: BTreeMap<String, u64>,

    /// What the run is held against.
    pub expectations: Expectations,
}

/// Why a text is not a history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A line is not one of ours.
    #[error("line {line}: {reason}")]
    Line {
        /// Counted from one.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },

    /// The text could not be read to its end.
    #[error("history cannot be read after line {line}")]
    Io {
        /// The last line that was read.
        line: usize,
        /// What the reader said.
        source: std::io::Error,
    },
}
