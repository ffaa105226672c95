//! Targets: where the service behind the gateway listens.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, PathAndQuery};

/// The one service behind the gateway: `http://host:port/prefix`, or `https`.
///
/// ```
/// use onceward_gateway::upstream::Target;
///
/// let target = Target::parse("http://127.0.0.1:3000/base").unwrap();
/// assert_eq!(target.authority(), "127.0.0.1:3000");
/// assert!(Target::parse("http://169.254.169.254/").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    scheme: Scheme,
    host: Box<str>,
    port: u16,
    authority: Box<str>,
    prefix: Box<str>,
}

/// How the bytes travel to a [`Target`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Plain TCP: `http`.
    Plain,
    /// TLS, verified by the target's host: `https`.
    Tls,
}

/// Why a text is not a [`Target`]. Never shows the text: it may hold a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTarget {
    /// It is not a URL at all.
    #[error("the upstream is not a URL")]
    NotAUrl,

    /// The scheme is neither `http` nor `https`, or there is none.
    #[error("the upstream's scheme is neither http nor https")]
    Scheme,

    /// There is a name or a password before the host.
    #[error("the upstream holds a user name or a password")]
    UserInfo,

    /// There is a query.
    #[error("the upstream has a query")]
    Query,

    /// There is a fragment.
    #[error("the upstream has a fragment")]
    Fragment,

    /// The host is empty, or a number in a spelling that resolvers read differently.
    #[error("the upstream's host is neither a name nor an address")]
    Host,

    /// The port is empty, zero or too large.
    #[error("the upstream's port is not a port")]
    Port,

    /// The address is link-local, where clouds keep their metadata and credentials.
    #[error("the upstream is a link-local or metadata address")]
    LinkLocal,
}

// === impl Target ===

impl Target {
    /// Returns `text` as a target, or the reason it is not one.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        // The URI parser drops fragments without a word.
        if text.contains('#') {
            return Err(InvalidTarget::Fragment);
        }
        let uri = Uri::from_str(text).map_err(|_| InvalidTarget::NotAUrl)?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Plain,
            Some("https") => Scheme::Tls,
            _ => return Err(InvalidTarget::Scheme),
        };
        let authority = uri.authority().ok_or(InvalidTarget::Host)?;
        if authority.as_str().contains('@') {
            return Err(InvalidTarget::UserInfo);
        }
        if uri.query().is_some() {
            return Err(InvalidTarget::Query);
        }
        let host = checked_host(authority.host())?;
        let port = checked_port(authority, scheme)?;
        Ok(Self {
            scheme,
            port,
            authority: authority.as_str().into(),
            prefix: uri.path().trim_end_matches('/').into(),
            host,
        })
    }

    /// How the bytes travel.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, written or implied.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as they were written: what a `Host` field holds.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// What stands before every path, without a slash at its end; mostly empty.
    pub fn path_prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the request target on the wire, in origin-form: prefix, path and query.
    pub(super) fn request_target(&self, uri: &Uri) -> Result<Uri, http::Error> {
        let path = match uri.path_and_query().map(PathAndQuery::as_str) {
            None | Some("") => "/",
            // `OPTIONS *` asks about the server, not about a path below the prefix.
            Some("*") => return Ok(Uri::from_static("*")),
            Some(path) => path,
        };
        let path = PathAndQuery::try_from(format!("{}{path}", self.prefix))?;
        Ok(Uri::from(path))
    }
}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Plain => "http",
            Scheme::Tls => "https",
        };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

/// Whether an address is one where clouds keep metadata and credentials.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    /// Where one cloud serves its metadata over IPv6.
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address == METADATA,
    }
}

fn checked_host(host: &str) -> Result<Box<str>, InvalidTarget> {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = match bare {
        Some(bare) => Some(bare.parse().map_err(|_| InvalidTarget::Host)?),
        // Resolvers take `2852039166` and `0xa9.254.43518` for addresses; only one spelling is
        // taken here, so that what is refused below cannot be written in another way.
        None if ends_in_number(host) => {
            let address: Ipv4Addr = host.parse().map_err(|_| InvalidTarget::Host)?;
            Some(IpAddr::V4(address))
        }
        None if host.is_empty() => return Err(InvalidTarget::Host),
        None => None,
    };
    match address {
        Some(address) if is_link_local(address) => Err(InvalidTarget::LinkLocal),
        _ => Ok(bare.unwrap_or(host).into()),
    }
}

fn ends_in_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    let hex = last.get(..2).is_some_and(|x| x.eq_ignore_ascii_case("0x"));
    hex || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
}

fn checked_port(authority: &Authority, scheme: Scheme) -> Result<u16, InvalidTarget> {
    let written = &authority.as_str()[authority.host().len()..];
    match (written, scheme) {
        ("", Scheme::Plain) => Ok(80),
        ("", Scheme::Tls) => Ok(443),
        _ => match authority.port_u16() {
            Some(port) if port > 0 => Ok(port),
            _ => Err(InvalidTarget::Port),
        },
    }
}

// === impl InvalidTarget ===

impl InvalidTarget {
    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::NotAUrl | Self::Scheme | Self::Host | Self::Port => {
                "write it like http://127.0.0.1:3000 or https://payments.internal/base"
            }
            Self::UserInfo => "leave credentials out; callers send their own",
            Self::Query | Self::Fragment => "end it after the path; queries come with the requests",
            Self::LinkLocal => "name the service itself; link-local addresses are never proxied to",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> InvalidTarget {
        Target::parse(text).unwrap_err()
    }

    fn on_the_wire(target: &str, uri: &str) -> String {
        let target = Target::parse(target).unwrap();
        target
            .request_target(&uri.parse().unwrap())
            .unwrap()
            .to_string()
    }

    #[test]
    fn a_url_is_taken_apart() {
        let target = Target::parse("https://Pay.internal/base/").unwrap();
        assert_eq!(target.scheme(), Scheme::Tls);
        assert_eq!((target.host(), target.port()), ("Pay.internal", 443));
        assert_eq!(target.authority(), "Pay.internal");
        assert_eq!(target.path_prefix(), "/base");
        assert_eq!(target.to_string(), "https://Pay.internal/base");
    }

    #[test]
    fn an_ipv6_host_loses_its_brackets_and_the_authority_keeps_them() {
        let target = Target::parse("http://[::1]:3000").unwrap();
        assert_eq!((target.host(), target.port()), ("::1", 3000));
        assert_eq!(target.authority(), "[::1]:3000");
    }

    #[test]
    fn what_is_not_a_target_is_refused_with_its_reason() {
        assert_eq!(refused("not a url"), InvalidTarget::NotAUrl);
        assert_eq!(refused("127.0.0.1:3000"), InvalidTarget::Scheme);
        assert_eq!(refused("ftp://host/"), InvalidTarget::Scheme);
        assert_eq!(refused("/path"), InvalidTarget::Scheme);
        assert_eq!(refused("http://u:p@host/"), InvalidTarget::UserInfo);
        assert_eq!(refused("http://host/?a=b"), InvalidTarget::Query);
        assert_eq!(refused("http://host/#top"), InvalidTarget::Fragment);
        for port in ["", "0", "99999"] {
            assert_eq!(
                refused(&format!("http://host:{port}/")),
                InvalidTarget::Port
            );
        }
    }

    #[test]
    fn metadata_addresses_are_refused_in_every_spelling() {
        for host in [
            "169.254.169.254",
            "[fe80::1]",
            "[febf::1]",
            "[::ffff:169.254.169.254]",
            "[fd00:ec2::254]",
        ] {
            assert_eq!(
                refused(&format!("http://{host}:80/")),
                InvalidTarget::LinkLocal
            );
        }
        for host in [
            "2852039166",
            "0xa9fea9fe",
            "169.254.43518",
            "169.254.169.254.",
            "169.254.169.0xfe",
        ] {
            assert_eq!(refused(&format!("http://{host}/")), InvalidTarget::Host);
        }
        assert!(Target::parse("http://169.253.1.1/").is_ok());
        assert!(Target::parse("http://node-1.v2x/").is_ok());
    }

    #[test]
    fn no_refusal_shows_a_password() {
        let refusal = refused("http://user:hunter2@host/");
        assert!(!format!("{refusal} {refusal:?} {}", refusal.hint()).contains("hunter2"));
    }

    #[test]
    fn the_request_target_is_prefix_path_and_query() {
        assert_eq!(on_the_wire("http://h/base", "/a?b=c"), "/base/a?b=c");
        assert_eq!(on_the_wire("http://h/base/", "http://x/a"), "/base/a");
        assert_eq!(on_the_wire("http://h", "http://x"), "/");
        assert_eq!(on_the_wire("http://h", "/a//b/../%2e?"), "/a//b/../%2e?");
        assert_eq!(on_the_wire("http://h/base", "*"), "*");
    }
}
