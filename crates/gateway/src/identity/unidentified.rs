//! Why nobody knows who sent a request.

/// Why nobody knows who sent a request. Its `Display` is for the caller, and shows no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unidentified {
    /// The request does not say who sent it.
    #[error("the request does not say who sends it")]
    Missing {
        /// The scheme that is wanted, for `WWW-Authenticate`.
        scheme: Option<&'static str>,
    },

    /// What it says cannot be verified.
    #[error("the credential is not valid")]
    Wrong {
        /// The scheme that is wanted, for `WWW-Authenticate`.
        scheme: Option<&'static str>,
    },

    /// What it says was true once.
    #[error("the token has expired")]
    Expired,

    /// It says it more than once, or not as a name.
    #[error("the request does not say in exactly one way who sends it")]
    Ambiguous,

    /// Its credential is another one on every attempt, so that a retry would be another caller.
    #[error(
        "the credential changes with every attempt, so it cannot tell who sends a retry; the \
         operator has to configure [identity]"
    )]
    PerAttempt,

    /// It comes from somebody whose word does not count.
    #[error("the request does not come from a trusted proxy")]
    Untrusted,
}

// === impl Unidentified ===

impl Unidentified {
    /// The value of `WWW-Authenticate`, if another credential would help.
    pub fn challenge(&self) -> Option<&'static str> {
        match self {
            Self::Missing { scheme } => *scheme,
            Self::Wrong {
                scheme: Some("Bearer"),
            }
            | Self::Expired => Some("Bearer error=\"invalid_token\""),
            Self::Wrong { scheme } => *scheme,
            Self::Ambiguous | Self::PerAttempt | Self::Untrusted => None,
        }
    }
}
