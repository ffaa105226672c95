//! Profiles: whose habits on the wire a route follows.

use crate::Statuses;
use crate::statuses::StatusPattern;

/// Whose habits a route follows where conventions differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The IETF draft, with keys accepted bare as every SDK sends them. A reused key is 422.
    #[default]
    Ietf,
    /// The IETF draft to the letter: a key that is not quoted is refused.
    IetfStrict,
    /// A reused key is 400 `idempotency_error`, as Stripe's SDKs expect.
    Stripe,
    /// OASIS Repeatable Requests: `Repeatability-Request-ID` and `Repeatability-First-Sent`.
    Oasis,
    /// Only successes are recorded; everything else may be tried again, except 502 and 504.
    SuccessOnly,
}

// === impl Profile ===

impl Profile {
    /// The name of the profile in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ietf => "ietf",
            Self::IetfStrict => "ietf-strict",
            Self::Stripe => "stripe",
            Self::Oasis => "oasis",
            Self::SuccessOnly => "success-only",
        }
    }

    /// Every profile, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::Ietf,
        Self::IetfStrict,
        Self::Stripe,
        Self::Oasis,
        Self::SuccessOnly,
    ];

    /// What becomes of each status of the origin, unless a route says otherwise.
    pub fn statuses(self) -> Statuses {
        let [store, release, unknown] = self.status_lists();
        Statuses::new(&store, &release, &unknown)
            .expect("no status of a profile stands in two lists")
    }

    /// The same as lists: what is stored, released and unknown.
    pub fn status_lists(self) -> [Vec<StatusPattern>; 3] {
        let class = StatusPattern::Class;
        let code = StatusPattern::Code;
        let unknown = [502, 504].map(code).to_vec();
        match self {
            Self::SuccessOnly => [vec![class(2)], [3, 4, 5].map(class).to_vec(), unknown],
            Self::Ietf | Self::IetfStrict | Self::Stripe | Self::Oasis => [
                [2, 3, 4, 5].map(class).to_vec(),
                [401, 403, 408, 425, 429, 503].map(code).to_vec(),
                unknown,
            ],
        }
    }
}
