//! Fields: every name that a configuration can have, with its manual.
//!
//! What is refused as unknown, what [`config example`](super::reference::example) prints and what
//! the committed reference says all come from this one list.

use self::Part::{
    Admin, ApiKey, Defaults, Fingerprint, Header, Identity, Jwt, KeyFrom, Limits, Log, Previous,
    Problems, Quotas, Route, Store, Suspect, Tls, Top, Unique, Upstream,
};

mod list;

/// A table of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Top,
    Upstream,
    Store,
    Admin,
    Tls,
    Identity,
    Jwt,
    Header,
    ApiKey,
    Limits,
    Quotas,
    Log,
    Problems,
    Defaults,
    Route,
    KeyFrom,
    Fingerprint,
    Previous,
    Probe,
    Unique,
    Suspect,
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) part: Part,
    pub(crate) name: &'static str,
    /// What can be written, in a few words.
    pub(crate) kind: &'static str,
    /// What holds without it, in a few words.
    pub(crate) default: &'static str,
    /// A value, as it is written in a file.
    pub(crate) example: &'static str,
    /// What it is for and when to change it, in whole sentences.
    pub(crate) doc: &'static str,
}

/// Names that have a meaning in later versions: they are refused by name.
const LATER: [(Part, &str); 2] = [(Identity, "forward_auth"), (Identity, "mtls")];

/// Every field of a table, in the order of the manual.
pub(crate) fn of(part: Part) -> impl Iterator<Item = &'static Field> {
    list::FIELDS
        .iter()
        .filter(move |field| part.has(field.part))
}

/// The field `name` of a table.
///
/// # Panics
///
/// If there is none: what is read is in the list.
pub(crate) fn find(part: Part, name: &str) -> &'static Field {
    of(part)
        .find(|field| field.name == name)
        .expect("every field that is read is in the list")
}

/// Whether `name` has a meaning in a later version.
pub(crate) fn is_later(part: Part, name: &str) -> bool {
    LATER
        .iter()
        .any(|(place, later)| part.has(*place) && *later == name)
}

// === impl Part ===

impl Part {
    /// All tables, in the order of the manual.
    pub(crate) const ALL: [Self; 21] = [
        Top,
        Upstream,
        Tls,
        Store,
        Admin,
        Identity,
        Jwt,
        Header,
        ApiKey,
        Limits,
        Quotas,
        Log,
        Problems,
        Defaults,
        Route,
        KeyFrom,
        Fingerprint,
        Previous,
        Self::Probe,
        Unique,
        Suspect,
    ];

    /// What the table is called in a message.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Top => "the top of the file",
            Upstream => "[upstream]",
            Tls => "[tls]",
            Store => "[store]",
            Admin => "[admin]",
            Identity => "[identity]",
            Jwt => "[identity] jwt",
            Header => "[identity] header",
            ApiKey => "[identity] api_key",
            Limits => "[limits]",
            Quotas => "[quotas]",
            Log => "[log]",
            Problems => "[problems]",
            Defaults => "[defaults]",
            Route => "[[route]]",
            KeyFrom => "key_from",
            Fingerprint => "fingerprint",
            Previous => "fingerprint.previous",
            Self::Probe => "probe",
            Unique => "unique",
            Suspect => "suspect",
        }
    }

    /// What the table is for.
    pub(crate) fn doc(self) -> &'static str {
        match self {
            Top => "These stand before the first table.",
            Upstream => {
                "The service behind the gateway. `upstream = \"URL\"` at the top of the file is \
                 short for a table with nothing but `url`."
            }
            Tls => "A certificate, so that callers can reach the gateway over TLS.",
            Store => "Where records are kept.",
            Admin => "The listener for operators: health and metrics, and how records are counted.",
            Identity => {
                "Who the caller is: a part of every scope, so that no caller sees another's \
                 answers. Without this table callers are told apart by `Authorization`, else \
                 `X-Api-Key`, unverified; with neither there is one shared caller, on loopback \
                 listeners only. A change makes all callers new ones, whose retries are new \
                 work: do it while nobody retries."
            }
            Jwt => "For `from = \"jwt\"`: bearer tokens, verified.",
            Header => "For `from = \"header\"`: a header that a trusted proxy sets.",
            ApiKey => "For `from = \"api-key\"`: keys that this gateway knows the digests of.",
            Limits => "What callers may take from the gateway.",
            Quotas => {
                "What one caller may take. Only new claims are limited: replays and waits never \
                 are. A request over a quota gets 429 `too-many-claims`, which names the quota, \
                 and nothing is written. Without `[identity]`, and with `from = \"none\"`, a \
                 caller is whoever sends from one address (IPv6: one /64), so that inventing \
                 credentials gains nothing. Each process counts for itself: with several, a \
                 caller may take as much from each; only `unknown` and `stored` are those of the \
                 store that they share."
            }
            Log => "What is written to stderr.",
            Problems => "What the gateway's own refusals look like.",
            Defaults => {
                "What holds for every request. Any of these may stand in a route as well, and \
                 holds there in place of this one."
            }
            Route => {
                "What holds for some requests: everything of `[defaults]`, and these. The most \
                 specific match wins, whatever the order."
            }
            KeyFrom => {
                "Where the key is looked for, or what it is made of: one of these. The last two make \
                 it, and go with `key = \"derived\"`."
            }
            Fingerprint => "What makes a request the same request.",
            Previous => "What did so before a change, while records from then are kept.",
            Self::Probe => "For `effect = \"probed\"`: how to ask whether the work happened.",
            Unique => {
                "What succeeds once per caller, whatever the key; see docs/defence.md. A route may \
                 have several of these. Rules of one name stand for one thing, on whatever route."
            }
            Suspect => {
                "What is hardly meant twice in a row, whatever the keys: a guess; see \
                 docs/defence.md. A request with `Idempotency-Confirm: intended` passes."
            }
        }
    }

    /// Whether a field of `other` may stand here.
    fn has(self, other: Self) -> bool {
        self == other || (self == Route && other == Defaults)
    }
}
