//! Structured fields (RFC 9651), as far as a key needs them: a String with parameters.

use std::borrow::Cow;

/// A field value, being read.
struct Field<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Returns the content of a field that is one String, whose parameters are read and passed over;
/// or the place of the byte at which it stops being one.
pub(super) fn string(field: &[u8]) -> Result<Cow<'_, str>, usize> {
    let mut field = Field {
        bytes: field,
        at: 0,
    };
    let content = field.string()?;
    field.parameters()?;
    match field.peek() {
        None => Ok(content),
        Some(_) => Err(field.at),
    }
}

// === impl Field ===

impl<'a> Field<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Steps over `byte` if it comes next.
    fn skip(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    fn expect(&mut self, byte: u8) -> Result<(), usize> {
        match self.skip(byte) {
            true => Ok(()),
            false => Err(self.at),
        }
    }

    /// Steps over all bytes that are as `is` says, and tells how many there were.
    fn run(&mut self, is: impl Fn(u8) -> bool) -> usize {
        let start = self.at;
        while self.peek().is_some_and(&is) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<Cow<'a, str>, usize> {
        self.expect(b'"')?;
        let mut content = Cow::Borrowed("");
        loop {
            let start = self.at;
            self.run(|byte| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\');
            let run = str::from_utf8(&self.bytes[start..self.at]).expect("printable ASCII is text");
            match content.is_empty() {
                true => content = Cow::Borrowed(run),
                false => content.to_mut().push_str(run),
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(content);
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(escaped @ (b'"' | b'\\')) => content.to_mut().push(escaped.into()),
                        _ => return Err(self.at),
                    }
                    self.at += 1;
                }
                _ => return Err(self.at),
            }
        }
    }

    fn parameters(&mut self) -> Result<(), usize> {
        while self.skip(b';') {
            self.run(|byte| byte == b' ');
            match self.peek() {
                Some(b'a'..=b'z' | b'*') => {}
                _ => return Err(self.at),
            }
            self.run(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
            if self.skip(b'=') {
                self.bare_item()?;
            }
        }
        Ok(())
    }

    fn bare_item(&mut self) -> Result<(), usize> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'*') => {
                self.run(|byte| is_tchar(byte) || byte == b':' || byte == b'/');
                Ok(())
            }
            Some(b':') => {
                self.at += 1;
                self.run(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.expect(b':')
            }
            Some(b'?') => {
                self.at += 1;
                match self.skip(b'0') || self.skip(b'1') {
                    true => Ok(()),
                    false => Err(self.at),
                }
            }
            Some(b'@') => {
                self.at += 1;
                self.integer()
            }
            Some(b'%') => self.display_string(),
            _ => Err(self.at),
        }
    }

    /// An Integer of up to 15 digits, or a Decimal of up to 12 and 3.
    fn number(&mut self) -> Result<(), usize> {
        let start = self.at + usize::from(self.peek() == Some(b'-'));
        self.integer()?;
        let whole = self.at - start;
        if self.skip(b'.') {
            let places = self.run(|byte| byte.is_ascii_digit());
            if whole > 12 || !(1..=3).contains(&places) {
                return Err(self.at);
            }
        }
        Ok(())
    }

    fn integer(&mut self) -> Result<(), usize> {
        self.skip(b'-');
        match self.run(|byte| byte.is_ascii_digit()) {
            1..=15 => Ok(()),
            _ => Err(self.at),
        }
    }

    fn display_string(&mut self) -> Result<(), usize> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        loop {
            self.run(|byte| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'%');
            if self.skip(b'"') {
                return Ok(());
            }
            self.expect(b'%')?;
            for _ in 0..2 {
                match self.peek() {
                    Some(b'0'..=b'9' | b'a'..=b'f') => self.at += 1,
                    _ => return Err(self.at),
                }
            }
        }
    }
}

/// Whether a byte may stand in a token of HTTP.
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_escapes_are_read() {
        assert_eq!(string(br#""a\"b\\c""#).unwrap(), r#"a"b\c"#);
        assert_eq!(string(br#""\"""#).unwrap(), "\"");
        assert_eq!(string(br#""a\nb""#), Err(3));
        assert_eq!(string(br#""a\"#), Err(3));
    }

    #[test]
    fn content_without_escapes_is_borrowed() {
        assert!(matches!(string(br#""abc""#), Ok(Cow::Borrowed("abc"))));
        assert!(matches!(string(br#""""#), Ok(Cow::Borrowed(""))));
    }

    #[test]
    fn every_kind_of_parameter_is_passed_over() {
        for parameters in [
            ";a",
            ";a;b",
            "; a=1",
            ";a=-12.345",
            ";a=\"x;y\"",
            ";a=tok/en:x",
            ";a=*",
            ";a=:aGk=:",
            ";a=?1",
            ";a=?0",
            ";a=@1700000000",
            ";a=%\"f%c3%bc\"",
            ";*a-b_c.d=1;  z",
        ] {
            let field = format!("\"k\"{parameters}");
            assert_eq!(string(field.as_bytes()).unwrap(), "k", "{field}");
        }
    }

    #[test]
    fn anything_else_is_refused_at_its_place() {
        for (field, at) in [
            ("k", 0),
            ("\"k", 2),
            ("\"k\"x", 3),
            ("\"k\" ;a", 3),
            ("\"k\",\"l\"", 3),
            ("\"k\";", 4),
            ("\"k\";A", 4),
            ("\"k\";a=", 6),
            ("\"k\";a=?2", 7),
            ("\"k\";a=-", 7),
            ("\"k\";a=1.", 8),
            ("\"k\";a=1.2345", 12),
            ("\"k\";a=1234567890123456", 22),
            ("\"k\";a=1234567890123.1", 21),
            ("\"k\";a=:x", 8),
            ("\"k\";a=%\"%C3\"", 9),
            ("\"k\";a=%\"x", 9),
            ("\"k\u{e9}\"", 2),
            ("\"k\t\"", 2),
        ] {
            assert_eq!(string(field.as_bytes()), Err(at), "{field}");
        }
    }
}
