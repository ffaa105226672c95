//! HTTP/1.1 messages: the head, and how the body after it is framed.

use std::fmt;

/// The field lines of a message, in their order. Names are in lower case.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Fields(Vec<(String, String)>);

/// The first line of a message and its fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) start: String,
    pub(super) fields: Fields,
}

/// Where a body ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a message: {0}")]
pub struct Malformed(pub &'static str);

// === impl Fields ===

impl Fields {
    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .0
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The values of all fields of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self
            .0
            .iter()
            .filter(move |(field, _)| field.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Whether there is a field of this name.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Reads lines as a server does that takes nothing it does not understand.
    pub(super) fn strict(text: &str) -> Result<Self, Malformed> {
        let mut fields = Vec::new();
        for line in text.split("\r\n").filter(|line| !line.is_empty()) {
            if line.contains(['\r', '\n', '\0']) {
                return Err(Malformed("a line break or NUL inside a line"));
            }
            let (name, value) = line
                .split_once(':')
                .ok_or(Malformed("a line without a colon"))?;
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(Malformed("a name that is no token"));
            }
            fields.push((
                name.to_ascii_lowercase(),
                value.trim_matches([' ', '\t']).to_owned(),
            ));
        }
        Ok(Self(fields))
    }

    /// Reads lines as an obliging server does: any line break ends a line, folded lines are
    /// joined, and blanks around a name do not count.
    pub(super) fn lenient(text: &str) -> Self {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in text.split(['\r', '\n']).filter(|line| !line.is_empty()) {
            match (
                line.starts_with([' ', '\t']),
                fields.last_mut(),
                line.split_once(':'),
            ) {
                (true, Some((_, value)), _) => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                (_, _, Some((name, value))) => {
                    fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
                }
                _ => {}
            }
        }
        Self(fields)
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

// === impl Head ===

impl Head {
    pub(super) fn strict(bytes: &[u8]) -> Result<Self, Malformed> {
        let text = String::from_utf8_lossy(bytes);
        let (start, rest) = text.split_once("\r\n").ok_or(Malformed("no line"))?;
        if start.contains(['\r', '\n', '\0']) || start.split(' ').count() < 3 {
            return Err(Malformed("the first line"));
        }
        Ok(Self {
            start: start.to_owned(),
            fields: Fields::strict(rest)?,
        })
    }

    pub(super) fn lenient(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches(['\r', '\n']);
        let (start, rest) = text.split_once('\n').unwrap_or((text, ""));
        Self {
            start: start.trim().to_owned(),
            fields: Fields::lenient(rest),
        }
    }

    /// The `at`th word of the first line.
    pub(super) fn word(&self, at: usize) -> &str {
        self.start.split(' ').nth(at).unwrap_or_default()
    }

    /// How the body of a request ends, for a server that refuses what is ambiguous.
    pub(super) fn framing_strict(&self) -> Result<Framing, Malformed> {
        let lengths: Vec<_> = self.fields.all("content-length").collect();
        let codings: Vec<_> = self.fields.all("transfer-encoding").collect();
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(Framing::Length(0)),
            ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                let length = length.parse().map_err(|_| Malformed("its length"))?;
                Ok(Framing::Length(length))
            }
            ([], ["chunked"]) => Ok(Framing::Chunked),
            _ => Err(Malformed("its framing is ambiguous")),
        }
    }

    /// How the body of a request ends, for a server that makes the best of everything: any
    /// mention of chunks counts before any length, and the last length before the others.
    pub(super) fn framing_lenient(&self) -> Framing {
        let codings = self.fields.all("transfer-encoding");
        if codings
            .into_iter()
            .any(|coding| coding.to_ascii_lowercase().contains("chunked"))
        {
            return Framing::Chunked;
        }
        let lengths = self.fields.all("content-length");
        let digits = lengths.filter_map(|length| {
            let digits: String = length.chars().filter(char::is_ascii_digit).collect();
            digits.parse().ok()
        });
        Framing::Length(digits.last().unwrap_or(0))
    }

    /// How the body of an answer to a request with `method` ends.
    pub(super) fn framing_of_answer(&self, method: &str) -> Result<Framing, Malformed> {
        let status = self.word(1);
        if method == "HEAD" || status.starts_with('1') || matches!(status, "204" | "304") {
            return Ok(Framing::Length(0));
        }
        if !self.fields.has("content-length") && !self.fields.has("transfer-encoding") {
            return Ok(Framing::UntilClose);
        }
        self.framing_strict()
    }

    /// Whether the sender says that this is its last message.
    pub(super) fn closes(&self) -> bool {
        let said = self.fields.all("connection");
        said.into_iter()
            .any(|value| value.to_ascii_lowercase().contains("close"))
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strict_reader_refuses_what_a_lenient_one_takes() {
        let odd = [
            "POST / HTTP/1.1\r\nA : b\r\n\r\n",
            "POST / HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
            "POST / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "POST / HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
        ];
        for text in odd {
            assert!(Head::strict(text.as_bytes()).is_err(), "{text:?}");
            let lenient = Head::lenient(text.as_bytes());
            assert!(
                lenient.fields.get("a").unwrap().starts_with('b'),
                "{text:?}"
            );
        }
    }

    #[test]
    fn ambiguous_framing_is_refused_or_read_by_preference() {
        let text = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: x, chunked\r\n\r\n";
        let head = Head::strict(text.as_bytes()).unwrap();
        assert!(head.framing_strict().is_err());
        assert_eq!(head.framing_lenient(), Framing::Chunked);

        let text = "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: +4\r\n\r\n";
        let head = Head::strict(text.as_bytes()).unwrap();
        assert!(head.framing_strict().is_err());
        assert_eq!(head.framing_lenient(), Framing::Length(4));
    }

    #[test]
    fn answers_without_a_body_end_at_their_head() {
        let head = Head::strict(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        assert_eq!(head.framing_of_answer("POST"), Ok(Framing::Length(0)));
        let head = Head::strict(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").unwrap();
        assert_eq!(head.framing_of_answer("HEAD"), Ok(Framing::Length(0)));
        assert_eq!(head.framing_of_answer("GET"), Ok(Framing::Length(9)));
    }
}
