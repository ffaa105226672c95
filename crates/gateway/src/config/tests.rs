//! What a file means, and what is said about the rest.

use onceward::{Durability, Effect};
use onceward_http::{BodyRule, Fate, KeyNeed, KeySource, OnBusy, Pointer, Profile};

use proptest::prelude::*;

use super::fields::{self, Part};
use super::*;
use crate::route::Routes;

mod keys;
mod refused;
mod rules;
mod warned;

const TOP: &str = "upstream = \"http://127.0.0.1:3000\"\n";

fn check(text: &str) -> Result<Config, Errors> {
    Config::parse(text, "f.toml", Overrides::default())
}

/// Checks a text that only lacks an upstream.
fn parsed(text: &str) -> Config {
    check(&format!("{TOP}{text}")).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The problems with a text that only lacks an upstream, which stands in its first line.
fn problems(text: &str) -> Vec<String> {
    let errors = check(&format!("{TOP}{text}")).expect_err(text);
    for problem in &errors.0 {
        assert!(!problem.hint.is_empty(), "{problem}");
    }
    errors.0.iter().map(Problem::to_string).collect()
}

fn fate(terms: &Terms, code: u16) -> Fate {
    terms
        .statuses
        .fate(http::StatusCode::from_u16(code).unwrap())
}

#[test]
fn without_a_file_the_defaults_hold() {
    let config = Config::default_for("http://127.0.0.1:3000").unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin.listen.unwrap().to_string(), "127.0.0.1:9090");
    assert_eq!(config.store.to_string(), "embedded:./onceward-data");
    assert_eq!(config.identity, identity::Settings::Credential);
    let mut terms = Terms::default();
    terms.within = Some(Duration::from_secs(60));
    assert_eq!(config.fallback, terms);
    assert_eq!(config.warnings, []);
    assert_eq!(config, check(TOP).unwrap());
}

#[test]
fn every_term_can_be_set() {
    let config = parsed(
        r#"
[defaults]
mode = "enforce"
effect = "keyed"
retention = "7d"
unknown_retention = "30d"
lease = "10s"
on_busy = "accept"
profile = "stripe"
upstream_timeout = "5s"
max_request = "2MiB"
max_answer = "64KiB"
key = "required"
key_from = { json = "/id" }
fingerprint = { body = "json", only = ["/a/b"], headers = ["If-Match"], previous = { body = "form" } }
stream = true
replay_cookies = true
store_headers = ["Location", "etag"]
key_age_max = "1h"
"#,
    );
    let terms = config.fallback;
    let second = Duration::from_secs(1);
    assert_eq!(terms.policy.effect, Effect::Keyed);
    assert_eq!(terms.policy.retention, 7 * 86_400 * second);
    assert_eq!(terms.policy.unknown_retention, Some(30 * 86_400 * second));
    assert_eq!(terms.policy.lease, 10 * second);
    assert_eq!(terms.policy.body_max, 64 << 10);
    assert_eq!(terms.policy.route, "default");
    assert_eq!(terms.on_busy, OnBusy::Accept);
    assert_eq!(terms.profile, Profile::Stripe);
    assert_eq!(terms.within, Some(5 * second));
    assert_eq!(terms.request_max, 2 << 20);
    assert_eq!(terms.key, KeyNeed::Required);
    assert_eq!(
        terms.key_from,
        KeySource::Json(Pointer::parse("/id").unwrap())
    );
    let only = vec![Pointer::parse("/a/b").unwrap()];
    let ignore = Vec::new();
    assert_eq!(terms.fingerprint.body, BodyRule::Json { ignore, only });
    assert_eq!(terms.fingerprint.headers, ["if-match"]);
    assert_eq!(terms.previous_fingerprint.unwrap().body, BodyRule::Form);
    assert!(terms.stream && terms.replay_cookies);
    assert_eq!(terms.store_headers.unwrap(), ["location", "etag"]);
    assert_eq!(terms.key_age_max, Some(3600 * second));
}

#[test]
fn a_route_stands_over_the_defaults() {
    let config = parsed(
        r#"
[defaults]
effect = "probed"
probe = { url = "/by-key/{key}" }
retention = "48h"
profile = "oasis"

[[route]]
match = "POST /payments"
operation = "pay"
wait = "5s"

[[route]]
match = "POST /orders/{id}"
effect = "opaque"
duplicates = "allowed"
retention = "2h"
profile = "ietf"
key_from = { header = ["X-Key", "Y-Key"] }
"#,
    );
    let [pay, order] = &config.routes[..] else {
        panic!("two routes");
    };
    assert_eq!(&*pay.name, "pay");
    assert_eq!(pay.terms.policy.route, "pay");
    assert_eq!(pay.terms.policy.effect, Effect::Probed);
    assert_eq!(pay.probe.as_ref().unwrap().url.as_ref(), "/by-key/{key}");
    assert_eq!(pay.terms.on_busy, OnBusy::Wait(Duration::from_secs(5)));
    assert_eq!(pay.terms.key_from, KeySource::of(Profile::Oasis));
    assert_eq!(pay.line, 10);
    assert_eq!(&*order.name, "POST /orders/{id}");
    assert_eq!(order.terms.policy.effect, Effect::Repeatable);
    assert!(order.duplicates_allowed);
    assert_eq!(order.probe, None);
    assert_eq!(order.terms.policy.retention, Duration::from_secs(7200));
    let names = ["x-key", "y-key"].map(HeaderName::from_static);
    assert_eq!(order.terms.key_from, KeySource::Headers(names.to_vec()));
    assert_eq!(config.fallback_probe, pay.probe);
    let routes = Routes::new(config.routes);
    assert_eq!(
        routes.find(&http::Method::POST, "/orders/7").unwrap().line,
        15
    );
}

#[test]
fn what_belongs_to_an_effect_goes_where_the_effect_goes() {
    let route = |effect: &str| {
        let config = parsed(&format!(
            "[defaults]\neffect = \"probed\"\nprobe = {{ url = \"/p\" }}\n\
             [[route]]\nmatch = \"POST /a\"\n{effect}"
        ));
        let Route { probe, terms, .. } = &config.routes[0];
        (terms.policy.effect, probe.is_some())
    };
    assert_eq!(route(""), (Effect::Probed, true));
    assert_eq!(route("effect = \"probed\""), (Effect::Probed, true));
    assert_eq!(route("effect = \"keyed\""), (Effect::Keyed, false));

    let route = |effect: &str| {
        let text = "[defaults]\nduplicates = \"allowed\"\n[[route]]\nmatch = \"POST /a\"\n";
        parsed(&format!("{text}{effect}")).routes[0]
            .terms
            .policy
            .effect
    };
    assert_eq!(route(""), Effect::Repeatable);
    assert_eq!(route("effect = \"opaque\""), Effect::Repeatable);
    assert_eq!(route("effect = \"keyed\""), Effect::Keyed);
    assert_eq!(route("duplicates = \"refused\""), Effect::Opaque);
}

#[test]
fn a_status_list_replaces_the_one_below_and_takes_its_codes_out_of_the_others() {
    let config = parsed(
        r#"
[defaults]
unknown_statuses = [503]
[[route]]
match = "POST /a"
release_statuses = [404, 503]
[[route]]
match = "POST /b"
profile = "success-only"
store_statuses = ["2xx", "4xx"]
"#,
    );
    assert_eq!(fate(&config.fallback, 503), Fate::Unknown);
    assert_eq!(fate(&config.fallback, 502), Fate::Store);
    assert_eq!(fate(&config.fallback, 429), Fate::Release);
    let [a, b] = &config.routes[..] else {
        panic!("two routes");
    };
    assert_eq!(fate(&a.terms, 503), Fate::Release);
    assert_eq!(fate(&a.terms, 404), Fate::Release);
    assert_eq!(fate(&a.terms, 429), Fate::Store);
    assert_eq!(fate(&b.terms, 404), Fate::Store);
    assert_eq!(fate(&b.terms, 500), Fate::Release);
    assert_eq!(fate(&b.terms, 503), Fate::Unknown);
}

#[test]
fn the_rest_of_a_file_is_read() {
    let config = check(
        r#"
listen = "0.0.0.0:8443"
strict = true
shutdown_grace = "5s"
upstream = { url = "https://svc", connect_timeout = "1s", ca_file = "ca.pem", host = "upstream", key_header = "X-Key" }
[tls]
cert = "c.pem"
key = "k.pem"
[store]
url = "memory:"
[admin]
listen = "0.0.0.0:9443"
token_file = "token"
[limits]
connections = 50
header_size = "16KiB"
idle_timeout = "1s"
executions = 7
[log]
format = "json"
access = true
[problems]
type = "https://p/"
docs = "https://d/"
"#,
    )
    .unwrap();
    assert_eq!(config.upstream.url, "https://svc");
    assert_eq!(config.upstream.connect_timeout, Duration::from_secs(1));
    assert_eq!(config.upstream.ca_file, Some("ca.pem".into()));
    assert_eq!(config.upstream.host, HostRule::Upstream);
    assert_eq!(
        config.upstream.key_header,
        KeyHeader::Name("x-key".parse().unwrap())
    );
    assert_eq!(config.tls.as_ref().unwrap().cert, Path::new("c.pem"));
    assert_eq!(config.store, StoreUrl::Memory);
    assert_eq!(config.admin.token, TokenSource::File("token".into()));
    assert_eq!(config.limits.connections_per_peer, 50);
    assert_eq!(config.limits.header_size, 16 << 10);
    assert_eq!(config.limits.executions, 7);
    assert_eq!(parsed("").limits.executions, 10_000);
    assert_eq!(config.limits.idle_timeout, Duration::from_secs(1));
    assert_eq!(
        (config.log.format, config.log.access),
        (LogFormat::Json, true)
    );
    assert_eq!(config.problems.type_base, "https://p/");
    assert_eq!(config.problems.docs_base.as_deref(), Some("https://d/"));
    assert!(config.strict && !config.is_loopback());
    assert_eq!(config.shutdown_grace, Duration::from_secs(5));
}

#[test]
fn the_command_line_counts_before_the_file() {
    let overrides = Overrides {
        listen: Some("127.0.0.1:1".parse().unwrap()),
        upstream: Some("http://other".into()),
        store: Some(StoreUrl::Memory),
        cache: None,
        admin: Some(AdminListen::Off),
        admin_token: Token::parse("0123456789abcdef"),
    };
    let text =
        "listen = \"0.0.0.0:80\"\nupstream = \"http://svc\"\n[admin]\nlisten = \"0.0.0.0:81\"";
    let config = Config::parse(text, "f.toml", overrides.clone()).unwrap();
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.upstream.url, "http://other");
    assert_eq!(config.store, StoreUrl::Memory);
    assert_eq!(config.admin.listen, None);
    assert_eq!(
        Some(config.admin.token),
        overrides.admin_token.map(TokenSource::Given)
    );
}

#[test]
fn what_the_command_line_gets_wrong_stands_in_no_line() {
    let overrides = Overrides {
        listen: Some("0.0.0.0:80".parse().unwrap()),
        upstream: Some("nonsense".into()),
        ..Overrides::default()
    };
    let errors = Config::parse(TOP, "f.toml", overrides).unwrap_err();
    let told: Vec<_> = errors.0.iter().map(Problem::to_string).collect();
    let wanted = [
        "listen 0.0.0.0:80 is off loopback and without TLS",
        "upstream \"nonsense\" has no scheme",
    ];
    assert_eq!(told, wanted);
    let nothing = Config::without_file(Overrides::default()).unwrap_err();
    assert_eq!(nothing.0[0].to_string(), "there is no upstream");
}

#[test]
fn keyed_work_without_its_key_is_refused() {
    let text = |key: &str, more: &str| {
        format!(
            "[upstream]\nurl = \"http://svc\"\nkey_header = {key:?}\n[[route]]\n\
             match = \"POST /a\"\neffect = \"keyed\"\n{more}\n"
        )
    };
    for more in ["", "key_from = { header = \"X-Key\" }"] {
        let refused = check(&text("drop", more)).unwrap_err().0;
        assert_eq!(refused.len(), 1);
        let told = refused[0].to_string();
        assert!(
            told.starts_with("f.toml:6:10: effect = \"keyed\" relies"),
            "{told}"
        );
        assert!(refused[0].hint.contains("key_header"));
    }
    assert!(check(&text("X-Key", "")).is_ok());
    // The service finds these in what it gets anyway.
    assert!(check(&text("drop", "key_from = { json = \"/key\" }")).is_ok());
    assert!(check(&text("drop", "key = \"off\"")).is_ok());
}

#[test]
fn the_class_of_a_store_is_told_by_its_url() {
    for (url, class) in [
        ("memory:", Durability::D0),
        ("embedded:x?durability=os", Durability::D1),
        ("embedded:x", Durability::D2),
    ] {
        let config = parsed(&format!("[store]\nurl = {url:?}"));
        assert_eq!(config.durability(), class);
    }
}

#[test]
fn a_strict_gateway_refuses_a_store_that_forgets() {
    let keyed = "[defaults]\neffect = \"keyed\"\n";
    let strict = parsed("strict = true");
    for (durability, refused) in [
        (Durability::D0, true),
        (Durability::D1, true),
        (Durability::D2, false),
        (Durability::D3, false),
    ] {
        assert_eq!(strict.refuses(durability).is_some(), refused);
        assert_eq!(parsed("").refuses(durability), None);
        assert_eq!(
            parsed(&format!("strict = true\n{keyed}")).refuses(durability),
            None
        );
    }
    let route =
        format!("strict = true\n{keyed}[[route]]\nmatch = \"POST /a\"\neffect = \"opaque\"");
    let told = parsed(&route).refuses(Durability::D1).unwrap();
    assert!(told.contains("\"POST /a\""), "{told}");
    let off = format!("{route}\nkey = \"off\"");
    assert_eq!(parsed(&off).refuses(Durability::D0), None);
}

#[test]
fn every_field_takes_its_example() {
    for part in Part::ALL {
        for field in fields::of(part) {
            let (name, example) = (field.name, field.example);
            let line = format!("{name} = {example}\n");
            let inner = |holder: &str| format!("[defaults.{holder}]\n{line}");
            let text = match part {
                Part::Top => line,
                Part::KeyFrom => inner("key_from"),
                Part::Fingerprint => inner("fingerprint"),
                Part::Previous => inner("fingerprint.previous"),
                Part::Probe => inner("probe"),
                Part::Jwt => format!("[identity.jwt]\n{line}"),
                Part::Header => format!("[identity.header]\n{line}"),
                Part::ApiKey => format!("[identity.api_key]\n{line}"),
                part => format!("{}\n{line}", part.title()),
            };
            let Err(errors) = check(&text) else { continue };
            // Others may be missing; what stands there is right.
            for problem in &errors.0 {
                let wrong = [
                    "unknown field",
                    "where",
                    "is not",
                    "has an unknown",
                    "has no unit",
                ];
                let wrong = wrong.iter().any(|part| problem.message.contains(part));
                assert!(!wrong, "{text}{problem}");
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let refused = Config::load(Path::new("/nowhere/f.toml"), Overrides::default());
    assert_eq!(
        refused.unwrap_err().to_string(),
        "/nowhere/f.toml cannot be read"
    );
}

proptest! {
    /// Whatever is done to a line of a valid file, it is accepted or refused, each with a reason.
    #[test]
    fn no_slip_of_the_keyboard_is_without_an_answer(
        line in 0usize..200,
        column in 0usize..40,
        typed in prop::sample::select(vec!["", "\"", "{", "]", "=", "0", "-", "#", "\u{e9}", "\n"]),
        drop in 0usize..6,
    ) {
        let example = reference::example();
        let settings: Vec<_> = example
            .lines()
            .filter(|line| !line.starts_with("##") && !line.is_empty())
            .map(|line| line.trim_start_matches("# "))
            // The table of the same name stands further down.
            .filter(|line| !line.starts_with("upstream ="))
            .collect();
        let mut lines: Vec<_> = settings.iter().map(|line| (*line).to_owned()).collect();
        let line = line % lines.len();
        let text: Vec<_> = lines[line].chars().collect();
        let at = column.min(text.len());
        let after = (at + drop).min(text.len());
        lines[line] = text[..at].iter().collect::<String>() + typed + &String::from_iter(&text[after..]);
        if let Err(errors) = check(&lines.join("\n")) {
            prop_assert!(!errors.0.is_empty());
            prop_assert!(errors.0.iter().all(|it| !it.message.is_empty() && !it.hint.is_empty()));
        }
    }
}
