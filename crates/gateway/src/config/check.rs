//! From a text to a configuration: every table is read, then what they say together is checked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::Method;
use onceward::{Effect, Scope};
use onceward_http::{KeyNeed, KeySource};
use onceward_stores::StoreUrl;
use toml::de::DeTable;

use super::fields::Part;
use super::problem::{At, Errors, Source, Span};
use super::reader::Section;
use super::written::Written;
use super::{
    Admin, AdminListen, Config, KeyHeader, Limits, Log, LogFormat, Overrides, Problems, Tls,
    TokenSource, is_loopback, keys, parse as values, quotas, store, upstream, who,
};
use crate::identity;
use crate::route::{Pattern, Route};
use crate::units::{self, Invalid};

const LISTEN: SocketAddr = local(8080);
const ADMIN: SocketAddr = local(9090);

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// Checks the text of a file.
pub(super) fn parse(text: &str, file: &str, overrides: Overrides) -> Result<Config, Errors> {
    let source = Source::new(file, text);
    let (document, wrong) = DeTable::parse_recoverable(text);
    for error in wrong {
        let span = error.span().or(Some(0..0));
        let message = error.message().replace('\n', ", ");
        source.refuse(
            &span,
            message,
            "see https://toml.io for how a file is written",
        );
    }
    // What else is wrong with a text that cannot be read would be guesswork.
    let source = match source.verdict() {
        Ok(_) => Source::new(file, text),
        Err(errors) => return Err(errors),
    };
    let config = read(&source, document.get_ref(), overrides);
    let warnings = source.verdict()?;
    let config = config.expect("what cannot be read was refused");
    Ok(Config { warnings, ..config })
}

/// Returns the configuration, and notes in `source` what is wrong; nothing if too much is.
fn read<'s>(
    source: &'s Source<'s>,
    document: &'s DeTable<'s>,
    overrides: Overrides,
) -> Option<Config> {
    let top = Section::new(source, Part::Top, document);
    let listen = given_or(
        overrides.listen,
        top.parsed("listen", values::listen),
        LISTEN,
    );
    let plaintext = top
        .word("plaintext", &[("behind-proxy", ())], &[])
        .is_some();
    let tls = tls(source, &top);
    check_listener(source, &listen, plaintext || top.has("tls"));
    let identity = who::read(source, &top);
    warn_shared(source, &listen.value, &identity);
    let admin = admin(source, &top, &overrides, listen.value);
    let store = store::read(source, &top, overrides.store, overrides.cache);
    let upstream = upstream::read(source, &top, overrides.upstream, listen.value);

    let defaults = top.table_or_empty("defaults", Part::Defaults);
    let defaults = Written::read(source, &defaults);
    let dropped = upstream
        .as_ref()
        .is_some_and(|it| it.key_header == KeyHeader::Drop);
    let routes = routes(source, &top, &defaults, dropped);
    check_dropped(source, &defaults, dropped);
    let mut fallback = defaults.hold(source, &[]);
    defaults.rules.check_names(source, &routes);
    defaults.rules.hold(&mut fallback.terms, "default");
    let limits = limits(source, &top);
    let kept = routes.iter().map(|route| route.terms.policy.body_max);
    let around = quotas::Around {
        identity: &identity.value,
        behind_proxy: plaintext,
        executions: limits.executions,
        answer_max: kept.fold(fallback.terms.policy.body_max, usize::max),
    };
    let quotas = quotas::read(source, &top, &around);
    Some(Config {
        listen: listen.value,
        upstream: upstream?,
        plaintext_behind_proxy: plaintext,
        strict: top.flag("strict").is_some_and(|at| at.value),
        shutdown_grace: span_or(&top, "shutdown_grace", 30),
        tls,
        store: store.url,
        cache: store.cache,
        password_file: store.password_file,
        admin,
        identity: identity.value,
        limits,
        quotas,
        log: log(&top),
        problems: problems(&top),
        routes,
        fallback: fallback.terms,
        fallback_probe: fallback.probe,
        warnings: Vec::new(),
    })
}

/// The value of the command line, else that of the file, else the default.
pub(super) fn given_or<T>(given: Option<T>, written: Option<At<T>>, default: T) -> At<T> {
    match (given, written) {
        (Some(value), _) => At::nowhere(value),
        (None, Some(written)) => written,
        (None, None) => At::nowhere(default),
    }
}

pub(super) fn default_store() -> StoreUrl {
    StoreUrl::Embedded {
        path: "./onceward-data".into(),
        sync: true,
    }
}

/// A span that a table names, or the usual one.
pub(super) fn span_or(table: &Section<'_>, name: &str, default_s: u64) -> Duration {
    let written = table.parsed(name, units::duration);
    written.map_or(Duration::from_secs(default_s), |at| at.value)
}

fn check_listener(source: &Source<'_>, listen: &At<SocketAddr>, covered: bool) {
    if !is_loopback(listen.value.ip()) && !covered {
        source.refuse(
            &listen.span,
            format!("listen {} is off loopback and without TLS", listen.value),
            "add [tls], or plaintext = \"behind-proxy\" if a proxy in front ends TLS",
        );
    }
}

fn warn_shared(source: &Source<'_>, listen: &SocketAddr, identity: &At<identity::Settings>) {
    if identity.value == identity::Settings::None && !is_loopback(listen.ip()) {
        source.warn(
            &identity.span,
            "all callers are one caller, on a listener off loopback: each can see every answer",
            "say who callers are, for example with from = \"jwt\"",
        );
    }
}

fn tls(source: &Source<'_>, top: &Section<'_>) -> Option<Tls> {
    let At { value: table, .. } = top.table("tls", Part::Tls)?;
    let [cert, key] = ["cert", "key"].map(|name| {
        if !table.has(name) {
            let hint = format!("add {name} = \"{name}.pem\"");
            source.refuse(&top.name_of("tls"), format!("[tls] has no {name}"), hint);
        }
        table.path(name).map(|at| at.value)
    });
    Some(Tls {
        cert: cert?,
        key: key?,
    })
}

fn admin(
    source: &Source<'_>,
    top: &Section<'_>,
    overrides: &Overrides,
    callers: SocketAddr,
) -> Admin {
    let table = top.table_or_empty("admin", Part::Admin);
    let written = table.parsed("listen", values::admin_listen);
    let listen = given_or(overrides.admin, written, AdminListen::At(ADMIN));
    let file = table.path("token_file").map(|at| at.value);
    let token = match (&overrides.admin_token, file) {
        (Some(token), _) => TokenSource::Given(token.clone()),
        (None, Some(file)) => TokenSource::File(file),
        (None, None) => TokenSource::Nowhere,
    };
    let census = quotas::census(&table);
    let AdminListen::At(address) = listen.value else {
        return Admin {
            listen: None,
            token,
            census,
        };
    };
    if !is_loopback(address.ip()) && token == TokenSource::Nowhere {
        source.refuse(
            &listen.span,
            format!("admin listens at {address}, off loopback, and without a token"),
            "set ONCEWARD_ADMIN_TOKEN, or token_file in [admin]",
        );
    }
    if address == callers && address.port() != 0 {
        source.refuse(
            &listen.span,
            format!("admin listens at {address}, as the gateway itself does"),
            "give operators another port: what callers reach, operators must not share",
        );
    }
    Admin {
        listen: Some(address),
        token,
        census,
    }
}

fn limits(source: &Source<'_>, top: &Section<'_>) -> Limits {
    let table = top.table_or_empty("limits", Part::Limits);
    let usual = Limits::default();
    let count = |name, usual| table.count(name).map_or(usual, |at| at.value);
    let span = |name, usual: Duration| {
        let found = table.parsed(name, |text| match units::duration(text)? {
            none if none.is_zero() => Err(Invalid::new("lets nobody in", "write a longer time")),
            span => Ok(span),
        });
        found.map_or(usual, |at| at.value)
    };
    let connections = count("connections", usual.connections);
    let header_size = table.parsed("header_size", |text| match units::size(text)? {
        // Ordinary cookies do not fit below this, and a head above it is an attack.
        bytes @ 8_192..=1_048_576 => Ok(bytes as usize),
        _ => Err(Invalid::new(
            "is out of range",
            "write a size from 8KiB to 1MiB",
        )),
    });
    let streams = table.count("streams").and_then(|at| {
        let streams = u32::try_from(at.value);
        if streams.is_err() {
            source.refuse(
                &at.span,
                "streams is too large",
                "write a number such as 100",
            );
        }
        streams.ok()
    });
    let headers = table.count("headers").and_then(|at| {
        // Room for as many is made for a head that has them.
        let is_fit = (1..=10_000).contains(&at.value);
        if !is_fit {
            let hint = "write a number from 1 to 10000, such as 100";
            source.refuse(&at.span, "headers is out of range", hint);
        }
        is_fit.then_some(at.value)
    });
    Limits {
        connections,
        connections_per_peer: count("connections_per_peer", connections),
        first_byte_timeout: span("first_byte_timeout", usual.first_byte_timeout),
        header_timeout: span("header_timeout", usual.header_timeout),
        idle_timeout: span("idle_timeout", usual.idle_timeout),
        body_grace: span("body_grace", usual.body_grace),
        headers: headers.unwrap_or(usual.headers),
        header_size: header_size.map_or(usual.header_size, |at| at.value),
        streams: streams.unwrap_or(usual.streams),
        executions: count("executions", usual.executions),
    }
}

fn log(top: &Section<'_>) -> Log {
    let table = top.table_or_empty("log", Part::Log);
    let words = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    Log {
        format: table
            .word("format", &words, &[])
            .map_or_else(LogFormat::default, |at| at.value),
        access: table.flag("access").is_some_and(|at| at.value),
    }
}

fn problems(top: &Section<'_>) -> Problems {
    let table = top.table_or_empty("problems", Part::Problems);
    // The name of a problem is appended, and the whole goes into a header.
    let base = |text: &str| match text.is_empty() || text.contains(|c: char| !c.is_ascii_graphic())
    {
        true => Err(Invalid::new(
            "is not the beginning of a URI",
            "write printable ASCII only",
        )),
        false => Ok(text.to_owned()),
    };
    let usual = Problems::default();
    Problems {
        type_base: table
            .parsed("type", base)
            .map_or(usual.type_base, |at| at.value),
        docs_base: table.parsed("docs", base).map(|at| at.value),
    }
}

fn routes(source: &Source<'_>, top: &Section<'_>, defaults: &Written, dropped: bool) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    for At { value: table, span } in top.tables("route", Part::Route) {
        let written = Written::read(source, &table).over(defaults);
        let operation = table.parsed("operation", operation);
        check_dropped(source, &written, dropped);
        if !table.has("match") {
            let hint = "add match = \"POST /payments\"";
            source.refuse(&span, "[[route]] has no match", hint);
        }
        let parsed = table.parsed("match", |text| {
            Pattern::parse(text).map_err(|it| Invalid::new(it.to_string(), it.hint()))
        });
        let Some(At {
            value: pattern,
            span: at,
        }) = parsed
        else {
            written.hold(source, &[]);
            continue;
        };
        let line = source.line(&at);
        let twin = routes.iter().find(|route| route.pattern.shadows(&pattern));
        if let Some(Route { line, .. }) = twin {
            source.refuse(
                &at,
                format!(
                    "match {:?} is the same as that of line {line}",
                    pattern.to_string()
                ),
                "put both routes together, or let their paths differ",
            );
        }
        warn_idle(source, &pattern, &at);
        let names: Vec<_> = pattern.names().collect();
        let held = written.hold(source, &names);
        let mut terms = held.terms;
        terms.operation = operation.as_ref().map(|at| at.value.as_str().into());
        let mut route = Route::new(pattern.clone(), terms);
        route.terms.policy.route = route.name.to_string().into();
        route.probe = held.probe;
        route.duplicates_allowed = held.duplicates_allowed;
        route.line = line;
        if let Some(operation) = &operation {
            keys::warn_apart(source, &routes, &route, operation);
        }
        written.rules.check_names(source, &routes);
        written.rules.hold(&mut route.terms, &route.name);
        routes.push(route);
    }
    routes
}

fn operation(text: &str) -> Result<String, Invalid> {
    match Scope::parse("tenant", text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(Invalid::new(
            "is not the name of an operation",
            format!(
                "write 1 to {} bytes without control characters",
                Scope::LEN_MAX
            ),
        )),
    }
}

/// Refuses to rely on the service seeing a key that it does not get.
fn check_dropped(source: &Source<'_>, written: &Written, dropped: bool) {
    let off = written
        .key
        .as_ref()
        .is_some_and(|key| key.value == KeyNeed::Off);
    // Elsewhere than in a header, a key that was sent reaches the service with the rest of the request.
    let elsewhere = written
        .key_from
        .as_ref()
        .is_some_and(|from| !from.value.is_made() && !matches!(from.value, KeySource::Headers(_)));
    if let Some(At { value, span }) = &written.effect
        && *value == Effect::Keyed
        && dropped
        && !off
        && !elsewhere
    {
        source.refuse(
            span,
            "effect = \"keyed\" relies on the service seeing the key, which key_header drops",
            "give key_header a name that the service reads, or leave keyed out",
        );
    }
}

/// Warns about a route for requests that are passed through, or refused, whatever it says.
fn warn_idle(source: &Source<'_>, pattern: &Pattern, span: &Span) {
    let Some(method) = pattern.method() else {
        return;
    };
    let told = match *method {
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => "passed through",
        Method::CONNECT => "refused",
        _ => return,
    };
    source.warn(
        span,
        format!("{method} requests are {told}, whatever a route says"),
        "remove the route, or name the method that changes something",
    );
}
