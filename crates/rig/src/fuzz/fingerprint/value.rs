//! JSON values that can be spelled in many ways, and changed in one place.

use std::fmt::Write as _;

use crate::fuzz::Choices;

/// A JSON value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// The value of `0.DIGITS * 10^exponent`; the digits neither begin nor end with a zero.
    Number {
        negative: bool,
        digits: String,
        exponent: i32,
    },
    Text(String),
    Array(Vec<Value>),
    /// No two members have one name.
    Object(Vec<(String, Value)>),
}

// === impl Value ===

impl Value {
    /// Some value, at most `depth` containers deep.
    pub(super) fn any(from: &mut Choices<'_>, depth: usize) -> Self {
        match from.below(if depth == 0 { 4 } else { 6 }) {
            0 => Self::Null,
            1 => Self::Bool(from.flag()),
            2 => Self::number(from),
            3 => Self::Text(text(from)),
            4 => Self::Array(
                (0..from.below(5))
                    .map(|_| Self::any(from, depth - 1))
                    .collect(),
            ),
            _ => {
                let mut members: Vec<(String, Self)> = Vec::new();
                for _ in 0..from.below(6) {
                    let name = text(from);
                    let value = Self::any(from, depth - 1);
                    if members.iter().all(|(other, _)| *other != name) {
                        members.push((name, value));
                    }
                }
                Self::Object(members)
            }
        }
    }

    fn number(from: &mut Choices<'_>) -> Self {
        let digits: String = from
            .bytes(30)
            .iter()
            .map(|byte| char::from(b'0' + byte % 10))
            .collect();
        let digits = digits.trim_matches('0').to_owned();
        if digits.is_empty() {
            return Self::Number {
                negative: false,
                digits,
                exponent: 0,
            };
        }
        Self::Number {
            negative: from.flag(),
            digits,
            exponent: i32::from(from.byte()) - 100,
        }
    }

    /// How many values it is made of, itself included; at most 200 are counted.
    pub(super) fn count(&self) -> usize {
        let inner: usize = match self {
            Self::Array(values) => values.iter().map(Self::count).sum(),
            Self::Object(members) => members.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        };
        (1 + inner).min(200)
    }

    /// Changes the value with this number. Returns the name of the member it stands in, if it
    /// stands in one and this is an object.
    pub(super) fn change(&mut self, place: usize, from: &mut Choices<'_>) -> Option<String> {
        if place == 0 {
            self.alter(from);
            return None;
        }
        let mut left = place - 1;
        match self {
            Self::Array(values) => {
                for value in values {
                    match left.checked_sub(value.count()) {
                        Some(rest) => left = rest,
                        None => {
                            value.change(left, from);
                            break;
                        }
                    }
                }
                None
            }
            Self::Object(members) => {
                for (name, value) in members {
                    match left.checked_sub(value.count()) {
                        Some(rest) => left = rest,
                        None => {
                            value.change(left, from);
                            return Some(name.clone());
                        }
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn alter(&mut self, from: &mut Choices<'_>) {
        match self {
            Self::Null => *self = Self::Bool(false),
            Self::Bool(value) => *value = !*value,
            Self::Number {
                negative,
                digits,
                exponent,
            } => match from.below(3) {
                0 if !digits.is_empty() => *negative = !*negative,
                1 if !digits.is_empty() => *exponent += 1,
                _ => digits.push('1'),
            },
            Self::Text(text) => text.push('!'),
            Self::Array(values) => values.push(Self::Null),
            Self::Object(members) => match members.iter_mut().find(|_| from.flag()) {
                // A longer name than all others is a new one.
                Some((name, _)) => *name += "0123456789012345678901234567890123456789",
                None => members.push(("0123456789".repeat(7), Self::Null)),
            },
        }
    }

    /// The plainest spelling.
    pub(super) fn plain(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &mut Choices(&[]));
        out
    }

    /// Some spelling.
    pub(super) fn spelled(&self, from: &mut Choices<'_>) -> String {
        let mut out = String::new();
        self.write(&mut out, from);
        out
    }

    fn write(&self, out: &mut String, from: &mut Choices<'_>) {
        space(out, from);
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number {
                negative,
                digits,
                exponent,
            } => {
                write_number(out, (*negative, digits, *exponent), from);
            }
            Self::Text(text) => write_text(out, text, from),
            Self::Array(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    value.write(out, from);
                }
                out.push(']');
            }
            Self::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for at in (1..members.len()).rev() {
                    members.swap(at, at - from.below(at + 1));
                }
                out.push('{');
                for (at, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    space(out, from);
                    write_text(out, name, from);
                    space(out, from);
                    out.push(':');
                    value.write(out, from);
                }
                out.push('}');
            }
        }
        space(out, from);
    }
}

/// A text of some characters, some of them out of the ordinary.
fn text(from: &mut Choices<'_>) -> String {
    const SIGNS: [char; 16] = [
        'a',
        'b',
        'Z',
        '0',
        '"',
        '\\',
        '/',
        '~',
        '\n',
        '\0',
        '\u{7f}',
        '\u{e9}',
        '\u{2028}',
        '\u{fffd}',
        '\u{1f600}',
        '\u{10ffff}',
    ];
    let signs = from.bytes(12);
    signs
        .iter()
        .map(|byte| SIGNS[usize::from(byte % 16)])
        .collect()
}

fn space(out: &mut String, from: &mut Choices<'_>) {
    out.push_str(["", "", "", " ", "\n", "\t\r\n", "  "][from.below(7)]);
}

fn write_text(out: &mut String, text: &str, from: &mut Choices<'_>) {
    out.push('"');
    for sign in text.chars() {
        let style = from.below(4);
        match sign {
            _ if style == 3 => {
                for unit in sign.encode_utf16(&mut [0; 2]) {
                    let _ = match from.flag() {
                        true => write!(out, "\\u{unit:04x}"),
                        false => write!(out, "\\u{unit:04X}"),
                    };
                }
            }
            '"' | '\\' => out.extend(['\\', sign]),
            '/' if style == 1 => out.push_str("\\/"),
            '\n' => out.push_str("\\n"),
            '\0' => out.push_str("\\u0000"),
            _ => out.push(sign),
        }
    }
    out.push('"');
}

fn write_number(
    out: &mut String,
    (negative, digits, exponent): (bool, &str, i32),
    from: &mut Choices<'_>,
) {
    if negative {
        out.push('-');
    }
    if digits.is_empty() {
        out.push_str(["0", "0.0", "0e7", "0.00E-3", "-0", "-0.0e+1"][from.below(6)]);
        return;
    }
    // The point stands somewhere among the digits, and the exponent makes up for it.
    let zeros = from.below(4);
    let digits = format!("{digits}{}", "0".repeat(zeros));
    let point = from.below(digits.len().min(200) + 1);
    let (whole, fraction) = digits.split_at(point);
    out.push_str(if whole.is_empty() { "0" } else { whole });
    if !fraction.is_empty() {
        let _ = write!(out, ".{fraction}");
    }
    let rest = exponent - i32::try_from(point).expect("a point stands within 200 digits");
    if rest != 0 || from.flag() {
        let sign = if rest < 0 {
            "-"
        } else {
            ["", "+"][from.below(2)]
        };
        let _ = write!(
            out,
            "{}{sign}{}{}",
            ["e", "E"][from.below(2)],
            ["", "00"][from.below(2)],
            rest.abs()
        );
    }
}
