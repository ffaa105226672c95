//! As much of PostgreSQL's protocol as tells when a server has done what it was asked.

/// What was said on one connection, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct Messages {
    asked: Frames,
    told: Frames,
    /// Whether the client has asked to be let in.
    greeted: bool,
    /// Whether the next byte of the server is its one-letter answer about TLS.
    letter: bool,
    /// Whether the server has let the client in.
    open: bool,
    /// How often the server is still to say that it is ready.
    owed: usize,
}

/// Finds where messages begin: a letter, a length of four bytes that counts itself, and the rest.
#[derive(Debug, Default)]
struct Frames {
    /// The beginning of a message whose length is not known yet.
    head: Vec<u8>,
    /// How many bytes of the message are to come.
    rest: usize,
}

/// What a client says who wants to speak TLS: a length, and a number that is no version.
const TLS_WANTED: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

// === impl Messages ===

impl Messages {
    /// Hears what the client says. Its first words have no letter, and come alone.
    pub(super) fn client(&mut self, bytes: &[u8]) {
        if !self.greeted {
            self.letter = bytes == TLS_WANTED;
            self.greeted = !self.letter;
            return;
        }
        // Only these end with the server's word that it is ready.
        let ends = |letter: u8| matches!(letter, b'S' | b'Q');
        self.owed += self.asked.count(bytes, ends);
    }

    /// Hears what the server says.
    pub(super) fn server(&mut self, mut bytes: &[u8]) {
        if self.letter && !bytes.is_empty() {
            self.letter = false;
            bytes = &bytes[1..];
        }
        let ready = self.told.count(bytes, |letter| letter == b'Z');
        self.open |= ready > 0;
        self.owed = self.owed.saturating_sub(ready);
    }

    /// Whether the server has let the client in, and done all that it was asked.
    pub(super) fn is_idle(&self) -> bool {
        self.open && self.owed == 0
    }
}

// === impl Frames ===

impl Frames {
    const HEAD_LEN: usize = 5;

    /// Counts the messages that begin in `bytes` with a letter that counts.
    fn count(&mut self, mut bytes: &[u8], counts: impl Fn(u8) -> bool) -> usize {
        let mut count = 0;
        while !bytes.is_empty() {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = &bytes[skipped..];
            let wanted = (Self::HEAD_LEN - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            if let [letter, a, b, c, d] = self.head[..] {
                count += usize::from(counts(letter));
                self.rest = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_sub(4);
                self.head.clear();
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = &[0, 0, 0, 9, 0, 3, 0, 0, 0];
    const QUERY: &[u8] = b"Q\0\0\0\x0dSELECT 1\0";
    const READY: &[u8] = b"Z\0\0\0\x05I";
    const ROW: &[u8] = b"D\0\0\0\x0a\0\x01\0\0\0\0";

    fn let_in() -> Messages {
        let mut said = Messages::default();
        said.client(&TLS_WANTED);
        said.server(b"N");
        said.client(HELLO);
        assert!(!said.is_idle());
        said.server(READY);
        assert!(said.is_idle());
        said
    }

    #[test]
    fn a_request_is_done_when_the_server_is_ready_again() {
        let mut said = let_in();
        said.client(QUERY);
        said.server(ROW);
        assert!(!said.is_idle());
        said.server(READY);
        assert!(said.is_idle());
    }

    #[test]
    fn of_two_requests_at_once_both_have_to_be_done() {
        let mut said = let_in();
        said.client(&[QUERY, QUERY].concat());
        said.server(READY);
        assert!(!said.is_idle());
        said.server(READY);
        assert!(said.is_idle());
    }

    #[test]
    fn messages_are_heard_however_they_are_cut() {
        let mut said = let_in();
        for byte in QUERY {
            said.client(&[*byte]);
        }
        let reply = [ROW, ROW, READY].concat();
        for (at, byte) in reply.iter().enumerate() {
            assert_eq!(said.is_idle(), at > reply.len() - 2, "at {at}");
            said.server(&[*byte]);
        }
        assert!(said.is_idle());
    }
}
