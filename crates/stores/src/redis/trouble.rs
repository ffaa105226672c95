//! Trouble: what a server or the line to it said, and what follows from that.

use std::fmt;
use std::sync::Arc;

use onceward::store::Error;
use redis::{ErrorKind, RedisError, ServerError};

use super::settings::{Host, Settings};
use super::{KIND, SERVER};
use crate::OpenError;

/// Why a call was not answered.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    what: What,
    text: Arc<str>,
}

/// What follows from an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Nothing was written, and it may work when it is tried again.
    Again,
    /// Nothing was written: the server does not know the script.
    NoScript,
    /// Nothing was written: the key is on another server now.
    Moved(Host),
    /// Nothing was written: the key is on its way to another server, which has to be asked.
    Ask(Host),
    /// Nothing was written: the server takes no writes, and another one may.
    Demoted,
    /// There is no room. Nothing was written.
    Full,
    /// Nothing was written, and trying again does not help.
    Refused,
    /// Nobody knows what was written.
    Lost,
}

// === impl Trouble ===

impl Trouble {
    /// Nothing came back, for this reason.
    pub(crate) fn lost(why: impl fmt::Display) -> Self {
        Self {
            what: What::Lost,
            text: why.to_string().into(),
        }
    }

    /// Sorts what a server answered. `from` is that server: it may call itself nothing at all.
    pub(super) fn answered(error: &ServerError, from: &Host) -> Self {
        let code = error.code();
        let details = error.details().unwrap_or("");
        Self {
            what: sort(code, details, from),
            text: format!("{code} {details}").trim_end().into(),
        }
    }

    pub(super) fn what(&self) -> &What {
        &self.what
    }

    /// The error for a caller.
    pub(crate) fn into_error(self, is_claim: bool) -> Error {
        match self.what {
            What::Full if is_claim => Error::Full {
                store: KIND,
                why: self.text.as_ref().to_owned(),
            },
            _ => Error::unavailable(KIND, self.text.as_ref().to_owned()),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&RedisError> for Trouble {
    fn from(error: &RedisError) -> Self {
        Self::lost(words(error))
    }
}

/// What follows from an answer with this code. A script stops at the first command that fails,
/// and the scripts here check everything before they write.
fn sort(code: &str, details: &str, from: &Host) -> What {
    match code {
        "NOSCRIPT" => What::NoScript,
        "MOVED" => redirect(details, from).map_or(What::Again, What::Moved),
        "ASK" => redirect(details, from).map_or(What::Again, What::Ask),
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "BUSY" | "NOREPLICAS" => What::Again,
        "READONLY" | "MASTERDOWN" => What::Demoted,
        "OOM" => What::Full,
        _ => What::Refused,
    }
}

/// Reads `SLOT HOST:PORT`. A server that does not know its own name leaves the host out.
fn redirect(details: &str, from: &Host) -> Option<Host> {
    let (_, address) = details.split_once(' ')?;
    let (name, port) = address.split(' ').next()?.rsplit_once(':')?;
    let name = match name {
        "" | "?" => &from.name,
        name => name,
    };
    Some(Host {
        name: name.to_owned(),
        port: port.parse().ok()?,
    })
}

/// What was said, with its causes, on one line.
pub(super) fn words(error: &RedisError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

/// Sorts why a server cannot be used: each a different thing to do.
pub(super) fn refusal(settings: &Settings, error: &RedisError) -> OpenError {
    let (server, place, why) = (SERVER, settings.place(), words(error));
    let user = settings.user().to_owned();
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
            OpenError::Password {
                server,
                place,
                user,
                why,
            }
        }
        (_, Some("NOPERM")) => OpenError::Commands { place, user, why },
        (_, Some("LOADING" | "CLUSTERDOWN" | "MASTERDOWN")) => OpenError::Unreachable {
            server,
            place,
            source: why.into(),
        },
        _ if is_tls(error) => OpenError::Tls { server, place, why },
        (ErrorKind::Io, _) => OpenError::Unreachable {
            server,
            place,
            source: why.into(),
        },
        _ => OpenError::Server { server, place, why },
    }
}

/// Whether TLS is what went wrong. The driver says so in words alone, or wraps what rustls says
/// more than once.
fn is_tls(error: &RedisError) -> bool {
    let text = words(error);
    let signs = [
        "certificate",
        "TLS",
        "tls",
        "corrupt message",
        "fatal alert",
        "HandshakeFailure",
    ];
    signs.iter().any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Host {
        Host {
            name: "here".to_owned(),
            port: 1,
        }
    }

    #[test]
    fn what_did_not_happen_is_tried_again_where_it_may_work() {
        for code in ["TRYAGAIN", "CLUSTERDOWN", "LOADING", "BUSY", "NOREPLICAS"] {
            assert_eq!(sort(code, "", &here()), What::Again, "{code}");
        }
        assert_eq!(sort("READONLY", "", &here()), What::Demoted);
        assert_eq!(sort("MASTERDOWN", "", &here()), What::Demoted);
        assert_eq!(sort("NOSCRIPT", "", &here()), What::NoScript);
    }

    #[test]
    fn what_is_wrong_by_itself_is_refused() {
        for code in ["ERR", "MISCONF", "NOPERM", "WRONGTYPE", "CROSSSLOT"] {
            assert_eq!(sort(code, "", &here()), What::Refused, "{code}");
        }
        assert_eq!(sort("OOM", "", &here()), What::Full);
    }

    #[test]
    fn a_redirection_names_a_host() {
        let there = |name: &str| Host {
            name: name.to_owned(),
            port: 7000,
        };
        let moved = sort("MOVED", "3999 10.0.0.1:7000", &here());
        assert_eq!(moved, What::Moved(there("10.0.0.1")));
        let nameless = sort("ASK", "3999 :7000", &here());
        assert_eq!(nameless, What::Ask(there("here")));
        assert_eq!(sort("MOVED", "nonsense", &here()), What::Again);
    }
}
