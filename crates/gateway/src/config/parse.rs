//! Values that stand in a file and on a command line alike.

use std::net::SocketAddr;

use http::Uri;

use super::AdminListen;
use crate::units::Invalid;
use crate::upstream::{InvalidTarget, Target};

/// Returns the address to listen at that `text` says: `127.0.0.1:8080` or `[::1]:8080`.
pub fn listen(text: &str) -> Result<SocketAddr, Invalid> {
    text.parse().map_err(|_| {
        let hint = "write an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
        Invalid::new("is not an address to listen at", hint)
    })
}

/// Returns where operators are listened for: an address and a port, or `off`.
pub fn admin_listen(text: &str) -> Result<AdminListen, Invalid> {
    match text {
        "off" => Ok(AdminListen::Off),
        _ => listen(text).map(AdminListen::At).map_err(|_| {
            let hint = "write an address and a port, such as 127.0.0.1:9090, or off";
            Invalid::new("is not an address to listen at", hint)
        }),
    }
}

/// Returns `text` if it says where a service can be: `http` or `https`, a host and perhaps a port.
pub fn upstream_url(text: &str) -> Result<String, Invalid> {
    const HINT: &str = "write it as http://127.0.0.1:3000 or https://payments.internal";
    let invalid = |problem: &str| Err(Invalid::new(problem, HINT));
    // The URL type drops a fragment without a word.
    if text.contains(['#', '?']) {
        return invalid("has a query or a fragment");
    }
    let Ok(uri) = text.parse::<Uri>() else {
        return invalid("is not a URL");
    };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return invalid("is neither http nor https"),
        None => return invalid("has no scheme"),
    }
    let Some(authority) = uri.authority() else {
        return invalid("has no host");
    };
    if authority.as_str().contains('@') {
        return invalid("holds a user name or a password");
    }
    if authority.host().is_empty() {
        return invalid("has no host");
    }
    // A port that is no number is left to others by the URL type.
    let port = authority.as_str()[authority.host().len()..].strip_prefix(':');
    if port.is_some_and(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
        return invalid("has a port that is none");
    }
    if !matches!(uri.path(), "" | "/") {
        return invalid("has a path, which requests bring along themselves");
    }
    // What is left is refused by whoever connects: better now than at the start.
    match Target::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error @ InvalidTarget::LinkLocal) => Err(Invalid::new(
            "is a link-local or metadata address",
            error.hint(),
        )),
        Err(_) => invalid("has a host that is neither a name nor an address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_at_a_scheme_a_host_and_a_port() {
        for text in [
            "http://127.0.0.1:3000",
            "http://127.0.0.1:3000/",
            "https://payments.internal",
            "http://[::1]:3000",
        ] {
            assert_eq!(upstream_url(text).as_deref(), Ok(text));
        }
        for (text, problem) in [
            ("", "is not a URL"),
            ("127.0.0.1:3000", "has no scheme"),
            ("payments.internal", "has no scheme"),
            ("/pay", "has no scheme"),
            ("ftp://host", "is neither http nor https"),
            ("http://", "is not a URL"),
            ("http://user:pass@host", "holds a user name or a password"),
            ("http://host:0", "has a port that is none"),
            ("http://host:99999", "has a port that is none"),
            (
                "http://host/base",
                "has a path, which requests bring along themselves",
            ),
            ("http://host?x", "has a query or a fragment"),
            ("http://host/#x", "has a query or a fragment"),
            ("http://ho st", "is not a URL"),
            (
                "http://169.254.169.254",
                "is a link-local or metadata address",
            ),
            ("http://[fe80::1]:80", "is a link-local or metadata address"),
            (
                "http://2852039166",
                "has a host that is neither a name nor an address",
            ),
        ] {
            assert_eq!(
                upstream_url(text).unwrap_err().to_string(),
                problem,
                "{text}"
            );
        }
    }

    #[test]
    fn listeners_are_addresses_and_only_that_of_operators_can_be_off() {
        assert!(listen("[::1]:8080").is_ok());
        for text in ["", "off", "8080", ":8080", "localhost:8080", "127.0.0.1"] {
            assert!(listen(text).is_err(), "{text}");
        }
        assert_eq!(admin_listen("off"), Ok(AdminListen::Off));
        assert!(admin_listen("Off").is_err());
    }
}
