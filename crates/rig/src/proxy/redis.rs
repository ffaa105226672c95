//! As much of the protocol of Redis as tells when a server has done what it was asked.

/// What was said on one connection, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct Values {
    asked: Reader,
    told: Reader,
    /// How many requests have no reply yet.
    owed: usize,
}

/// Finds where whole values end: a letter, a line, and what the line says is to come.
#[derive(Debug, Default)]
struct Reader {
    /// The beginning of a line whose end is not there yet.
    line: Vec<u8>,
    /// How many bytes of a string are to come, with the end of its line.
    rest: usize,
    /// How many values are to come, for each collection that is open.
    open: Vec<usize>,
    /// Whether the outermost of them was not asked for.
    is_push: bool,
}

// === impl Values ===

impl Values {
    /// Hears what the client says.
    pub(super) fn client(&mut self, bytes: &[u8]) {
        self.owed += self.asked.count(bytes);
    }

    /// Hears what the server says.
    pub(super) fn server(&mut self, bytes: &[u8]) {
        let told = self.told.count(bytes);
        // What a subscriber hears was not asked for.
        self.owed = self.owed.saturating_sub(told);
    }

    /// Whether the server has done all that it was asked, and is not asked anything right now.
    pub(super) fn is_idle(&self) -> bool {
        self.owed == 0 && self.asked.is_between()
    }
}

// === impl Reader ===

impl Reader {
    /// Whether everything that was begun has come to its end.
    fn is_between(&self) -> bool {
        self.line.is_empty() && self.rest == 0 && self.open.is_empty()
    }

    /// Counts the whole values that end in `bytes`, but for those that nobody asked for.
    fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut count = 0;
        while let Some(first) = bytes.first() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
                count += if self.rest == 0 { self.end() } else { 0 };
                continue;
            }
            self.line.push(*first);
            bytes = &bytes[1..];
            if *first == b'\n' {
                let line = std::mem::take(&mut self.line);
                count += self.begin(line.trim_ascii_end());
            }
        }
        count
    }

    /// Begins the value of a line, which may be all of it.
    fn begin(&mut self, line: &[u8]) -> usize {
        let Some((letter, number)) = line.split_first() else {
            return 0;
        };
        let number = std::str::from_utf8(number).ok();
        let number: usize = number.and_then(|text| text.parse().ok()).unwrap_or(0);
        let is_null = line.get(1) == Some(&b'-');
        match letter {
            b'$' | b'=' | b'!' if !is_null => {
                self.rest = number + 2;
                0
            }
            b'*' | b'~' | b'>' | b'%' if number > 0 => {
                self.is_push |= self.open.is_empty() && *letter == b'>';
                let values = if *letter == b'%' { 2 * number } else { number };
                self.open.push(values);
                0
            }
            _ => self.end(),
        }
    }

    /// Ends a value, and every collection whose last it was.
    fn end(&mut self) -> usize {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return 0;
            }
            self.open.pop();
        }
        usize::from(!std::mem::take(&mut self.is_push))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    const NESTED: &[u8] = b"*3\r\n:1\r\n*2\r\n$-1\r\n+OK\r\n$4\r\n\r\n\r\n\r\n";

    #[test]
    fn a_request_is_done_when_its_reply_is_whole() {
        let mut said = Values::default();
        assert!(said.is_idle());
        said.client(GET);
        for (at, byte) in NESTED.iter().enumerate() {
            assert!(!said.is_idle(), "at {at}");
            said.server(&[*byte]);
        }
        assert!(said.is_idle());
    }

    #[test]
    fn of_two_requests_at_once_both_have_to_be_done() {
        let mut said = Values::default();
        said.client(&[GET, GET].concat());
        said.server(b"$1\r\n1\r\n");
        assert!(!said.is_idle());
        said.server(b"-ERR no\r\n");
        assert!(said.is_idle());
    }

    #[test]
    fn half_a_request_is_one() {
        let mut said = Values::default();
        said.client(&GET[..5]);
        assert!(!said.is_idle());
        said.client(&GET[5..]);
        said.server(b"_\r\n");
        assert!(said.is_idle());
    }

    #[test]
    fn what_is_pushed_is_no_reply() {
        let mut said = Values::default();
        said.client(GET);
        said.server(b">3\r\n+message\r\n+c\r\n$1\r\nx\r\n");
        assert!(!said.is_idle());
        said.server(b"%1\r\n+a\r\n*0\r\n");
        assert!(said.is_idle());
    }
}
