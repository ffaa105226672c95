//! HTTP/1 on the wire: what the server and the client of the upstream read and write alike.
//!
//! One reading and one writing, for a rule that stands twice becomes two rules. Nothing here does
//! I/O of its own, and nothing knows whether it is a request or an answer that it is part of.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod lengths;
pub(crate) mod lines;
pub(crate) mod names;
pub(crate) mod outgoing;

/// The most of what may come before a body, or behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
}
