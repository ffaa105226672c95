//! Keys in headers: who is let in, under which name, and that the upstream reads the same one.

use http::{HeaderMap, HeaderName, HeaderValue};
use onceward::Key;
use onceward_gateway::forward;
use onceward_http::headers::{IDEMPOTENCY_KEY, X_IDEMPOTENCY_KEY};
use onceward_http::inside;

use super::Choices;

const NAMES: [HeaderName; 2] = [IDEMPOTENCY_KEY, X_IDEMPOTENCY_KEY];

/// Takes one byte of how, then the lines of the header, and asks for the key.
///
/// # Panics
///
/// Panics if a key is read in another way than a plain reader would, or not at all where it must
/// be, or does not come through to the upstream.
pub fn check(bytes: &[u8]) {
    let mut from = Choices(bytes);
    let how = from.byte();
    let (strict, spread) = (how & 1 == 1, how & 2 == 2);
    let mut headers = HeaderMap::new();
    let mut lines: [Vec<&[u8]>; 2] = Default::default();
    for (at, line) in from.rest().split(|byte| *byte == b'\n').enumerate().take(4) {
        let Ok(value) = HeaderValue::from_bytes(line) else {
            return;
        };
        let which = if spread { at % 2 } else { 0 };
        headers.append(NAMES[which].clone(), value);
        lines[which].push(line);
    }
    let answer = inside::key_of(&NAMES, &headers, strict);
    let all: Vec<&[u8]> = lines.concat();
    match answer {
        Ok(Some(key)) => {
            assert!(lines.iter().all(|lines| lines.len() <= 1), "two lines");
            for line in all {
                assert_eq!(plain(line, strict).as_deref(), Some(key.as_str()));
            }
            comes_through(&key, strict);
        }
        Ok(None) => panic!("no key where {} lines carry one", all.len()),
        Err(why) => {
            let agree = all.iter().map(|line| plain(line, strict));
            let keys: Option<Vec<String>> = agree.collect();
            let same = keys.is_some_and(|keys| keys.iter().all(|key| *key == keys[0]));
            let once = lines.iter().all(|lines| lines.len() <= 1);
            assert!(!(same && once), "a good key is refused: {why}");
            let secret = all.iter().find(|line| line.len() > 16);
            let secret = secret.and_then(|line| str::from_utf8(line).ok());
            assert!(secret.is_none_or(|line| !why.contains(line)), "{why}");
        }
    }
}

/// The upstream reads the key that we read, bare and between quotes.
fn comes_through(key: &Key, strict: bool) {
    let written = forward::written(key);
    let quoted = key.as_str().replace('\\', "\\\\").replace('"', "\\\"");
    let quoted = HeaderValue::from_str(&format!("\"{quoted}\"")).expect("a key is printable");
    for (line, strict) in [(written, false), (quoted.clone(), false), (quoted, strict)] {
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, line)]);
        let again = inside::key_of(&NAMES, &headers, strict);
        assert_eq!(again.as_ref(), Ok(&Some(key.clone())), "{headers:?}");
    }
}

/// The key in a line by a plain reading; `None` if there is none. What stands behind the closing
/// quote is left to the reader under test, for it changes nothing about the key.
fn plain(line: &[u8], strict: bool) -> Option<String> {
    let field = str::from_utf8(line.trim_ascii()).ok()?;
    let key = match field.strip_prefix('"') {
        None if strict => return None,
        None => {
            let bare = |sign: char| sign.is_ascii_graphic() && sign != '"' && sign != ',';
            field.chars().all(bare).then(|| field.to_owned())?
        }
        Some(rest) => {
            let mut key = String::new();
            let mut signs = rest.chars();
            loop {
                match signs.next()? {
                    '"' => break,
                    '\\' => key.push(signs.next().filter(|sign| matches!(sign, '"' | '\\'))?),
                    sign @ ' '..='~' => key.push(sign),
                    _ => return None,
                }
            }
            parameters(signs.as_str())?;
            key
        }
    };
    (1..=255).contains(&key.len()).then_some(key)
}

/// Whether parameters follow, as RFC 9651 writes them, and nothing else: read by cutting pieces
/// off, not sign by sign.
fn parameters(mut rest: &str) -> Option<()> {
    while let Some(next) = rest.strip_prefix(';') {
        let next = next.trim_start_matches(' ');
        let name = |sign: char| sign.is_ascii_lowercase() || sign == '*';
        let more = |sign: char| name(sign) || sign.is_ascii_digit() || "_-.".contains(sign);
        next.starts_with(name).then_some(())?;
        rest = next.trim_start_matches(more);
        if let Some(value) = rest.strip_prefix('=') {
            rest = item(value)?;
        }
    }
    rest.is_empty().then_some(())
}

/// What follows the bare item that `text` begins with.
fn item(text: &str) -> Option<&str> {
    let first = text.chars().next()?;
    let rest = &text[first.len_utf8()..];
    match first {
        '"' => {
            let mut end = 0;
            loop {
                match rest.as_bytes().get(end)? {
                    b'"' => return Some(&rest[end + 1..]),
                    b'\\' if matches!(rest.as_bytes().get(end + 1), Some(b'"' | b'\\')) => end += 2,
                    b'\\' => return None,
                    b' '..=b'~' => end += 1,
                    _ => return None,
                }
            }
        }
        '?' => rest.strip_prefix(['0', '1']),
        ':' => {
            let (inside, rest) = rest.split_once(':')?;
            let base64 = |sign: char| sign.is_ascii_alphanumeric() || "+/=".contains(sign);
            inside.chars().all(base64).then_some(rest)
        }
        '@' => number(rest, 15).filter(|rest| !rest.starts_with('.') || rest.is_empty()),
        '-' | '0'..='9' => match number(text, 15)?.strip_prefix('.') {
            None => number(text, 15),
            Some(places) => {
                number(text, 12)?;
                let after = places.trim_start_matches(|sign: char| sign.is_ascii_digit());
                (1..=3)
                    .contains(&(places.len() - after.len()))
                    .then_some(after)
            }
        },
        '%' => {
            let inside = rest.strip_prefix('"')?;
            let (inside, rest) = inside.split_once('"')?;
            let mut pieces = inside.split('%');
            let visible = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let whole = pieces.next().is_some_and(visible)
                && pieces.all(|piece| {
                    visible(piece) && piece.len() >= 2 && piece.as_bytes()[..2].iter().all(hex)
                });
            whole.then_some(rest)
        }
        'a'..='z' | 'A'..='Z' | '*' => Some(text.trim_start_matches(|sign: char| {
            sign.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(sign)
        })),
        _ => None,
    }
}

/// What follows the digits, of which there are at least one and at most `limit`.
fn number(text: &str, limit: usize) -> Option<&str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let rest = digits.trim_start_matches(|sign: char| sign.is_ascii_digit());
    (1..=limit)
        .contains(&(digits.len() - rest.len()))
        .then_some(rest)
}
