//! What callers are told about work that is named by more than its key.

use std::fmt::Write as _;

use onceward::{Suspicion, Then};
use onceward_gateway::{config::Config, units::write_duration};
use onceward_http::{SuspectRule, Terms, UniqueRule};

use super::all;

/// Returns the chapter about rules, if there are any.
pub(super) fn of(config: &Config) -> String {
    let mut rows = String::new();
    for (name, terms) in all(config) {
        for rule in &terms.unique {
            let _ = writeln!(rows, "| {name} | {} |", once(rule, terms));
        }
        if let Some(rule) = &terms.suspect {
            let _ = writeln!(rows, "| {name} | {} |", suspected(rule));
        }
    }
    match rows.is_empty() {
        true => rows,
        false => format!("\n## Whatever the key\n\n| request | rule |\n|---|---|\n{rows}"),
    }
}

/// Returns what to do about the answers that rules lead to.
pub(super) fn rows(config: &Config) -> String {
    let mut rows = String::new();
    if all(config).any(|(_, terms)| !terms.unique.is_empty()) {
        rows.push_str(
            "| 400 `invalid-request` | Nothing was done. The message names the fields that are \
             missing. |\n\
             | 409 `already-done` | It was done under another key. Do not retry: \
             `original_status` and `Location` tell of its answer. |\n",
        );
    }
    let refuses = |terms: &Terms| {
        let rule = terms.suspect.as_ref();
        rule.is_some_and(|rule| rule.then == Suspicion::Refuse)
    };
    if all(config).any(|(_, terms)| refuses(terms)) {
        rows.push_str(
            "| 409 `suspected-duplicate` | Nothing was done. Retry with the key of the first \
             attempt; or, if it is meant a second time, with the same key and \
             `Idempotency-Confirm: intended`. |\n",
        );
    }
    rows
}

fn once(rule: &UniqueRule, terms: &Terms) -> String {
    let UniqueRule { name, on, .. } = rule;
    let then = match rule.then {
        Then::Return => "another key gets its answer",
        Then::Refuse => "another key gets 409 `already-done`",
    };
    let kept = write_duration(terms.policy.retention);
    format!("`{name}`: succeeds once for each `{on}` within {kept}; {then}")
}

fn suspected(rule: &SuspectRule) -> String {
    let SuspectRule { same, within, .. } = rule;
    let then = match rule.then {
        Suspicion::Flag => "is noted, and done",
        Suspicion::Refuse => "gets 409 `suspected-duplicate`",
        Suspicion::Return => "gets the first answer",
    };
    let within = write_duration(*within);
    format!(
        "the same `{same}` under another key within {within} {then}, unless it says \
         `Idempotency-Confirm: intended`"
    )
}
