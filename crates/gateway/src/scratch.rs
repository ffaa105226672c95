//! Scratch: memory of the thread that bytes pass through on their way, so that a connection at
//! rest holds none and what is touched for each request is in the processor's cache already.

use std::cell::Cell;

/// How much is read at once.
const READ_MAX: usize = 64 << 10;

/// The most that a thread keeps for writing: what was unusually large is not kept for ever.
const KEPT_MAX: usize = 256 << 10;

thread_local! {
    static READING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static WRITING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the memory to read into; what it holds before that means nothing. Whoever asks within
/// `read` gets other memory.
pub(crate) fn reading<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut scratch = READING.take();
    if scratch.is_empty() {
        scratch = vec![0; READ_MAX];
    }
    let read = read(&mut scratch);
    READING.set(scratch);
    read
}

/// Hands out an empty buffer to write from, which is to come back by [`give_back`].
pub(crate) fn writing() -> Vec<u8> {
    WRITING.take()
}

/// Takes a buffer of [`writing`] back.
pub(crate) fn give_back(mut scratch: Vec<u8>) {
    if scratch.capacity() <= KEPT_MAX {
        scratch.clear();
        WRITING.set(scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_within_a_read_gets_other_memory() {
        reading(|outer| {
            outer[0] = 1;
            reading(|inner| {
                assert_eq!(inner.len(), READ_MAX);
                inner[0] = 2;
            });
            assert_eq!(outer[0], 1);
        });
    }

    #[test]
    fn what_comes_back_is_empty_and_not_kept_if_it_grew_too_large() {
        let mut scratch = writing();
        scratch.extend_from_slice(&[1; 100]);
        give_back(scratch);
        let mut scratch = writing();
        assert!(scratch.is_empty() && scratch.capacity() >= 100);

        scratch.reserve_exact(KEPT_MAX + 1);
        give_back(scratch);
        assert_eq!(writing().capacity(), 0);
    }
}
