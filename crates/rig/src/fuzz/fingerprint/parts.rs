//! Multipart bodies: the same parts between other boundaries.

use onceward::Fingerprint;
use onceward_http::BodyRule;

use super::print;
use crate::fuzz::Choices;

/// A part: its fields, no two of one name, and its content.
#[derive(Clone, PartialEq, Eq)]
struct Part {
    fields: Vec<(String, String)>,
    content: Vec<u8>,
}

const NAMES: [&str; 4] = ["Content-Disposition", "Content-Type", "X-Note", "x"];

pub(super) fn check(from: &mut Choices<'_>) {
    let parts: Vec<Part> = (0..from.below(4)).map(|_| Part::any(from)).collect();
    let plain = of(&parts, "x", &mut Choices(&[]));
    let boundary = format!("b{}", "oundary".repeat(from.below(6)));
    assert_eq!(plain, of(&parts, &boundary, from), "the boundary counts");

    let mut changed = parts.clone();
    match (from.below(4), parts.is_empty()) {
        (0, _) | (_, true) => changed.push(Part::any(from)),
        (1, _) => {
            let at = from.below(parts.len());
            changed[at].content.push(b'.');
        }
        (2, _) => {
            let at = from.below(parts.len());
            changed[at]
                .fields
                .push(("another".to_owned(), String::new()));
        }
        _ => changed.rotate_left(1),
    }
    let same = changed == parts;
    assert_eq!(
        plain == of(&changed, &boundary, from),
        same,
        "a change does not count"
    );
}

/// The fingerprint of the parts in some spelling; bodies that are not multipart to the letter
/// count byte by byte, so these must be.
fn of(parts: &[Part], boundary: &str, from: &mut Choices<'_>) -> Fingerprint {
    let mut body = Vec::new();
    for part in parts {
        body.extend(format!("--{boundary}").bytes());
        let mut fields: Vec<_> = part.fields.iter().collect();
        if from.flag() {
            fields.reverse();
        }
        for (name, value) in fields {
            let name = if from.flag() {
                name.to_uppercase()
            } else {
                name.clone()
            };
            let space = [" ", "", "  "][from.below(3)];
            body.extend(format!("\r\n{name}:{space}{value}").bytes());
        }
        body.extend(b"\r\n\r\n");
        body.extend_from_slice(&part.content);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{boundary}--").bytes());
    body.extend(if from.flag() { &b"\r\n"[..] } else { b"" });
    let quoted = if from.flag() {
        format!("\"{boundary}\"")
    } else {
        boundary.to_owned()
    };
    let media = format!("multipart/form-data; boundary={quoted}");
    print(&BodyRule::Multipart, &media, &body)
}

// === impl Part ===

impl Part {
    fn any(from: &mut Choices<'_>) -> Self {
        let mut fields: Vec<(String, String)> = Vec::new();
        for name in NAMES {
            if from.flag() {
                continue;
            }
            let value = from
                .bytes(12)
                .iter()
                .map(|byte| char::from(b'!' + byte % 90));
            fields.push((name.to_owned(), value.collect()));
        }
        // No content can hold a boundary: two hyphens never follow each other.
        let mut content = from.bytes(40).to_vec();
        for at in 1..content.len() {
            if content[at - 1] == b'-' {
                content[at] = content[at].max(b'.');
            }
        }
        Self { fields, content }
    }
}
