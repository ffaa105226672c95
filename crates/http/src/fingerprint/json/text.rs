//! Strings without their escapes.

/// How many bytes stand before the content: what it is, and how long.
pub(super) const HEAD_LEN: usize = 1 + 8;

/// Steps over the string whose quote stands at `at`, appends its length and content to `out` and
/// returns where it ends; `None` if it is no string or has half a surrogate pair, which is no text.
pub(super) fn unescape(text: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    out.extend([0; 8]);
    let mut at = at + 1;
    loop {
        let rest = text.get(at..)?;
        let run = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))?;
        out.extend_from_slice(&rest[..run]);
        at += run + 1;
        match rest[run] {
            b'"' => break,
            b'\\' => at = escape(text, at, out)?,
            _ => return None,
        }
    }
    let len = (out.len() - start - 8) as u64;
    out[start..start + 8].copy_from_slice(&len.to_le_bytes());
    Some(at)
}

/// Appends the character whose escape stands at `at`, after the backslash.
fn escape(text: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let byte = match text.get(at)? {
        b'u' => return unicode(text, at + 1, out),
        same @ (b'"' | b'\\' | b'/') => *same,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    };
    out.push(byte);
    Some(at + 1)
}

/// Appends the character whose four digits, or twice four with `\u` between, stand at `at`.
fn unicode(text: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let first = four_digits(text, at)?;
    let (code, end) = match first {
        0xd800..=0xdbff => {
            if text.get(at + 4..at + 6)? != b"\\u" {
                return None;
            }
            let second = four_digits(text, at + 6).filter(|low| (0xdc00..=0xdfff).contains(low))?;
            (
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                at + 10,
            )
        }
        _ => (first, at + 4),
    };
    // A low half by itself is no character.
    let character = char::from_u32(code)?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(end)
}

fn four_digits(text: &[u8], at: usize) -> Option<u32> {
    text.get(at..at + 4)?.iter().try_fold(0, |sum, digit| {
        Some(sum * 16 + char::from(*digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> Option<String> {
        let mut out = Vec::new();
        let end = unescape(text.as_bytes(), 0, &mut out)?;
        let (len, content) = out.split_at(8);
        assert_eq!(len, (content.len() as u64).to_le_bytes());
        (end == text.len()).then(|| String::from_utf8(content.to_vec()).unwrap())
    }

    #[test]
    fn every_escape_is_read() {
        let all = r#""\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\uDE00\u0000""#;
        assert_eq!(
            content(all).unwrap(),
            "\"\\/\u{8}\u{c}\n\r\tA\u{e9}\u{20ac}\u{1f600}\0"
        );
        assert_eq!(content("\"\u{e9}\u{1f600}\"").unwrap(), "\u{e9}\u{1f600}");
        assert_eq!(content("\"\"").unwrap(), "");
    }

    #[test]
    fn half_a_pair_is_no_text() {
        for text in [
            r"\ud83d",
            r"\ude00",
            r"\ud83dx",
            r"\ud83d\n",
            r"\ud83d\u0041",
            r"\ud83d\ud83d",
        ] {
            assert_eq!(content(&format!("\"{text}\"")), None, "{text}");
        }
    }

    #[test]
    fn other_escapes_control_characters_and_open_ends_are_refused() {
        for text in [
            "\"",
            "\"a",
            "\"\\",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\u+123\"",
            "\"a\nb\"",
            "\"\t\"",
            "\"\0\"",
            "\"\\ud83d",
            "\"\\ud83d\\u",
            "\"\\u",
        ] {
            assert_eq!(content(text), None, "{text:?}");
        }
    }
}
