//! Whose token counts, and whose does not.

use std::fs;

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm as Alg, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::*;
use super::{NOW, SECRET, ask, identity, now, request};

fn settings(keys: JwtKeys) -> JwtSettings {
    let secret = matches!(keys, JwtKeys::SecretEnv(_));
    JwtSettings {
        keys,
        issuer: Some("https://id.example".into()),
        audience: Some("payments".into()),
        claim: "sub".into(),
        algorithms: Algorithm::usual(secret).to_vec(),
        leeway: Duration::from_secs(30),
    }
}

fn by_secret() -> Identity {
    let settings = settings(JwtKeys::SecretEnv("SECRET".into()));
    identity(&Settings::Jwt(settings), false).unwrap()
}

fn claims() -> Value {
    json!({"sub": "u1", "iss": "https://id.example", "aud": "payments", "exp": NOW + 60})
}

fn with(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    match value.into() {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

fn sign(alg: Alg, kid: Option<&str>, key: &EncodingKey, claims: &Value) -> String {
    let mut header = Header::new(alg);
    header.kid = kid.map(str::to_owned);
    jsonwebtoken::encode(&header, claims, key).unwrap()
}

fn hs256(claims: &Value) -> String {
    sign(
        Alg::HS256,
        None,
        &EncodingKey::from_secret(SECRET.as_bytes()),
        claims,
    )
}

fn ask_token(identity: &Identity, token: &str) -> Result<String, Unidentified> {
    ask(identity, &[("authorization", &format!("Bearer {token}"))])
}

const WRONG: Unidentified = Unidentified::Wrong {
    scheme: Some("Bearer"),
};

#[test]
fn the_claim_of_a_verified_token_is_the_caller() {
    let identity = by_secret();
    assert_eq!(
        ask_token(&identity, &hs256(&claims())).unwrap(),
        "jwt:18:https://id.example:u1"
    );
    assert_eq!(
        ask_token(&identity, &hs256(&with("sub", 42))).unwrap(),
        "jwt:18:https://id.example:42"
    );
    let many = with("aud", json!(["others", "payments"]));
    assert_eq!(
        ask_token(&identity, &hs256(&many)).unwrap(),
        "jwt:18:https://id.example:u1"
    );
    let lower = format!("bearer  {}", hs256(&claims()));
    assert_eq!(
        ask(&identity, &[("authorization", &lower)]).unwrap(),
        "jwt:18:https://id.example:u1"
    );
}

#[test]
fn every_claim_that_is_wanted_is_checked() {
    let identity = by_secret();
    for (claims, wanted) in [
        (with("exp", NOW - 29), None),
        (with("exp", NOW - 30), Some(Unidentified::Expired)),
        (with("exp", NOW as f64 - 29.5), None),
        (with("exp", 1e300), None),
        (with("exp", Value::Null), Some(WRONG)),
        (with("exp", "tomorrow"), Some(WRONG)),
        (with("exp", -1), Some(WRONG)),
        (with("nbf", NOW + 30), None),
        (with("nbf", NOW + 31), Some(WRONG)),
        (with("nbf", "now"), Some(WRONG)),
        (with("iss", "https://evil.example"), Some(WRONG)),
        (with("iss", json!(["https://id.example"])), Some(WRONG)),
        (with("iss", Value::Null), Some(WRONG)),
        (with("aud", "others"), Some(WRONG)),
        (with("aud", json!([])), Some(WRONG)),
        (with("aud", Value::Null), Some(WRONG)),
        (with("sub", Value::Null), Some(WRONG)),
        (with("sub", ""), Some(WRONG)),
        (with("sub", "a\nb"), Some(WRONG)),
        (with("sub", json!(["u1"])), Some(WRONG)),
    ] {
        let told = ask_token(&identity, &hs256(&claims));
        assert_eq!(told.err(), wanted, "{claims}");
    }
}

#[test]
fn what_is_no_valid_token_is_refused() {
    let identity = by_secret();
    let token = hs256(&claims());
    let other = EncodingKey::from_secret(b"another secret of thirty-two byte");
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1MSJ9.";
    for refused in [
        "x",
        "a.b.c",
        unsigned,
        &token[..token.len() - 2],
        &sign(Alg::HS256, None, &other, &claims()),
        &sign(
            Alg::HS384,
            None,
            &EncodingKey::from_secret(SECRET.as_bytes()),
            &claims(),
        ),
    ] {
        assert_eq!(ask_token(&identity, refused), Err(WRONG), "{refused}");
    }
    let mut critical = Header::new(Alg::HS256);
    critical.crit = Some(vec!["exp".into()]);
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let critical = jsonwebtoken::encode(&critical, &claims(), &key).unwrap();
    assert_eq!(ask_token(&identity, &critical), Err(WRONG));
    let missing = Unidentified::Missing {
        scheme: Some("Bearer"),
    };
    assert_eq!(ask(&identity, &[]), Err(missing));
    assert_eq!(
        ask(&identity, &[("authorization", "Basic YTpi")]),
        Err(missing)
    );
    let twice = format!("Bearer {token}");
    let twice = [("authorization", &*twice), ("authorization", &*twice)];
    assert_eq!(ask(&identity, &twice), Err(Unidentified::Ambiguous));
}

/// An issuer with two keys of different types.
struct Issuer {
    folder: TempDir,
    ec: EncodingKey,
    ed: EncodingKey,
    set: Value,
}

impl Issuer {
    fn new() -> Self {
        let pair = |kind| KeyPair::generate_for(kind).unwrap().serialize_der();
        let ec = EncodingKey::from_ec_der(&pair(&PKCS_ECDSA_P256_SHA256));
        // In the first version of PKCS #8, for the second holds the public key too and not
        // everybody reads it.
        let mut first =
            b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
        first.extend_from_slice(&pair(&PKCS_ED25519)[16..48]);
        let ed = EncodingKey::from_ed_der(&first);
        let jwk = |key, alg, id: &str| {
            let mut jwk = serde_json::to_value(Jwk::from_encoding_key(key, alg).unwrap()).unwrap();
            jwk["kid"] = id.into();
            jwk
        };
        let set = json!({"keys": [jwk(&ec, Alg::ES256, "ec"), jwk(&ed, Alg::EdDSA, "ed")]});
        Self {
            folder: TempDir::new().unwrap(),
            ec,
            ed,
            set,
        }
    }

    fn identity(&self) -> Result<Identity, SetupError> {
        let path = self.folder.path().join("jwks.json");
        fs::write(&path, self.set.to_string()).unwrap();
        identity(&Settings::Jwt(settings(JwtKeys::File(path))), false)
    }
}

#[test]
fn the_key_is_chosen_by_its_id_and_its_type() {
    let issuer = Issuer::new();
    let identity = issuer.identity().unwrap();
    for (alg, kid, key, right) in [
        (Alg::ES256, Some("ec"), &issuer.ec, true),
        (Alg::EdDSA, Some("ed"), &issuer.ed, true),
        (Alg::ES256, None, &issuer.ec, true),
        (Alg::ES256, Some("ed"), &issuer.ec, false),
        (Alg::ES256, Some("other"), &issuer.ec, false),
    ] {
        let told = ask_token(&identity, &sign(alg, kid, key, &claims()));
        assert_eq!(told.is_ok(), right, "{alg:?} {kid:?}");
    }
}

#[test]
fn a_public_key_is_never_taken_for_a_secret() {
    let issuer = Issuer::new();
    let mut settings = settings(JwtKeys::File(issuer.folder.path().join("jwks.json")));
    // Even if a configuration were made that names both kinds.
    settings.algorithms = [Algorithm::OF_KEYS, Algorithm::OF_SECRETS].concat();
    issuer.identity().unwrap();
    let identity = identity(&Settings::Jwt(settings), false).unwrap();
    let public = issuer.set["keys"][1]["x"].as_str().unwrap().as_bytes();
    for secret in [public, issuer.set.to_string().as_bytes()] {
        let key = EncodingKey::from_secret(secret);
        for kid in [None, Some("ec"), Some("ed")] {
            let forged = sign(Alg::HS256, kid, &key, &claims());
            assert_eq!(ask_token(&identity, &forged), Err(WRONG));
        }
    }
}

#[test]
fn without_an_id_there_must_be_no_choice() {
    let mut issuer = Issuer::new();
    let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let other = EncodingKey::from_ec_der(&other.serialize_der());
    let jwk = Jwk::from_encoding_key(&other, Alg::ES256).unwrap();
    issuer.set["keys"]
        .as_array_mut()
        .unwrap()
        .push(serde_json::to_value(jwk).unwrap());
    let identity = issuer.identity().unwrap();
    assert_eq!(
        ask_token(&identity, &sign(Alg::ES256, None, &issuer.ec, &claims())),
        Err(WRONG)
    );
    let named = sign(Alg::ES256, Some("ec"), &issuer.ec, &claims());
    assert!(ask_token(&identity, &named).is_ok());
}

#[test]
fn keys_that_cannot_be_used_are_passed_over_or_refused() {
    let mut issuer = Issuer::new();
    issuer.set["keys"][0]["use"] = "enc".into();
    let identity = issuer.identity().unwrap();
    let token = sign(Alg::ES256, Some("ec"), &issuer.ec, &claims());
    assert_eq!(ask_token(&identity, &token), Err(WRONG));

    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)
        .unwrap()
        .serialize_der();
    let p384 = Jwk::from_encoding_key(&EncodingKey::from_ec_der(&p384), Alg::ES384).unwrap();
    let same_ids = json!({"keys": [issuer.set["keys"][1], issuer.set["keys"][1]]});
    for (set, problem) in [
        (json!({"keys": []}), "no key in it"),
        (json!({"keys": [p384]}), "no key in it"),
        (
            json!({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}),
            "secret_env",
        ),
        (same_ids, "two keys have the id"),
        (json!([]), "not a key set"),
    ] {
        issuer.set = set;
        let refused = issuer.identity().unwrap_err();
        assert!(refused.to_string().contains(problem), "{refused}");
        assert!(refused.to_string().contains("jwks.json"), "{refused}");
    }
}

#[test]
fn a_secret_is_there_and_long() {
    let settings = Settings::Jwt(settings(JwtKeys::SecretEnv("SECRET".into())));
    let told = |found: Option<&str>| {
        let refused = Identity::new(&settings, false, |_| found.map(str::to_owned));
        refused.unwrap_err().to_string()
    };
    assert_eq!(told(None), "the environment variable SECRET is not set");
    let short = told(Some("hunter2"));
    assert_eq!(
        short,
        "the environment variable SECRET is shorter than 32 bytes"
    );
}

#[test]
fn a_missing_file_is_named() {
    let path = PathBuf::from("/nowhere/jwks.json");
    let refused = identity(&Settings::Jwt(settings(JwtKeys::File(path))), false).unwrap_err();
    assert_eq!(refused.to_string(), "/nowhere/jwks.json cannot be read");
    assert!(refused.hint().contains("path"));
}

#[test]
fn challenges_say_what_would_help() {
    let missing = Unidentified::Missing {
        scheme: Some("Bearer"),
    };
    assert_eq!(missing.challenge(), Some("Bearer"));
    assert_eq!(WRONG.challenge(), Some("Bearer error=\"invalid_token\""));
    assert_eq!(Unidentified::Expired.challenge(), WRONG.challenge());
    assert_eq!(Unidentified::Wrong { scheme: None }.challenge(), None);
    assert_eq!(Unidentified::PerAttempt.challenge(), None);
}

#[test]
fn a_token_that_was_verified_before_still_expires() {
    let identity = by_secret();
    let token = format!("Bearer {}", hs256(&with("nbf", NOW)));
    let ask_at = |at: Timestamp| {
        let request = request(&[("authorization", &token)]);
        let peer = "127.0.0.1:1".parse().unwrap();
        identity
            .caller(&request, peer, at)
            .map(|caller| caller.tenant().to_owned())
    };
    let second = Duration::from_secs(1);
    for _ in 0..2 {
        assert_eq!(ask_at(now()).unwrap(), "jwt:18:https://id.example:u1");
        assert_eq!(
            ask_at(now() + 89 * second).unwrap(),
            "jwt:18:https://id.example:u1"
        );
        assert_eq!(ask_at(now() + 90 * second), Err(Unidentified::Expired));
        assert_eq!(ask_at(now().before(31 * second)), Err(WRONG));
    }
}
