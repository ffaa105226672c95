//! `onceward config contract`: what callers have to know.

use std::{fmt::Write as _, path::PathBuf};

use http::StatusCode;
use onceward::Effect;
use onceward_gateway::{
    config::Config,
    identity::Settings,
    units::{write_duration, write_size},
};
use onceward_http::{Fate, KeyNeed, KeySource, OnBusy, Profile, Statuses, Terms};

use super::Given;
use crate::{
    console::Console,
    exit::{Exit, Failure},
};

/// Print the rules for callers, in Markdown
///
/// Where the key goes, how long it counts, and what to do about each answer: the page to give to
/// those who write clients for this deployment. Without a file, the rules of the defaults.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The configuration
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    given: Given,
}

mod rules;

/// Where the service is does not matter to its callers.
const ANYWHERE: &str = "http://127.0.0.1:3000";

const RULES: &str = "\
# Retrying safely

Send a key with every request that changes something. The work is then done at most once for
that key, and every retry gets the first answer back.

## Rules

1. Make one key for one intent: one payment, one order. A random UUID is a good key.
2. Write the key down before the first attempt, so that a restart can go on with it.
3. Send the **same key and the same request** on every retry: after a timeout, a lost
   connection, or an answer that says so below.
4. Make a **new key for a new intent**, also if the request looks the same: two equal orders
   have two keys. Never make a new key because an attempt failed.
5. Stop retrying before the key's time is over. After that it counts as new, and the work would
   be done again.
6. Wait longer between attempts each time, with some jitter, and at least as long as
   `Retry-After` says.
";

// === impl Args ===

impl Args {
    /// Prints the rules.
    pub(super) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let config = match self.file {
            Some(file) => super::load(&file, self.given)?,
            None => Config::default_for(self.given.upstream.as_deref().unwrap_or(ANYWHERE)),
        };
        match config {
            Ok(config) => console.data(contract(&config)).map(|()| Exit::Done),
            Err(errors) => {
                super::tell(console, &errors);
                Ok(Exit::No)
            }
        }
    }
}

fn contract(config: &Config) -> String {
    let mut text = RULES.to_owned();
    let _ = write!(text, "\n## Whose key\n\n{}\n", callers(config));
    text.push_str(
        "\nA key belongs to its caller and to the operation: the same key for another path, or \
         from\nanother caller, is another key.\n",
    );
    text.push_str("\n## Where the key goes\n\n");
    text.push_str("| request | key | where | operation | valid for | largest request |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for (name, terms) in all(config) {
        text.push_str(&key_row(&name, terms));
    }
    text.push_str(
        "\nA key has 1 to 255 visible ASCII characters, and upper and lower case differ. In a \
         header it\nstands once, in double quotes or, unless the table says quoted, without. \
         GET, HEAD, OPTIONS and\nTRACE need none. The time counts from the end of the work.\n",
    );
    text.push_str(&exceptions(config));
    text.push_str(&rules::of(config));
    text.push_str("\n## What the answers mean\n\n");
    text.push_str("| request | final: stop | not done: retry | nobody knows | while running |\n");
    text.push_str("|---|---|---|---|---|\n");
    for (name, terms) in all(config).filter(|(_, terms)| terms.key != KeyNeed::Off) {
        text.push_str(&status_row(&name, terms));
    }
    text.push_str(&answers(config));
    text
}

/// Every kind of request, and what holds for it.
fn all(config: &Config) -> impl Iterator<Item = (String, &Terms)> {
    let routes = config.routes.iter();
    let routes = routes.map(|route| (format!("`{}`", route.pattern), &route.terms));
    let others = match config.routes.is_empty() {
        true => "every request",
        false => "every other request",
    };
    routes.chain([(others.to_owned(), &config.fallback)])
}

fn callers(config: &Config) -> String {
    match &config.identity {
        Settings::Jwt(jwt) => format!(
            "You are known by the claim `{}` of your bearer token. A renewed token of the same \
             caller is the\nsame caller.",
            jwt.claim
        ),
        Settings::Header(_) => "The proxy in front says who you are.".into(),
        Settings::ApiKey(keys) => format!(
            "You are known by the key in the header `{}`. Another key is another caller.",
            keys.header
        ),
        Settings::Credential => {
            "You are told apart by `Authorization`, else `X-Api-Key`, exactly as sent. **Use the \
             same\ncredential for all attempts of one call:** a renewed token is another caller, \
             and its retry would\nbe new work. Signatures that change with every attempt are \
             refused."
                .into()
        }
        _ => "All callers are one caller: keys must differ between all of you.".into(),
    }
}

fn key_row(name: &str, terms: &Terms) -> String {
    let Terms { policy, .. } = terms;
    if terms.key == KeyNeed::Off {
        return format!("| {name} | means nothing: not protected | | | | |\n");
    }
    let need = match terms.key {
        KeyNeed::Required => "required",
        KeyNeed::Derived => "made of the request; one that you send means nothing",
        _ => "optional; without one the request is **not protected**",
    };
    let operation = match &terms.operation {
        Some(operation) => format!("`{operation}`"),
        None => "method and path".into(),
    };
    let mut place = place(terms);
    if let Some(field) = &terms.key_equals {
        let _ = write!(place, ", equal to `{field}`");
    }
    let mut valid = write_duration(policy.retention);
    if let Some(keep) = policy.keep_body {
        valid = format!("{valid}; bodies {}", write_duration(keep));
    }
    let largest = write_size(terms.request_max as u64);
    format!("| {name} | {need} | {place} | {operation} | {valid} | {largest} |\n")
}

/// What differs where keys are made of the request, or have to fit it.
fn exceptions(config: &Config) -> String {
    let mut text = String::new();
    if all(config).any(|(_, terms)| terms.key == KeyNeed::Derived) {
        text.push_str(
            "\nWhere the key is made of the request, the request says itself which operation it \
             is: what the\ntable names has to be in every request, and be the same on every retry. \
             Two requests in which\nit is equal are one operation, whatever else they say and \
             whatever key they carry. `/name` is a\nmember of the JSON body or a field of the form, \
             `{name}` a part of the path. A request without\nit gets 400 `missing-key`, and \
             nothing is done.\n",
        );
    }
    if all(config).any(|(_, terms)| terms.key_equals.is_some()) {
        text.push_str(
            "\nWhere the key has to be equal to a field, send the text or the whole number that \
             stands there as\nthe key. Another key gets 400 `invalid-key`, and nothing is done.\n",
        );
    }
    text
}

fn place(terms: &Terms) -> String {
    let quoted = match terms.profile {
        Profile::IetfStrict if terms.key != KeyNeed::Derived => ", quoted",
        _ => "",
    };
    match &terms.key_from {
        KeySource::Headers(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("header {}{quoted}", names.join(" or "))
        }
        KeySource::Json(pointer) => format!("JSON body, `{}`", pointer.as_str()),
        KeySource::Form(name) => format!("form field `{name}`"),
        KeySource::Query(name) => format!("query parameter `{name}`"),
        KeySource::Fields(fields) => {
            let names: Vec<_> = fields.iter().map(|name| format!("`{name}`")).collect();
            format!("of {}", names.join(" and "))
        }
        KeySource::BodyHash => "of the bytes of the body".into(),
        _ => "see the operator".into(),
    }
}

fn status_row(name: &str, terms: &Terms) -> String {
    let [stored, released, unknown] =
        [Fate::Store, Fate::Release, Fate::Unknown].map(|fate| statuses(&terms.statuses, fate));
    let running = match terms.on_busy {
        OnBusy::Wait(span) => format!("waits up to {}, then 409", write_duration(span)),
        OnBusy::Refuse => "409 at once".into(),
        OnBusy::Accept => "202 with `Location`".into(),
        _ => "409".into(),
    };
    format!("| {name} | {stored} | {released} | {unknown} | {running} |\n")
}

/// The statuses from 200 that have a fate: a class where most of it has, and codes beside.
fn statuses(statuses: &Statuses, fate: Fate) -> String {
    let of = |code: u16| statuses.fate(StatusCode::from_u16(code).expect("below 1000"));
    let mut told = Vec::new();
    for class in 2..=5u16 {
        let codes = || class * 100..(class + 1) * 100;
        let usual = codes().filter(|code| of(*code) == fate).count() > 50;
        let others = codes().filter(|code| (of(*code) == fate) != usual);
        let others: Vec<_> = others.map(|code| code.to_string()).collect();
        match (usual, others.is_empty()) {
            (true, true) => told.push(format!("{class}xx")),
            (true, false) => told.push(format!("{class}xx but {}", others.join(" "))),
            (false, _) => told.extend(others),
        }
    }
    match told.is_empty() {
        true => "none".into(),
        false => told.join(", "),
    }
}

fn answers(config: &Config) -> String {
    let stripe_or_oasis = |profile| matches!(profile, Profile::Stripe | Profile::Oasis);
    let reused = by_profile(config, 422, 400, stripe_or_oasis);
    let expired = by_profile(config, 410, 412, |profile| profile == Profile::Oasis);
    let unknown = unknown(config);
    let caller = caller_rows(config);
    let ruled = rules::rows(config);
    format!(
        "
| answer | what to do |
|---|---|
| `Idempotent-Replayed: true` | This is the first answer, repeated. Nothing was done again. |
| 400 `missing-key`, `invalid-key` | Nothing was done. Correct the key. |
| 400 `upgrade-refused` | Nothing was done. A connection upgrade cannot carry a key. |
{caller}\
| 408 `request-cut` | Nothing was done: the body did not arrive in full. Retry with the same key. |
| 409 `in-progress` | The first attempt is running. Retry with the same key after `Retry-After`. |
{unknown}\
| 409 `answer-not-kept` | The work was done, and its answer was too large to keep or is not kept any longer. Do not retry. |
{ruled}\
| {expired} `expired` | The key is too old. Find out what became of it before making a new one. |
| 413 `body-too-large` | Nothing was done. Send less. |
| {reused} `key-reused` | The key was used for a different request. Nothing was done. Correct the program. |
| 429 `too-many-claims` | Nothing was done. Retry with the same key after `Retry-After`. |
| 502 `upstream-unreachable` | Nothing was done. Retry with the same key. |
| 503 `store-unavailable` | Retry with the same key after `Retry-After`. |
| no answer at all | Retry with the same key. |

Where an answer says `X-Should-Retry`, that counts: `true` is retried with the same key, `false` is
not.
"
    )
}

/// What to do about an outcome that nobody knows.
fn unknown(config: &Config) -> String {
    let settles = |terms: &Terms| matches!(terms.policy.effect, Effect::Keyed | Effect::Probed);
    let mut told = String::new();
    if all(config).any(|(_, terms)| terms.key != KeyNeed::Off && settles(terms)) {
        told.push_str(
            "| 409 `outcome-unknown` with `X-Should-Retry: true` | Nobody knows yet whether the \
             work was done. Retry with the same key after `Retry-After`: that finds out. |\n",
        );
    }
    // Also where no route is opaque: a record keeps the class it was claimed under.
    told.push_str(
        "| 409 `outcome-unknown` with `X-Should-Retry: false` | Nobody knows whether the work was \
         done. Do not make a new key: ask the operator. |\n",
    );
    told
}

/// What callers who are not known are told.
fn caller_rows(config: &Config) -> &'static str {
    match &config.identity {
        Settings::None => "",
        Settings::Credential => {
            "| 400 `unstable-credential` | Nothing was done. The credential is signed anew for \
             every attempt; ask the operator. |\n\
             | 401 `unidentified-caller` | Nothing was done. Authenticate, then retry with the \
             same key. |\n"
        }
        _ => {
            "| 401 `unidentified-caller` | Nothing was done. Authenticate, then retry with the \
             same key. |\n"
        }
    }
}

/// A status that is another one on the routes of some profiles.
fn by_profile(config: &Config, usual: u16, other: u16, of: impl Fn(Profile) -> bool) -> String {
    let protected = || all(config).filter(|(_, terms)| terms.key != KeyNeed::Off);
    let others = protected().filter(|(_, terms)| of(terms.profile));
    let others: Vec<_> = others.map(|(name, _)| name).collect();
    match others.len() {
        0 => usual.to_string(),
        count if count == protected().count() => other.to_string(),
        _ => format!("{usual} (for {}: {other})", others.join(", ")),
    }
}

#[cfg(test)]
mod tests;
