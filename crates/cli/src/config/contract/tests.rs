//! What callers are told.

use onceward_gateway::config::Overrides;

use super::*;

fn told(text: &str) -> String {
    let text = format!("upstream = {ANYWHERE:?}\n{text}");
    let config = Config::parse(&text, "f.toml", Overrides::default());
    contract(&config.unwrap_or_else(|errors| panic!("{errors}")))
}

#[test]
fn defaults_are_told() {
    let told = told("");
    for said in [
        "| every request | optional; without one the request is **not protected** | header \
         `idempotency-key` or `x-idempotency-key` | method and path | 1d | 8MiB |",
        "| every request | 2xx, 3xx, 4xx but 401 403 408 425 429, 5xx but 502 503 504 | 401, \
         403, 408, 425, 429, 503 | 502, 504 | waits up to 10s, then 409 |",
        "told apart by `Authorization`",
        "ask the operator",
        "| 422 `key-reused` |",
        "| 401 `unidentified-caller` |",
        "| 400 `unstable-credential` |",
        "| 408 `request-cut` |",
        "| 400 `upgrade-refused` |",
        "| 429 `too-many-claims` |",
        "| 409 `outcome-unknown` with `X-Should-Retry: false` |",
        "**same key and the same request**",
        "**new key for a new intent**",
    ] {
        assert!(told.contains(said), "{said}\n{told}");
    }
    // Nothing settles by itself here.
    assert!(!told.contains("that finds out"), "{told}");
    let lines = told.lines().filter(|line| line.starts_with('|'));
    assert!(lines.clone().all(|line| line.ends_with('|')), "{told}");
}

#[test]
fn each_route_has_its_row() {
    let told = told(
        r#"
[identity]
from = "none"
[defaults]
profile = "stripe"
effect = "keyed"
[[route]]
match = "POST /payments"
operation = "pay"
key = "required"
key_from = { json = "/key" }
retention = "7d"
on_busy = "refuse"
[[route]]
match = "PUT /strict"
profile = "ietf-strict"
on_busy = "accept"
[[route]]
match = "POST /success"
profile = "success-only"
key_from = { form = "Token" }
[[route]]
match = "* /open"
key = "off"
"#,
    );
    for said in [
        "| `POST /payments` | required | JSON body, `/key` | `pay` | 7d | 8MiB |",
        "| `* /open` | means nothing: not protected |",
        "`idempotency-key` or `x-idempotency-key`, quoted |",
        "| `POST /success` | 2xx | 3xx, 4xx, 5xx but 502 504 | 502, 504 |",
        "form field `Token`",
        "| 409 at once |",
        "| 202 with `Location` |",
        "every other request",
        "All callers are one caller",
        "| 409 `outcome-unknown` with `X-Should-Retry: true` | Nobody knows yet whether the work \
         was done. Retry with the same key",
        "| 422 (for `POST /payments`, every other request: 400) `key-reused` |",
        "| 410 `expired` |",
    ] {
        assert!(told.contains(said), "{said}\n{told}");
    }
    assert_eq!(told.matches("`* /open`").count(), 1);
    assert!(!told.contains("unidentified-caller"), "{told}");
}

#[test]
fn statuses_of_a_profile_are_told() {
    let stripe = told("[defaults]\nprofile = \"stripe\"\n");
    assert!(stripe.contains("| 400 `key-reused` |"), "{stripe}");
    let oasis = told("[[route]]\nmatch = \"POST /a\"\nprofile = \"oasis\"\n");
    for said in [
        "| 422 (for `POST /a`: 400) `key-reused` |",
        "| 410 (for `POST /a`: 412) `expired` |",
    ] {
        assert!(oasis.contains(said), "{said}\n{oasis}");
    }
}

#[test]
fn keys_that_are_made_of_the_request_are_told() {
    let made = told(
        r#"
[[route]]
match = "POST /payments/{id}/status"
operation = "settle"
key = "derived"
key_from = { fields = ["{id}", "/status"] }
[[route]]
match = "POST /hooks/a"
key = "derived"
key_from = { body = "hash" }
[[route]]
match = "POST /hooks/b"
profile = "ietf-strict"
key = "derived"
key_from = { header = "X-Delivery-Id" }
[[route]]
match = "POST /orders"
key_equals = "/order_id"
"#,
    );
    let derived = "made of the request; one that you send means nothing";
    for said in [
        format!("status` | {derived} | of `{{id}}` and `/status` | `settle` | 1d |"),
        format!("| `POST /hooks/a` | {derived} | of the bytes of the body | method and path |"),
        format!("| `POST /hooks/b` | {derived} | header `x-delivery-id` | method and path |"),
        "header `idempotency-key` or `x-idempotency-key`, equal to `/order_id` |".into(),
        "the request says itself which operation it is".into(),
        "Where the key has to be equal to a field".into(),
    ] {
        assert!(made.contains(&said), "{said}\n{made}");
    }
    let usual = told("");
    assert!(!usual.contains("made of the request"), "{usual}");
    assert!(!usual.contains("has to be equal"), "{usual}");
}

#[test]
fn rules_are_told_where_there_are_any() {
    let told = told(
        r#"
[[route]]
match = "POST /payments"
retention = "30d"
keep_body = "24h"
unique = [{ name = "paid-order", on = ["/order_id"], then = "refuse" }]
suspect = { same = ["/user", "/amount"], within = "30s", then = "refuse" }
"#,
    );
    for said in [
        "| `POST /payments` | required | header",
        "| 30d; bodies 1d |",
        "| `POST /payments` | `paid-order`: succeeds once for each `/order_id` within 30d; another \
         key gets 409 `already-done` |",
        "| `POST /payments` | the same `/user and /amount` under another key within 30s gets 409 \
         `suspected-duplicate`, unless it says `Idempotency-Confirm: intended` |",
        "| 409 `already-done` | It was done",
        "| 409 `suspected-duplicate` | Nothing was done.",
    ] {
        assert!(told.contains(said), "{said}\n{told}");
    }
    let plain = self::told("");
    assert!(
        !plain.contains("Whatever the key") && !plain.contains("already-done"),
        "{plain}"
    );
}
