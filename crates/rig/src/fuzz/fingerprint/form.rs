//! Forms: fields in two spellings and orders.

use onceward::Fingerprint;
use onceward_http::BodyRule;

use super::print;
use crate::fuzz::Choices;

type Field = (String, String);

pub(super) fn check(from: &mut Choices<'_>) {
    let fields: Vec<Field> = (0..1 + from.below(5))
        .map(|_| (text(from), text(from)))
        .collect();
    let plain = spelled(&fields, &mut Choices(&[]));
    let other = spelled(&shuffled(fields.clone(), from), from);
    assert_eq!(of(&plain), of(&other), "{plain}\n{other}");

    let mut changed = fields.clone();
    let at = from.below(fields.len());
    match from.below(3) {
        0 => changed[at].1.push('x'),
        1 => changed[at].0.push('x'),
        _ => changed.push(("x".to_owned(), String::new())),
    }
    // A field whose name changed may stand where another one of that name is: order counts there.
    if sorted(&changed) != sorted(&fields) {
        let changed = spelled(&shuffled(changed, from), from);
        assert_ne!(of(&plain), of(&changed), "{plain}\n{changed}");
    }
}

fn of(body: &str) -> Fingerprint {
    let media = "application/x-www-form-urlencoded; charset=utf-8";
    print(&BodyRule::Form, media, body.as_bytes())
}

/// A text without the sign that stands for bytes which are none.
fn text(from: &mut Choices<'_>) -> String {
    const SIGNS: [char; 12] = [
        'a',
        'b',
        'x',
        ' ',
        '+',
        '&',
        '=',
        '%',
        ';',
        '\n',
        '\u{e9}',
        '\u{1f600}',
    ];
    let signs = from.bytes(8);
    signs
        .iter()
        .map(|byte| SIGNS[usize::from(byte % 12)])
        .collect()
}

/// The fields by name, those of one name in their order: what makes a form that form.
fn sorted(fields: &[Field]) -> Vec<Field> {
    let mut fields = fields.to_vec();
    fields.sort_by(|(one, _), (two, _)| one.cmp(two));
    fields
}

/// The fields in another order, in which those of one name keep theirs.
fn shuffled(mut fields: Vec<Field>, from: &mut Choices<'_>) -> Vec<Field> {
    for _ in 0..from.below(8) {
        let at = from.below(fields.len());
        if at > 0 && fields[at].0 != fields[at - 1].0 {
            fields.swap(at, at - 1);
        }
    }
    fields
}

fn spelled(fields: &[Field], from: &mut Choices<'_>) -> String {
    let mut out = String::new();
    for (at, (name, value)) in fields.iter().enumerate() {
        out.push_str(if at == 0 {
            ""
        } else {
            ["&", "&&"][from.below(2)]
        });
        encode(&mut out, name, from);
        out.push('=');
        encode(&mut out, value, from);
    }
    out
}

fn encode(out: &mut String, text: &str, from: &mut Choices<'_>) {
    for sign in text.chars() {
        let style = from.below(3);
        match sign {
            ' ' if style != 2 => out.push('+'),
            'a'..='z' if style != 2 => out.push(sign),
            '\u{80}'.. if style == 1 => out.push(sign),
            _ => {
                for byte in sign.encode_utf8(&mut [0; 4]).bytes() {
                    let hex = format!("%{byte:02x}");
                    match style {
                        2 => out.push_str(&hex.to_uppercase()),
                        _ => out.push_str(&hex),
                    }
                }
            }
        }
    }
}
