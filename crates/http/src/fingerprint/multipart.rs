//! Multipart bodies by value: what each part is and holds, whatever the boundary.
//!
//! Split by hand and strictly, because a parser for servers is lenient where a fingerprint must
//! not be: it passes over what stands before the first and after the last boundary, and guesses
//! names. A body that is anything but parts between boundaries counts byte by byte.

use super::put;

/// Returns the parts of a body in one spelling: the fields of each (its name, file name and media
/// type stand there) and the digest of its content. `None` if the body is not `multipart/form-data`
/// to the letter.
pub(super) fn canonical(media: &str, body: &[u8]) -> Option<Vec<u8>> {
    let boundary = multer::parse_boundary(media).ok()?;
    let delimiter = format!("\r\n--{boundary}");
    let delimiter = delimiter.as_bytes();
    let mut out = Vec::new();
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return matches!(end, b"" | b"\r\n").then_some(out);
        }
        let (fields, content) = split(rest, b"\r\n\r\n")?;
        let (content, next) = split(content, delimiter)?;
        put_fields(&mut out, fields)?;
        out.extend(blake3::hash(content).as_bytes());
        rest = next;
    }
}

/// Appends the fields of a part, each of which follows a line break, in the order of their names.
fn put_fields(out: &mut Vec<u8>, mut fields: &[u8]) -> Option<()> {
    let mut lines = Vec::new();
    while !fields.is_empty() {
        let line = fields.strip_prefix(b"\r\n")?;
        let (line, rest) = match line.windows(2).position(|pair| pair == b"\r\n") {
            Some(end) => line.split_at(end),
            None => (line, &[][..]),
        };
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = line[..colon].to_ascii_lowercase();
        // No name, a space in it, or a line that goes on with the one before.
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        lines.push((name, line[colon + 1..].trim_ascii()));
        fields = rest;
    }
    lines.sort_by(|(one, _), (two, _)| one.cmp(two));
    out.extend((lines.len() as u64).to_le_bytes());
    for (name, value) in lines {
        put(out, &name);
        put(out, value);
    }
    Some(())
}

/// What stands before and after the first `separator`, which begins with a line break.
fn split<'b>(bytes: &'b [u8], separator: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|byte| *byte == b'\r')?;
        if let Some(after) = bytes[at..].strip_prefix(separator) {
            return Some((&bytes[..at], after));
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &str = "Content-Disposition: form-data; name=\"a\"; filename=\"f\"";

    fn one(boundary: &str, fields: &str, content: &str) -> Option<Vec<u8>> {
        let media = format!("multipart/form-data; boundary={boundary}");
        let body = format!("--{boundary}\r\n{fields}\r\n\r\n{content}\r\n--{boundary}--\r\n");
        canonical(&media, body.as_bytes())
    }

    fn raw(body: &str) -> Option<Vec<u8>> {
        canonical("multipart/form-data; boundary=\"x\"", body.as_bytes())
    }

    #[test]
    fn the_boundary_does_not_count() {
        let first = one("one", PART, "content\r\n--two").unwrap();
        assert_eq!(one("other", PART, "content\r\n--two").unwrap(), first);
    }

    #[test]
    fn fields_and_content_count() {
        let first = one("x", PART, "content");
        assert!(first.is_some());
        for (fields, content) in [
            (PART.to_owned(), "other"),
            (PART.replace("\"a\"", "\"b\""), "content"),
            (PART.replace("\"f\"", "\"g\""), "content"),
            (format!("{PART}\r\nContent-Type: text/plain"), "content"),
            (format!("{PART}; filename*=UTF-8''h"), "content"),
        ] {
            let other = one("x", &fields, content);
            assert!(other.is_some(), "{fields}");
            assert_ne!(other, first, "{fields}");
        }
    }

    #[test]
    fn order_of_fields_within_a_part_and_case_of_their_names_do_not_count() {
        let typed = one("x", &format!("{PART}\r\nContent-Type: text/plain"), "c");
        let swapped = one("x", &format!("content-type:text/plain\r\n{PART}"), "c");
        assert_eq!(typed, swapped);
    }

    #[test]
    fn order_and_number_of_parts_count() {
        let body = |names: &[&str]| {
            let parts = names
                .iter()
                .map(|name| format!("--x\r\nA: {name}\r\n\r\n{name}\r\n"));
            raw(&(parts.collect::<String>() + "--x--")).unwrap()
        };
        assert_ne!(body(&["1", "2"]), body(&["2", "1"]));
        assert_ne!(body(&["1", "1"]), body(&["1"]));
        assert_eq!(raw("--x--"), Some(Vec::new()));
    }

    #[test]
    fn content_may_be_empty_and_hold_anything() {
        assert!(one("x", PART, "").is_some());
        assert!(one("x", PART, "\r\r\n\r\n-x\r\n--").is_some());
        assert_ne!(one("x", PART, "\r\n"), one("x", PART, ""));
    }

    #[test]
    fn anything_but_parts_is_refused() {
        for body in [
            "",
            "--x",
            "--x\r\n",
            "--x\r\nA: b\r\n\r\nc",
            "--x\r\nA: b\r\n\r\nc\r\n--x",
            "before\r\n--x\r\nA: b\r\n\r\nc\r\n--x--",
            "--x\r\nA: b\r\n\r\nc\r\n--x--after",
            "--x \r\nA: b\r\n\r\nc\r\n--x--",
            "--x\r\nno colon\r\n\r\nc\r\n--x--",
            "--x\r\nA: b\r\n folded: c\r\n\r\nc\r\n--x--",
            "--xy\r\nA: b\r\n\r\nc\r\n--x--",
        ] {
            assert_eq!(raw(body), None, "{body:?}");
        }
        assert_eq!(canonical("multipart/mixed; boundary=x", b"--x--"), None);
        assert_eq!(canonical("multipart/form-data", b"--x--"), None);
    }
}
