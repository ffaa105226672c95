//! Real SDKs, used unchanged and pointed at the gateway: every call with a stable key is executed
//! once, whatever happens on the way, and every refusal is an error of the SDK's own.
//!
//! Each SDK runs in a process of its own and is told which calls to make; see `python/adapter.py`
//! and `node/adapter.js`. The packages are installed into the target folder by the first test
//! that needs them.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod adapter;
mod gateway;
mod hop;
mod origin;
mod packages;
mod scenarios;
mod sdks;

use scenarios::check;

#[test]
fn stripe_for_python_executes_once() {
    check(sdks::STRIPE_PYTHON);
}

#[test]
fn stripe_for_node_executes_once() {
    check(sdks::STRIPE_NODE);
}

#[test]
fn openai_executes_once_when_it_is_given_keys() {
    check(sdks::OPENAI);
}

#[test]
fn increase_executes_once() {
    check(sdks::INCREASE);
}

#[test]
fn modern_treasury_for_python_executes_once() {
    check(sdks::MODERN_TREASURY_PYTHON);
}

#[test]
fn modern_treasury_for_node_executes_once() {
    check(sdks::MODERN_TREASURY_NODE);
}

#[test]
fn svix_for_python_executes_once() {
    check(sdks::SVIX_PYTHON);
}

#[test]
fn svix_for_node_executes_once() {
    check(sdks::SVIX_NODE);
}

#[test]
fn square_executes_once_by_the_key_in_its_body() {
    check(sdks::SQUARE);
}

#[test]
fn workos_executes_once() {
    check(sdks::WORKOS);
}

#[test]
fn gocardless_executes_once() {
    check(sdks::GOCARDLESS);
}

#[test]
fn azure_executes_once_by_its_repeatability_headers() {
    check(sdks::AZURE);
}

#[test]
fn boto3_executes_once_by_the_token_in_its_form() {
    check(sdks::BOTO3);
}
