//! Fuzzing: what must hold for whatever bytes come.
//!
//! Each module has one function `check`, which takes arbitrary bytes, makes a question of them and
//! panics if the answer breaks a rule. Bytes are read to the end and never refused, so that every
//! input of a fuzzer asks something. `scripts/fuzz` runs them under libFuzzer; the inputs it found
//! worth keeping are committed and run with the ordinary tests.

pub mod config;
pub mod engine;
pub mod fingerprint;
pub mod framing;
pub mod journal;
pub mod key;
pub mod operations;
pub mod record;
pub mod snapshot;

/// Something that is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its program and of its corpus.
    pub name: &'static str,
    /// Panics if `bytes` show that a rule is broken.
    pub check: fn(bytes: &[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target::new("config", config::check),
    Target::new("engine", engine::check),
    Target::new("fingerprint", fingerprint::check),
    Target::new("framing", framing::check),
    Target::new("journal", journal::check),
    Target::new("key", key::check),
    Target::new("operations", operations::check),
    Target::new("record", record::check),
    Target::new("snapshot", snapshot::check),
];

/// Bytes from which choices are made; at their end every choice is the first one.
#[derive(Clone, Debug)]
struct Choices<'a>(&'a [u8]);

// === impl Target ===

impl Target {
    const fn new(name: &'static str, check: fn(&[u8])) -> Self {
        Self { name, check }
    }
}

// === impl Choices ===

impl<'a> Choices<'a> {
    /// Whether nothing is left to choose with.
    fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                *first
            }
            [] => 0,
        }
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `limit`, which is not 0 and at most 256.
    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number of any size, small ones as often as large ones.
    fn any_number(&mut self) -> u64 {
        let bits = self.below(65) as u32;
        self.number().checked_shr(64 - bits).unwrap_or(0)
    }

    /// As many of the bytes as the next one says, and at most `limit`.
    fn bytes(&mut self, limit: usize) -> &'a [u8] {
        let len = usize::from(self.byte()).min(limit).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    /// A text of at most `limit` bytes.
    fn text(&mut self, limit: usize) -> String {
        let mut text = String::from_utf8_lossy(self.bytes(limit)).into_owned();
        text.truncate(text.floor_char_boundary(limit));
        text
    }

    /// What is left.
    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
