//! What differs between the SDKs, read in their source and seen in their traffic.

use crate::{origin::Place, packages::Language};

/// One SDK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sdk {
    /// Its name in the adapter.
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// What `[defaults]` of the gateway says for it.
    pub(crate) settings: &'static str,
    /// Where its key is.
    pub(crate) place: Place,
    /// Who its callers are, where its credential cannot tell.
    pub(crate) identity: &'static str,
    /// Whether it makes a key by itself, which stays the same while it retries.
    pub(crate) makes_keys: bool,
    /// Whether it retries by itself when a connection breaks.
    pub(crate) retries_broken: bool,
    /// Whether it retries by itself when it is answered 502.
    pub(crate) retries_bad_gateway: bool,
    /// The class of its error for 409.
    pub(crate) conflict: &'static str,
    /// The class of its error for a reused key.
    pub(crate) reused: &'static str,
    /// Whether its error tells what our refusal says.
    pub(crate) tells: bool,
}

/// What most SDKs have in common.
const USUAL: Sdk = Sdk {
    name: "",
    language: Language::Python,
    settings: "",
    place: Place::Header("idempotency-key"),
    identity: "",
    makes_keys: true,
    retries_broken: true,
    retries_bad_gateway: true,
    conflict: "ConflictError",
    reused: "UnprocessableEntityError",
    tells: true,
};

/// For credentials that are signed anew for every attempt.
const ONE_CALLER: &str = "[identity]\nfrom = \"none\"\n";

pub(crate) const STRIPE_PYTHON: Sdk = Sdk {
    name: "stripe",
    settings: "profile = \"stripe\"",
    conflict: "APIError",
    reused: "IdempotencyError",
    ..USUAL
};

pub(crate) const STRIPE_NODE: Sdk = Sdk {
    language: Language::Node,
    conflict: "StripeAPIError",
    reused: "StripeIdempotencyError",
    ..STRIPE_PYTHON
};

/// Keys are made, but not sent unless the caller gives the header.
pub(crate) const OPENAI: Sdk = Sdk {
    name: "openai",
    makes_keys: false,
    ..USUAL
};

pub(crate) const INCREASE: Sdk = Sdk {
    name: "increase",
    ..USUAL
};

pub(crate) const MODERN_TREASURY_PYTHON: Sdk = Sdk {
    name: "modern-treasury",
    ..USUAL
};

pub(crate) const MODERN_TREASURY_NODE: Sdk = Sdk {
    language: Language::Node,
    ..MODERN_TREASURY_PYTHON
};

pub(crate) const SVIX_PYTHON: Sdk = Sdk {
    name: "svix",
    conflict: "HttpError",
    reused: "HTTPValidationError",
    ..USUAL
};

pub(crate) const SVIX_NODE: Sdk = Sdk {
    language: Language::Node,
    conflict: "ApiException",
    reused: "ApiException",
    ..SVIX_PYTHON
};

pub(crate) const SQUARE: Sdk = Sdk {
    name: "square",
    settings: "key_from = { json = \"/idempotency_key\" }",
    place: Place::Json("idempotency_key"),
    makes_keys: false,
    retries_broken: false,
    conflict: "ApiError",
    reused: "ApiError",
    ..USUAL
};

pub(crate) const WORKOS: Sdk = Sdk {
    name: "workos",
    ..USUAL
};

/// Knows only the types of errors of its own service: for any other it raises the base of its
/// errors, and what a refusal says is lost.
pub(crate) const GOCARDLESS: Sdk = Sdk {
    name: "gocardless",
    conflict: "GoCardlessProError",
    reused: "GoCardlessProError",
    tells: false,
    ..USUAL
};

/// Retries no create by itself that may have arrived, and signs the date of every attempt.
pub(crate) const AZURE: Sdk = Sdk {
    name: "azure",
    settings: "profile = \"oasis\"",
    place: Place::Header("repeatability-request-id"),
    identity: ONE_CALLER,
    retries_broken: false,
    retries_bad_gateway: false,
    conflict: "ResourceExistsError",
    reused: "HttpResponseError",
    ..USUAL
};

/// Reads XML only, so a refusal is an error of its parser, with our JSON in its text.
pub(crate) const BOTO3: Sdk = Sdk {
    name: "boto3",
    settings: "key_from = { form = \"ClientToken\" }",
    place: Place::Form("ClientToken"),
    identity: ONE_CALLER,
    conflict: "ResponseParserError",
    reused: "ResponseParserError",
    ..USUAL
};
