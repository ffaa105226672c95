//! Callers by verified bearer tokens.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{DecodingKey, Validation};
use onceward::Timestamp;
use serde_json::{Map, Value};

use super::credential::only;
use super::memo::{Known, Memo};
use super::{Caller, JwtKeys, JwtSettings, SetupError, Unidentified};

/// How a token is signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Algorithm(jsonwebtoken::Algorithm);

/// What tokens are verified with.
#[derive(Debug)]
pub(super) struct Verifier {
    keys: Vec<Key>,
    settings: JwtSettings,
    memo: Memo,
}

/// One key, with the only algorithms that it is used with: those of its own type. A token cannot
/// talk anybody into taking a public key for a secret.
#[derive(Debug)]
struct Key {
    id: Option<String>,
    key: DecodingKey,
    validation: Validation,
}

/// The claims of a token.
type Claims = Map<String, Value>;

/// The shortest secret, in bytes: what is shorter than its digest can be guessed from one token.
const SECRET_MIN: usize = 32;

const WRONG: Unidentified = Unidentified::Wrong {
    scheme: Some("Bearer"),
};

const HINT: &str = "write a JSON Web Key Set with the issuer's public keys, as it publishes it";

// === impl Algorithm ===

impl Algorithm {
    /// Those that public keys are used with.
    pub(crate) const OF_KEYS: &[Self] = &[
        Self(jsonwebtoken::Algorithm::RS256),
        Self(jsonwebtoken::Algorithm::RS384),
        Self(jsonwebtoken::Algorithm::RS512),
        Self(jsonwebtoken::Algorithm::PS256),
        Self(jsonwebtoken::Algorithm::PS384),
        Self(jsonwebtoken::Algorithm::PS512),
        Self(jsonwebtoken::Algorithm::ES256),
        Self(jsonwebtoken::Algorithm::ES384),
        Self(jsonwebtoken::Algorithm::EdDSA),
    ];

    /// Those that secrets are used with.
    pub(crate) const OF_SECRETS: &[Self] = &[
        Self(jsonwebtoken::Algorithm::HS256),
        Self(jsonwebtoken::Algorithm::HS384),
        Self(jsonwebtoken::Algorithm::HS512),
    ];

    /// Those that count unless others are named.
    pub fn usual(secret: bool) -> &'static [Self] {
        const KEYS: &[Algorithm] = &[
            Algorithm(jsonwebtoken::Algorithm::RS256),
            Algorithm(jsonwebtoken::Algorithm::ES256),
            Algorithm(jsonwebtoken::Algorithm::EdDSA),
        ];
        match secret {
            true => &Self::OF_SECRETS[..1],
            false => KEYS,
        }
    }

    /// The name of the algorithm in a token.
    pub fn name(self) -> String {
        format!("{:?}", self.0)
    }
}

// === impl Verifier ===

impl Verifier {
    /// Reads the keys that `settings` name.
    pub(super) fn new(
        settings: &JwtSettings,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SetupError> {
        let keys = match &settings.keys {
            JwtKeys::File(path) => keys(path, &settings.algorithms)?,
            JwtKeys::SecretEnv(name) => vec![secret(name, env, &settings.algorithms)?],
        };
        Ok(Self {
            keys,
            settings: settings.clone(),
            memo: Memo::default(),
        })
    }

    /// Who sent a request with these headers.
    pub(super) fn caller(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Caller, Unidentified> {
        let missing = Unidentified::Missing {
            scheme: Some("Bearer"),
        };
        let value = only(headers.get_all(AUTHORIZATION).iter())?.ok_or(missing)?;
        let text = value.to_str().map_err(|_| WRONG)?;
        let (scheme, token) = text.trim().split_once(' ').ok_or(missing)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(missing);
        }
        let token = token.trim();
        let (known, seen) = match self.memo.get(token) {
            Some(known) => (known, true),
            None => (self.read(token).ok_or(WRONG)?, false),
        };
        if now >= known.until {
            return Err(Unidentified::Expired);
        }
        if now < known.from {
            return Err(WRONG);
        }
        if !seen {
            self.memo.put(token, known.clone(), now);
        }
        Ok(known.caller)
    }

    /// What a token says, if it is right in all but the time.
    fn read(&self, token: &str) -> Option<Known> {
        let claims = self.verify(token)?;
        let leeway = self.settings.leeway;
        let from = match claims.get("nbf") {
            Some(from) => moment(from)?.before(leeway),
            None => Timestamp::ZERO,
        };
        let until = moment(claims.get("exp")?)? + leeway;
        let name = match claims.get(&self.settings.claim)? {
            Value::String(name) => name.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        self.suits(&claims).then_some(())?;
        // Two issuers may give one subject to two people.
        let name = match claims.get("iss").and_then(Value::as_str) {
            Some(_) if name.is_empty() => return None,
            Some(issuer) => format!("{}:{issuer}:{name}", issuer.len()),
            None => name,
        };
        Some(Known {
            caller: Caller::named("jwt", &name)?,
            from,
            until,
        })
    }

    /// The claims of a token whose signature is right.
    fn verify(&self, token: &str) -> Option<Claims> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        // What must be understood is not understood here (RFC 7515, section 4.1.11).
        if header.crit.is_some() {
            return None;
        }
        let fits = |key: &&Key| key.validation.algorithms.contains(&header.alg);
        let mut fitting = self.keys.iter().filter(fits);
        let key = match &header.kid {
            Some(id) => fitting
                .find(|key| key.id.as_ref() == Some(id))
                .or_else(|| {
                    // A secret has no id, and an issuer may give it one all the same.
                    self.keys.iter().find(|key| self.is_secret() && fits(key))
                })?,
            None => match (fitting.next(), fitting.next()) {
                (Some(key), None) => key,
                // Trying all of them would let a caller buy much work with one request.
                _ => return None,
            },
        };
        let verified = jsonwebtoken::decode::<Claims>(token, &key.key, &key.validation).ok()?;
        Some(verified.claims)
    }

    fn is_secret(&self) -> bool {
        matches!(self.settings.keys, JwtKeys::SecretEnv(_))
    }

    /// Whether issuer and audience are those that are wanted.
    fn suits(&self, claims: &Claims) -> bool {
        let is = |value: &Value, wanted: &String| value.as_str() == Some(wanted);
        let issued = match &self.settings.issuer {
            Some(issuer) => claims.get("iss").is_some_and(|found| is(found, issuer)),
            None => true,
        };
        let meant = match (&self.settings.audience, claims.get("aud")) {
            (None, _) => true,
            (Some(wanted), Some(Value::Array(all))) => all.iter().any(|one| is(one, wanted)),
            (Some(wanted), Some(one)) => is(one, wanted),
            (Some(_), None) => false,
        };
        issued && meant
    }
}

/// A moment, in seconds since 1970 that may have a fraction.
fn moment(value: &Value) -> Option<Timestamp> {
    let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0)?;
    // A date beyond what can be counted is as good as never.
    let span = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    Some(Timestamp::ZERO + span)
}

fn secret(
    name: &str,
    env: impl Fn(&str) -> Option<String>,
    algorithms: &[Algorithm],
) -> Result<Key, SetupError> {
    let refused = |problem| SetupError::Secret {
        name: name.to_owned(),
        problem,
    };
    let secret = env(name).ok_or_else(|| refused("is not set"))?;
    if secret.len() < SECRET_MIN {
        return Err(refused("is shorter than 32 bytes"));
    }
    let key = DecodingKey::from_secret(secret.as_bytes());
    Ok(Key::new(None, key, algorithms.iter().map(|one| one.0)))
}

fn keys(path: &Path, algorithms: &[Algorithm]) -> Result<Vec<Key>, SetupError> {
    let text = fs::read_to_string(path).map_err(|source| SetupError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let invalid = |problem: String| SetupError::Invalid {
        path: path.to_owned(),
        problem,
        hint: HINT,
    };
    let set: JwkSet =
        serde_json::from_str(&text).map_err(|error| invalid(format!("not a key set: {error}")))?;
    let mut keys: Vec<Key> = Vec::new();
    for jwk in &set.keys {
        if matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_)) {
            return Err(invalid("it holds a secret: give that as secret_env".into()));
        }
        // Keys for other ends are published beside those for signatures.
        let usable: Vec<_> = usable(jwk)
            .into_iter()
            .filter(|&one| algorithms.contains(&Algorithm(one)))
            .collect();
        if usable.is_empty() {
            continue;
        }
        let id = jwk.common.key_id.clone();
        if id.is_some() && keys.iter().any(|key| key.id == id) {
            return Err(invalid(format!(
                "two keys have the id {:?}",
                id.unwrap_or_default()
            )));
        }
        let key = DecodingKey::from_jwk(jwk)
            .map_err(|error| invalid(format!("a key cannot be read: {error}")))?;
        keys.push(Key::new(id, key, usable.into_iter()));
    }
    if keys.is_empty() {
        return Err(invalid(
            "there is no key in it for the algorithms that count".into(),
        ));
    }
    Ok(keys)
}

/// The algorithms that a key can be used with, by its type and by what it says itself.
fn usable(jwk: &Jwk) -> Vec<jsonwebtoken::Algorithm> {
    use jsonwebtoken::Algorithm as A;
    if jwk
        .common
        .public_key_use
        .as_ref()
        .is_some_and(|it| *it != PublicKeyUse::Signature)
    {
        return Vec::new();
    }
    let of_type: &[A] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => {
            &[A::RS256, A::RS384, A::RS512, A::PS256, A::PS384, A::PS512]
        }
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[A::ES256],
            EllipticCurve::P384 => &[A::ES384],
            _ => &[],
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            &[A::EdDSA]
        }
        _ => &[],
    };
    let own = jwk
        .common
        .key_algorithm
        .map(|own| A::from_str(&own.to_string()));
    let said = |one: &&A| match &own {
        None => true,
        Some(Ok(own)) => own == *one,
        Some(Err(_)) => false,
    };
    of_type.iter().filter(said).copied().collect()
}

// === impl Key ===

impl Key {
    fn new(
        id: Option<String>,
        key: DecodingKey,
        algorithms: impl Iterator<Item = jsonwebtoken::Algorithm>,
    ) -> Self {
        // The claims are checked here, against a time that comes in as an argument.
        let validation = Validation {
            algorithms: algorithms.collect(),
            required_spec_claims: HashSet::new(),
            validate_exp: false,
            validate_nbf: false,
            validate_aud: false,
            ..Validation::default()
        };
        Self {
            id,
            key,
            validation,
        }
    }
}
