//! Onceward makes work safe to retry.
//!
//! A caller names a piece of work with an idempotency [`Key`]; an [`Engine`] sees to it that the
//! work is done at most once for that key, and that every retry gets the first answer back, byte
//! for byte. Where nobody can know whether the work happened, it says so.
//!
//! ```
//! use onceward::{Done, Engine, Fingerprint, Key, MemoryStore, Policy, Scope, Slot};
//!
//! # #[derive(Debug)]
//! # struct CardError;
//! # impl CardError { fn never_sent(&self) -> bool { true } }
//! # impl std::fmt::Display for CardError {
//! #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("no line") }
//! # }
//! # impl std::error::Error for CardError {}
//! # async fn charge_card(key: &Key) -> Result<String, CardError> { Ok(format!("paid {}", key.as_str())) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(MemoryStore::new(), Policy::default());
//! let slot = Slot::new(Scope::new("acct_42", "pay"), Key::parse("order-1001")?);
//! let fingerprint = Fingerprint::of(br#"{"amount":100}"#);
//!
//! let answer = engine
//!     .run(&slot, fingerprint, |attempt| async move {
//!         match charge_card(attempt.key()).await {
//!             Ok(charge) => Done::outcome(charge),
//!             Err(e) if e.never_sent() => Done::not_executed(e),
//!             Err(e) => Done::unknown(e),
//!         }
//!     })
//!     .await?;
//! assert_eq!(answer.outcome.body().unwrap(), "paid order-1001");
//! # Ok(())
//! # }
//! ```
//!
//! [`Engine::begin`] gives the same in the caller's own hands, as a [`Verdict`].
//!
//! # What is promised
//!
//! It depends on what is known about the work, which is its [`Effect`], and on what the store's
//! acknowledged writes survive, which is its [`Durability`]. Opaque work, the default, is done *at
//! most once*: when its holder vanishes the outcome is unknown until somebody settles it. Work
//! that commits with its record, that the service behind deduplicates, or that can be fenced and
//! asked about, is done *exactly once*.
//!
//! # Where to look
//!
//! [`protocol::decide`] is the one state machine. [`Store`] is the contract of a store, and
//! [`MemoryStore`] its reference. [`record`] says what a slot holds, [`codec`] how that looks as
//! bytes, and [`clock`] whose time counts.

#[doc(hidden)]
pub mod bugs;
mod claim;
pub mod clock;
pub mod codec;
mod engine;
mod fence;
mod fingerprint;
mod keeper;
mod key;
mod meters;
mod outcome;
mod policy;
pub mod protocol;
mod reach;
pub mod record;
mod secret;
mod slot;
pub mod store;
#[cfg(not(any(onceward_shuttle, onceward_loom)))]
mod sync;
#[cfg(any(onceward_shuttle, onceward_loom))]
#[doc(hidden)]
pub mod sync;
mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod verdict;
mod wait;

pub use claim::{Claim, Duty, EndError, Kept, PointError};
pub use clock::Timestamp;
pub use engine::{
    Answer, Attempt, Builder, By, Done, Engine, Error, Found, Limits, NotSettled, Pace, Resolution,
    RunError, Settled, Sight, Sweeper,
};
pub use fence::Fence;
pub use fingerprint::{Fingerprint, FingerprintBuilder, Seal};
pub use key::{InvalidKey, Key};
pub use outcome::{Body, Ending, Outcome};
pub use policy::{Effect, OnBusy, Policy};
pub use protocol::{Arrival, Identity, Rules, Suspicion, Then};
pub use record::{Reason, Record, State};
pub use secret::{InvalidSecret, Secret};
pub use slot::{InvalidScope, Scope, Slot, SlotId};
pub use store::memory::MemoryStore;
pub use store::{BoxError, Durability, Store};
pub use verdict::{Busy, Elsewhere, Replay, Twin, Unsettled, Verdict};
