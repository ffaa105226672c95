//! Encoding: an answer in bytes, with a framing that its caller understands.

use http::StatusCode;
use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, TRAILER, TRANSFER_ENCODING,
};
use http::response::Parts;
use hyper::ext::ReasonPhrase;

use super::date;
use super::head::Caller;
use crate::http1::encode::{self, line};
use crate::http1::lines::{has_word, number};

/// How the end of an answer is found.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// It has no content.
    Nothing,
    /// So many bytes are left to be said.
    Sized(u64),
    /// In chunks. These trailers may stand behind them.
    Chunked(Vec<HeaderName>),
    /// With the connection.
    UntilClose,
}

/// What was written of an answer: how its content is to be framed, and what is to become of the
/// connection.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub(super) framing: Framing,
    pub(super) closes: bool,
}

/// The status of an answer cannot be sent, or what it says of its length is no length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unanswerable(&'static str);

/// Writes the head of an answer to `caller`, whose content has this length, if it is known.
pub(super) fn head(
    out: &mut Vec<u8>,
    parts: &Parts,
    length: Option<u64>,
    caller: Caller,
    closes: bool,
) -> Result<Plan, Unanswerable> {
    let status = parts.status;
    if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Unanswerable(
            "an answer of the 1xx kind is not the last one",
        ));
    }
    status_line(out, parts, caller);
    let wishes = headers(out, &parts.headers);
    let (framing, length) = frame(parts, length, caller, wishes.lengths)?;
    match (&framing, length) {
        (Framing::Chunked(_), _) => encode::chunked(out),
        (_, Some(length)) => encode::content_length(out, length),
        _ => {}
    }
    let framing = match framing {
        Framing::Chunked(_) if wishes.trailers => Framing::Chunked(announced(out, parts, caller)),
        other => other,
    };
    let closes =
        closes || framing == Framing::UntilClose || status == StatusCode::SWITCHING_PROTOCOLS;
    let closes = connection(out, parts, caller, closes);
    if !wishes.dated {
        out.extend_from_slice(b"date: ");
        date::write(out);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(Plan { framing, closes })
}

fn status_line(out: &mut Vec<u8>, parts: &Parts, caller: Caller) {
    out.extend_from_slice(match caller.is_http11 {
        true => b"HTTP/1.1 ",
        false => b"HTTP/1.0 ",
    });
    out.extend_from_slice(parts.status.as_str().as_bytes());
    out.push(b' ');
    let said = match parts.extensions.is_empty() {
        true => None,
        false => parts.extensions.get::<ReasonPhrase>(),
    };
    let known = || parts.status.canonical_reason().unwrap_or("<none>");
    out.extend_from_slice(said.map_or_else(|| known().as_bytes(), ReasonPhrase::as_bytes));
    out.extend_from_slice(b"\r\n");
}

/// What the headers of an answer say that is not written as it stands there.
#[derive(Default)]
struct Wishes {
    /// What it says about the length: nothing, a number, or something else.
    lengths: Option<Option<u64>>,
    trailers: bool,
    dated: bool,
}

/// Writes the headers that are not about the framing and the connection.
fn headers(out: &mut Vec<u8>, headers: &HeaderMap) -> Wishes {
    let mut wishes = Wishes::default();
    for (name, value) in headers {
        match *name {
            CONTENT_LENGTH => {
                let length = number(value.as_bytes());
                let same = wishes.lengths.is_none_or(|before| before == length);
                wishes.lengths = Some(length.filter(|_| same));
            }
            TRANSFER_ENCODING | CONNECTION => {}
            TRAILER => wishes.trailers = true,
            _ => {
                wishes.dated |= *name == DATE;
                line(out, name, value.as_bytes());
            }
        }
    }
    wishes
}

/// Decides how the content is framed, and which length is said.
fn frame(
    parts: &Parts,
    length: Option<u64>,
    caller: Caller,
    said: Option<Option<u64>>,
) -> Result<(Framing, Option<u64>), Unanswerable> {
    let never = parts.status.is_informational()
        || matches!(
            parts.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
    if never {
        return Ok((Framing::Nothing, None));
    }
    if said == Some(None) && length.is_none() {
        return Err(Unanswerable("an answer says a length that is none"));
    }
    let said = said.flatten();
    if caller.is_head {
        // What it would be for GET; of no content at all that is not known.
        return Ok((
            Framing::Nothing,
            said.or(length.filter(|length| *length > 0)),
        ));
    }
    Ok(match length.or(said) {
        Some(0) => (Framing::Nothing, Some(0)),
        Some(length) => (Framing::Sized(length), Some(length)),
        None if caller.is_http11 => (Framing::Chunked(Vec::new()), None),
        None => (Framing::UntilClose, None),
    })
}

/// Writes which trailers are announced, and returns those that the caller takes.
fn announced(out: &mut Vec<u8>, parts: &Parts, caller: Caller) -> Vec<HeaderName> {
    for value in parts.headers.get_all(TRAILER) {
        line(out, &TRAILER, value.as_bytes());
    }
    match caller.takes_trailers {
        true => encode::announced(&parts.headers),
        false => Vec::new(),
    }
}

/// Writes what becomes of the connection, and says whether it is closed.
fn connection(out: &mut Vec<u8>, parts: &Parts, caller: Caller, closes: bool) -> bool {
    let switches = parts.status == StatusCode::SWITCHING_PROTOCOLS;
    let (mut is_first, mut says_close, mut says_keep) = (true, false, false);
    let mut say = |out: &mut Vec<u8>, word: &[u8]| {
        let before: &[u8] = if is_first { b"connection: " } else { b", " };
        is_first = false;
        out.extend_from_slice(before);
        out.extend_from_slice(word);
    };
    for value in parts.headers.get_all(CONNECTION) {
        says_close |= has_word(value.as_bytes(), b"close");
        says_keep |= has_word(value.as_bytes(), b"keep-alive");
        say(out, value.as_bytes());
    }
    let closes = closes || !caller.keeps || says_close;
    match closes {
        true if caller.is_http11 && !says_close && !switches => say(out, b"close"),
        // HTTP/1.0 keeps no connection that nobody talks about.
        false if !caller.is_http11 && !says_keep => say(out, b"keep-alive"),
        _ => {}
    }
    if !is_first {
        out.extend_from_slice(b"\r\n");
    }
    closes
}

// === impl Plan ===

impl Plan {
    /// Whether all of the content was written.
    pub(super) fn is_done(&self) -> bool {
        self.framing == Framing::Nothing
    }
}

#[cfg(test)]
mod tests;
