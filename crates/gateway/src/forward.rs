//! Forwarding: what a request and an answer keep on their way through.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use onceward::{Attempt, Key};
use onceward_http::headers::{
    IDEMPOTENCY_ATTEMPT, IDEMPOTENCY_FENCE, IDEMPOTENCY_KEY, X_IDEMPOTENCY_KEY, strip_hop_by_hop,
    strip_ours,
};

use crate::http1::lines::has_word;
use crate::server::Peer;

/// How requests look to the upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarding {
    /// The upstream's own name.
    pub upstream_host: HeaderValue,
    /// What `Host` says, if not what the caller said.
    pub host: Option<HeaderValue>,
    /// The header that carries the key, beside the one it came in; `None` if the upstream is to
    /// see neither.
    pub key_header: Option<HeaderName>,
    /// Whether the peer is a proxy whose `X-Forwarded-*` can be believed.
    pub behind_proxy: bool,
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What proxies say about the caller.
const FORWARDED: [HeaderName; 4] = [
    header::FORWARDED,
    X_FORWARDED_FOR,
    X_FORWARDED_HOST,
    X_FORWARDED_PROTO,
];

// === impl Forwarding ===

impl Forwarding {
    /// Turns the head of a caller's request into that of the upstream's.
    pub(crate) fn request(&self, parts: &mut Parts, peer: Peer) {
        let upgrade = upgrade_of(&parts.headers);
        let trailers = parts.headers.get(header::TRAILER).cloned();
        strip_hop_by_hop(&mut parts.headers);
        strip_ours(&mut parts.headers);
        self.say_host(parts);
        self.say_who(&mut parts.headers, peer);
        let headers = &mut parts.headers;
        // We have answered it: the whole of a keyed body is here, and others wait for nothing.
        headers.remove(header::EXPECT);
        if let Some(protocol) = upgrade {
            headers.insert(header::UPGRADE, protocol);
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        if let Some(attempt) = parts.extensions.get::<Attempt>() {
            self.say_attempt(headers, attempt);
        } else if let Some(trailers) = trailers {
            headers.insert(header::TRAILER, trailers);
        }
    }

    fn say_host(&self, parts: &mut Parts) {
        if let Some(host) = &self.host {
            parts.headers.insert(header::HOST, host.clone());
            return;
        }
        if parts.headers.contains_key(header::HOST) {
            return;
        }
        // HTTP/2 has it in the target; HTTP/1.0 may have none.
        let authority = parts.uri.authority().map(Authority::as_str);
        let host = authority.and_then(|authority| HeaderValue::from_str(authority).ok());
        parts.headers.insert(
            header::HOST,
            host.unwrap_or_else(|| self.upstream_host.clone()),
        );
    }

    fn say_who(&self, headers: &mut HeaderMap, peer: Peer) {
        // Few requests say any of this, and looking through the names is cheaper than for each.
        let mut said = headers.keys().any(|name| FORWARDED.contains(name));
        if said && !self.behind_proxy {
            FORWARDED.iter().for_each(|name| drop(headers.remove(name)));
            said = false;
        }
        // Every proxy on the way may have added a line of its own.
        let mut list = String::new();
        if said {
            for line in headers.get_all(&X_FORWARDED_FOR) {
                if let Ok(line) = line.to_str() {
                    list.push_str(line);
                    list.push_str(", ");
                }
            }
        }
        push_address(&mut list, peer.addr.ip());
        if let Ok(list) = HeaderValue::try_from(list) {
            headers.insert(X_FORWARDED_FOR, list);
        }
        if !said || !headers.contains_key(&X_FORWARDED_PROTO) {
            let proto = if peer.tls { "https" } else { "http" };
            headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(proto));
        }
    }

    fn say_attempt(&self, headers: &mut HeaderMap, attempt: &Attempt) {
        match &self.key_header {
            Some(name) => {
                let mut lines = headers.get_all(name).iter();
                let line = (lines.next(), lines.next());
                // Most come as they are to be written, and go on as they came.
                if !matches!(line, (Some(line), None) if is_written(line, attempt.key())) {
                    headers.insert(name.clone(), written(attempt.key()));
                }
                // Renamed, so that no proxy on the way takes it for its own; a service that reads
                // the other name still finds it there.
                if *name != IDEMPOTENCY_KEY {
                    headers.remove(IDEMPOTENCY_KEY);
                }
            }
            None => {
                headers.remove(IDEMPOTENCY_KEY);
                headers.remove(X_IDEMPOTENCY_KEY);
            }
        }
        say_which(headers, attempt);
    }
}

/// Says which attempt this is, and with which fence.
pub(crate) fn say_which(headers: &mut HeaderMap, attempt: &Attempt) {
    headers.insert(IDEMPOTENCY_ATTEMPT, HeaderValue::from(attempt.number()));
    let fence = HeaderValue::from_bytes(&attempt.fence().to_hex());
    headers.insert(
        IDEMPOTENCY_FENCE,
        fence.expect("hex digits fit into a header"),
    );
}

/// Returns a key as the upstream reads it: bare if it can be, else as a quoted string.
pub fn written(key: &Key) -> HeaderValue {
    let text = key.as_str();
    let written = match can_be_bare(text) {
        true => HeaderValue::from_str(text),
        false => {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
            HeaderValue::from_str(&format!("\"{escaped}\""))
        }
    };
    written.expect("a key is printable ASCII")
}

/// Whether `line` is what [`written`] makes of `key`, where that is the key itself.
fn is_written(line: &HeaderValue, key: &Key) -> bool {
    line.as_bytes() == key.as_str().as_bytes() && can_be_bare(key.as_str())
}

fn can_be_bare(key: &str) -> bool {
    key.bytes()
        .all(|byte| !matches!(byte, b' ' | b'"' | b',' | b'\\'))
}

/// Turns the head of an upstream's answer into ours.
pub(crate) fn answer(headers: &mut HeaderMap) {
    // HTTP/1.1 sends no trailers that were not announced.
    let trailers = headers.get(header::TRAILER).cloned();
    strip_hop_by_hop(headers);
    strip_ours(headers);
    if let Some(trailers) = trailers {
        headers.insert(header::TRAILER, trailers);
    }
}

/// Forgets offers to go on with another HTTP, which would carry requests past everything that is
/// here. Some clients offer HTTP/2 in plain text with every request, and do without.
pub(crate) fn decline_upgrades(headers: &mut HeaderMap) {
    let carries_requests = |protocol: &str| {
        let name = protocol.split('/').next().unwrap_or_default().trim();
        ["h2c", "h2", "http", "tls"]
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one))
    };
    let mut offers = headers.get_all(header::UPGRADE).iter();
    let declined = offers.any(|line| match line.to_str() {
        Ok(line) => line.split(',').any(carries_requests),
        Err(_) => true,
    });
    if declined {
        headers.remove(header::UPGRADE);
        headers.remove("http2-settings");
    }
}

/// The protocol that a request wants to switch to, if it wants that of its connection.
fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let protocol = headers.get(header::UPGRADE)?;
    let mut wants = headers.get_all(header::CONNECTION).iter();
    let asked = wants.any(|line| has_word(line.as_bytes(), b"upgrade"));
    asked.then(|| protocol.clone())
}

fn push_address(list: &mut String, ip: IpAddr) {
    match ip.to_canonical() {
        // Without the machinery of formatting, which takes longer than all else that is said here.
        IpAddr::V4(ip) => {
            list.reserve(15);
            for (at, octet) in ip.octets().into_iter().enumerate() {
                if at > 0 {
                    list.push('.');
                }
                let digits = [octet / 100, octet / 10 % 10, octet % 10];
                let leading = digits[..2].iter().take_while(|digit| **digit == 0).count();
                list.extend(
                    digits[leading..]
                        .iter()
                        .map(|digit| char::from(b'0' + digit)),
                );
            }
        }
        IpAddr::V6(ip) => list.push_str(&ip.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        lines.collect()
    }

    fn forwarding(behind_proxy: bool) -> Forwarding {
        Forwarding {
            upstream_host: HeaderValue::from_static("upstream:3000"),
            host: None,
            key_header: Some(IDEMPOTENCY_KEY),
            behind_proxy,
        }
    }

    fn forwarded(behind_proxy: bool, lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        for (name, value) in lines {
            parts.headers.append(*name, HeaderValue::from_static(value));
        }
        let peer = Peer {
            addr: "192.0.2.7:5000".parse().unwrap(),
            tls: false,
        };
        forwarding(behind_proxy).request(&mut parts, peer);
        parts.headers
    }

    #[test]
    fn every_line_of_a_trusted_proxy_is_kept_in_order() {
        let lines = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "2.2.2.2"),
        ];
        let trusted = forwarded(true, &lines);
        assert_eq!(trusted["x-forwarded-for"], "1.1.1.1, 2.2.2.2, 192.0.2.7");
        let forged = forwarded(false, &lines);
        assert_eq!(forged["x-forwarded-for"], "192.0.2.7");
    }

    #[test]
    fn addresses_are_written_as_everybody_writes_them() {
        for ip in [
            "0.0.0.0",
            "127.0.0.1",
            "10.20.30.40",
            "192.0.2.255",
            "100.101.9.200",
            "2001:db8::7",
        ] {
            let mut list = String::new();
            push_address(&mut list, ip.parse().unwrap());
            assert_eq!(list, ip);
        }
        let mut list = String::new();
        push_address(&mut list, "::ffff:192.0.2.7".parse().unwrap());
        assert_eq!(list, "192.0.2.7");
    }

    #[test]
    fn a_request_without_a_host_gets_that_of_the_upstream() {
        assert_eq!(forwarded(false, &[])[header::HOST], "upstream:3000");
        let named = forwarded(false, &[("host", "shop.example")]);
        assert_eq!(named[header::HOST], "shop.example");
    }

    #[test]
    fn offers_of_another_http_are_forgotten() {
        for (offer, passes) in [
            ("websocket", true),
            ("echo", true),
            ("h2c", false),
            ("H2C, websocket", false),
            ("HTTP/2.0", false),
            ("TLS/1.0", false),
        ] {
            let mut headers = headers(&[("http2-settings", "AAMAAABk")]);
            headers.insert(header::UPGRADE, HeaderValue::from_static(offer));
            decline_upgrades(&mut headers);
            assert_eq!(headers.contains_key(header::UPGRADE), passes, "{offer}");
        }
    }

    #[test]
    fn keys_are_written_bare_where_they_can_be() {
        for (key, wanted) in [
            ("a/b+c=", "a/b+c="),
            ("a b", "\"a b\""),
            ("a\"b", "\"a\\\"b\""),
        ] {
            assert_eq!(written(&Key::parse(key).unwrap()), wanted);
        }
    }
}
