//! Idempotency keys over HTTP: a tower layer that makes any service safe to retry.
//!
//! [`IdempotentLayer`] gives a service `Idempotency-Key` semantics: a request with a key is
//! executed at most once, every retry gets the first answer back byte for byte, another payload
//! under the same key is refused, and where nobody can know whether the work happened the answer
//! says so. [`Terms`] say what holds for a route; [`Guard::handle`] is the whole behaviour, which
//! the gateway shares.
//!
//! # Where to look
//!
//! `read` takes a request in, `execute` carries it out under a claim, `snapshot` is how a record
//! keeps an answer, and [`problem`] is every refusal, with its status.

mod admit;
mod answer;
mod arrive;
#[cfg(feature = "axum")]
pub mod axum;
mod body;
mod derive;
mod describe;
mod detach;
mod execute;
mod executor;
mod fields;
mod fingerprint;
mod flow;
mod guard;
mod handled;
pub mod headers;
mod holder;
#[doc(hidden)]
pub mod inside;
mod key;
mod layer;
mod operations;
mod prefer;
pub mod problem;
mod profile;
pub mod quota;
mod read;
mod rules;
mod service;
mod snapshot;
mod statuses;
mod terms;

pub use body::{AnswerBody, Cut, RequestBody, Whole};
pub use describe::{headers_of, is_kept, status_of};
pub use executor::{Execute, Probe, Probed};
pub use fields::{Field, Fields, FieldsDigest, InvalidField, MissingFields, PathFields};
pub use fingerprint::{BodyRule, FingerprintRules, InvalidPointer, Pointer};
pub use guard::Guard;
pub use handled::Handled;
pub use key::KeySource;
pub use layer::IdempotentLayer;
pub use operations::OPERATIONS;
pub use profile::Profile;
pub use rules::{SuspectRule, UniqueRule};
pub use service::{Boxed, Idempotent, NotExecuted, ResponseFuture};
pub use snapshot::outcome;
pub use statuses::{ClashingStatuses, Fate, StatusPattern, Statuses};
pub use terms::{KeyNeed, OnBusy, Terms};
