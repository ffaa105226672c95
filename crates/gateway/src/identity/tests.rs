//! Who is who, and who is nobody.

use std::fs;

use http::Request;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::*;

mod tokens;

const NOW: u64 = 1_800_000_000;
const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn now() -> Timestamp {
    Timestamp::from_micros(NOW * 1_000_000)
}

fn request(headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder();
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn ask(identity: &Identity, headers: &[(&str, &str)]) -> Result<String, Unidentified> {
    ask_from(identity, headers, "127.0.0.1:5000")
}

fn ask_from(
    identity: &Identity,
    headers: &[(&str, &str)],
    peer: &str,
) -> Result<String, Unidentified> {
    let caller = identity.caller(&request(headers), peer.parse().unwrap(), now());
    caller.map(|caller| caller.tenant().to_owned())
}

fn identity(settings: &Settings, loopback: bool) -> Result<Identity, SetupError> {
    Identity::new(settings, loopback, |name| {
        (name == "SECRET").then(|| SECRET.to_owned())
    })
}

// --- By credential ---

#[test]
fn credentials_tell_callers_apart_without_being_shown() {
    let identity = identity(&Settings::Credential, false).unwrap();
    let bearer = ask(&identity, &[("authorization", "Bearer one")]).unwrap();
    let other = ask(&identity, &[("authorization", "Bearer two")]).unwrap();
    let api_key = ask(&identity, &[("x-api-key", "Bearer one")]).unwrap();
    let both = [("authorization", "Bearer one"), ("x-api-key", "k")];
    assert_eq!(ask(&identity, &both).unwrap(), bearer);
    assert_eq!(
        ask(&identity, &[("authorization", "Bearer one ")]).unwrap(),
        bearer
    );
    assert_ne!(bearer, other);
    assert_eq!(bearer.len(), "authorization:".len() + 32);
    assert_eq!(api_key.len(), "api-key:".len() + 32);
    assert_ne!(&bearer[14..], &api_key[8..]);
    assert!(!bearer.contains("one"));
}

#[test]
fn a_caller_without_a_credential_is_let_in_on_loopback_only() {
    let shared = ask(&identity(&Settings::Credential, true).unwrap(), &[]);
    assert_eq!(shared.unwrap(), "shared");
    let refused = ask(&identity(&Settings::Credential, false).unwrap(), &[]);
    assert_eq!(refused, Err(Unidentified::Missing { scheme: None }));
}

#[test]
fn credentials_that_change_with_every_attempt_are_refused() {
    let identity = identity(&Settings::Credential, true).unwrap();
    for value in [
        "AWS4-HMAC-SHA256 Credential=a, Signature=b",
        "AWS AKID:signature",
        "TC3-HMAC-SHA256 Credential=a",
        "GOOG4-RSA-SHA256 Credential=a",
        "HMAC abc",
        "hmac-sha256 x",
        "DPoP token",
        "Digest username=\"a\"",
        "Signature keyId=\"a\"",
        "OAuth oauth_nonce=\"a\"",
        "Hawk id=\"a\"",
        "SharedKey account:x",
        "SharedKeyLite account:x",
        "NTLM TlRM",
        "Negotiate YII",
    ] {
        let refused = ask(&identity, &[("authorization", value)]);
        assert_eq!(refused, Err(Unidentified::PerAttempt), "{value}");
    }
    for value in [
        "Bearer hmac",
        "Basic YTpi",
        "Token t",
        "aws0me",
        "OAuth 00Dx0",
    ] {
        assert!(
            ask(&identity, &[("authorization", value)]).is_ok(),
            "{value}"
        );
    }
}

#[test]
fn two_credentials_are_none() {
    let identity = identity(&Settings::Credential, true).unwrap();
    for headers in [
        [("authorization", "Bearer a"), ("authorization", "Bearer a")],
        [("x-api-key", "a"), ("x-api-key", "b")],
        [("authorization", " "), ("x-api-key", "b")],
    ] {
        assert_eq!(ask(&identity, &headers), Err(Unidentified::Ambiguous));
    }
}

#[test]
fn where_nobody_is_told_apart_all_are_one() {
    let identity = identity(&Settings::None, false).unwrap();
    let caller = ask(&identity, &[("authorization", "AWS4-HMAC-SHA256 x")]);
    assert_eq!(caller.unwrap(), "shared");
}

// --- By a proxy's header ---

#[test]
fn a_header_is_believed_from_its_proxy_only() {
    let settings = Settings::Header(HeaderSettings {
        name: "x-tenant".parse().unwrap(),
        peers: vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
    });
    let identity = identity(&settings, false).unwrap();
    let tenant = [("x-tenant", " acme ")];
    for peer in ["10.1.2.3:1", "[::1]:1", "[::ffff:10.1.2.3]:1"] {
        assert_eq!(ask_from(&identity, &tenant, peer).unwrap(), "header:acme");
    }
    for peer in ["127.0.0.1:1", "[::2]:1", "11.0.0.0:1"] {
        assert_eq!(
            ask_from(&identity, &tenant, peer),
            Err(Unidentified::Untrusted)
        );
    }
    let long = "x".repeat(Caller::NAME_MAX + 1);
    for headers in [
        vec![("x-tenant", "a"), ("x-tenant", "a")],
        vec![("x-tenant", "")],
        vec![("x-tenant", "caf\u{e9}")],
        vec![("x-tenant", &long)],
    ] {
        assert_eq!(
            ask_from(&identity, &headers, "10.0.0.1:1"),
            Err(Unidentified::Ambiguous)
        );
    }
    let missing = Err(Unidentified::Missing { scheme: None });
    assert_eq!(ask_from(&identity, &[], "10.0.0.1:1"), missing);
}

// --- By API key ---

fn digest(key: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(key).into();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn api_keys(text: &str) -> Result<Identity, SetupError> {
    let folder = TempDir::new().unwrap();
    let keys = folder.path().join("api-keys.toml");
    fs::write(&keys, text).unwrap();
    let header = "x-api-key".parse().unwrap();
    identity(&Settings::ApiKey(ApiKeySettings { header, keys }), false)
}

#[test]
fn a_known_key_is_its_id() {
    let [one, two] = ["key one", "key two"].map(digest);
    let identity = api_keys(&format!(
        "acme = \"sha256:{one}\"\n\"billing 2\" = \"sha256:{}\"\n",
        two.to_uppercase()
    ))
    .unwrap();
    assert_eq!(
        ask(&identity, &[("x-api-key", "key one")]).unwrap(),
        "key:acme"
    );
    assert_eq!(
        ask(&identity, &[("x-api-key", "key two")]).unwrap(),
        "key:billing 2"
    );
    let wrong = Err(Unidentified::Wrong { scheme: None });
    assert_eq!(ask(&identity, &[("x-api-key", "key three")]), wrong);
    assert_eq!(ask(&identity, &[("x-api-key", &one)]), wrong);
    let missing = Err(Unidentified::Missing { scheme: None });
    assert_eq!(ask(&identity, &[("authorization", "key one")]), missing);
}

#[test]
fn a_file_of_keys_holds_digests_and_nothing_else() {
    let one = digest("one");
    for (text, problem) in [
        ("", "there is no key in it"),
        (
            "acme = \"hunter2\"",
            "the value of \"acme\" is not a digest",
        ),
        (
            "acme = \"sha256:abc\"",
            "the value of \"acme\" is not a digest",
        ),
        ("acme = 7", "the value of \"acme\" is not a digest"),
        ("\"\" = \"sha256:ONE\"", "\"\" is not an id"),
        (
            "a = \"sha256:ONE\"\nb = \"sha256:ONE\"",
            "has another id as well",
        ),
        ("a = 1\nb", "line 2: "),
    ] {
        let refused = api_keys(&text.replace("ONE", &one)).unwrap_err();
        let told = refused.to_string();
        assert!(told.contains(problem), "{text}: {told}");
        assert!(told.contains("api-keys.toml: "), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
        assert!(refused.hint().contains("sha256sum"));
    }
}
