//! Names: the header names that nearly every request has, found without parsing them.

use http::HeaderName;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, CONTENT_LENGTH,
    CONTENT_TYPE, COOKIE, DATE, EXPECT, HOST, ORIGIN, REFERER, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE, USER_AGENT,
};
use onceward_http::headers::IDEMPOTENCY_KEY;

/// Returns the name that `text` is, in whatever case, or `None` if it is none.
///
/// Callers write a name in small letters or as the standards do. What is written in another way,
/// or is not in this list, is parsed.
pub(crate) fn name(text: &str) -> Option<HeaderName> {
    Some(match text {
        "TE" | "te" => TE,
        "Host" | "host" => HOST,
        "Date" | "date" => DATE,
        "Accept" | "accept" => ACCEPT,
        "Cookie" | "cookie" => COOKIE,
        "Expect" | "expect" => EXPECT,
        "Origin" | "origin" => ORIGIN,
        "Referer" | "referer" => REFERER,
        "Trailer" | "trailer" => TRAILER,
        "Upgrade" | "upgrade" => UPGRADE,
        "Connection" | "connection" => CONNECTION,
        "User-Agent" | "user-agent" => USER_AGENT,
        "Content-Type" | "content-type" => CONTENT_TYPE,
        "Authorization" | "authorization" => AUTHORIZATION,
        "Content-Length" | "content-length" => CONTENT_LENGTH,
        "Accept-Encoding" | "accept-encoding" => ACCEPT_ENCODING,
        "Accept-Language" | "accept-language" => ACCEPT_LANGUAGE,
        "Idempotency-Key" | "idempotency-key" => IDEMPOTENCY_KEY,
        "Transfer-Encoding" | "transfer-encoding" => TRANSFER_ENCODING,
        _ => return HeaderName::from_bytes(text.as_bytes()).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word with a capital.
    fn as_in_standards(text: &str) -> String {
        let mut begins = true;
        let letters = text.chars().map(|letter| {
            let capital = std::mem::replace(&mut begins, letter == '-');
            match capital {
                true => letter.to_ascii_uppercase(),
                false => letter,
            }
        });
        letters.collect()
    }

    #[test]
    fn a_name_is_the_same_however_it_was_found() {
        for text in [
            "te",
            "host",
            "date",
            "accept",
            "cookie",
            "expect",
            "origin",
            "referer",
            "upgrade",
            "trailer",
            "connection",
            "user-agent",
            "content-type",
            "authorization",
            "content-length",
            "accept-encoding",
            "accept-language",
            "idempotency-key",
            "transfer-encoding",
            "x",
            "if-match",
            "x-request-idx",
        ] {
            let parsed = HeaderName::from_bytes(text.as_bytes()).unwrap();
            assert_eq!(name(text), Some(parsed.clone()));
            assert_eq!(name(&as_in_standards(text)), Some(parsed.clone()));
            assert_eq!(name(&text.to_ascii_uppercase()), Some(parsed));
        }
        assert_eq!(name("a b"), None);
        assert_eq!(name(""), None);
    }
}
