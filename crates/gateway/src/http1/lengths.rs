//! Lengths: what a head says about where its body ends. What follows from it is for each side to
//! decide: a request that is unclear is refused, and so is more of the answers.

use super::lines::{list, number};

/// What the lines of one head say about the length of the body.
#[derive(Default, Debug)]
pub(crate) struct Lengths {
    /// How many lengths are said.
    pub(crate) lengths: u32,
    /// What they say; nothing where one is no number or they differ.
    pub(crate) length: Option<u64>,
    /// How many `Transfer-Encoding` lines there are.
    pub(crate) codings: u32,
    /// Whether the last of them ends with `chunked`.
    pub(crate) ends_chunked: bool,
    /// Whether the last of them is `chunked` and nothing else.
    pub(crate) is_chunked: bool,
}

// === impl Lengths ===

impl Lengths {
    /// Notes one `Content-Length`.
    pub(crate) fn note_length(&mut self, value: &[u8]) {
        let length = number(value);
        self.length = match self.lengths {
            0 => length,
            _ => self.length.filter(|before| length == Some(*before)),
        };
        self.lengths += 1;
    }

    /// Notes the value of a `Transfer-Encoding` line.
    pub(crate) fn note_coding(&mut self, value: &[u8]) {
        let last = list(value).last();
        self.codings += 1;
        self.ends_chunked = last.is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
        self.is_chunked = value.eq_ignore_ascii_case(b"chunked");
    }
}
