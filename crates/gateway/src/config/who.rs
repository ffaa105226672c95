//! Reading `[identity]`.

use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;

use super::fields::Part;
use super::problem::{At, Source, Span};
use super::reader::Section;
use super::written::header_name;
use crate::identity::{Algorithm, ApiKeySettings, HeaderSettings, JwtKeys, JwtSettings, Settings};
use crate::units::{self, Invalid};

/// How callers are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    Jwt,
    Header,
    ApiKey,
    None,
}

/// Returns who callers are, and where that is said.
pub(super) fn read(source: &Source<'_>, top: &Section<'_>) -> At<Settings> {
    let Some(At { value: table, span }) = top.table("identity", Part::Identity) else {
        return At::nowhere(Settings::Credential);
    };
    let span = top.name_of("identity").or(span);
    let words = [
        ("jwt", From::Jwt),
        ("header", From::Header),
        ("api-key", From::ApiKey),
        ("none", From::None),
    ];
    let from = table.word("from", &words, &["forward-auth", "mtls"]);
    if !table.has("from") {
        let hint = "write from = \"jwt\", \"header\", \"api-key\" or \"none\"";
        source.refuse(&span, "[identity] does not say from what", hint);
    }
    // All are read, so that mistakes are found in those that are not used as well.
    let jwt = table
        .table("jwt", Part::Jwt)
        .and_then(|jwt| read_jwt(source, &jwt));
    let header = table
        .table("header", Part::Header)
        .and_then(|at| read_header(source, &at));
    let api_key = table
        .table("api_key", Part::ApiKey)
        .and_then(|at| read_api_key(source, &at));
    let Some(At { value: from, span }) = from else {
        return At::nowhere(Settings::Credential);
    };
    for (name, of) in [
        ("jwt", From::Jwt),
        ("header", From::Header),
        ("api_key", From::ApiKey),
    ] {
        if of != from && table.has(name) {
            let message = format!("{name} is not used with this from");
            source.refuse(&table.name_of(name), message, "remove it, or change from");
        }
        if of == from && !table.has(name) {
            let message = format!("from needs the table {name}");
            let hint = format!(
                "add {name} = {}",
                super::fields::find(Part::Identity, name).example
            );
            source.refuse(&span, message, hint);
        }
    }
    let value = match from {
        From::Jwt => jwt.map(Settings::Jwt),
        From::Header => header.map(Settings::Header),
        From::ApiKey => api_key.map(Settings::ApiKey),
        From::None => Some(Settings::None),
    };
    let value = value.unwrap_or(Settings::Credential);
    At { value, span }
}

fn read_jwt(source: &Source<'_>, at: &At<Section<'_>>) -> Option<JwtSettings> {
    let table = &at.value;
    let (keys, secret) = (table.path("keys"), table.parsed("secret_env", name));
    if table.has("keys") == table.has("secret_env") {
        let hint = "write keys = \"jwks.json\" or secret_env = \"JWT_SECRET\"";
        source.refuse(&at.span, "jwt takes either keys or secret_env", hint);
        return None;
    }
    let algorithms = algorithms(source, table, table.has("secret_env"));
    let audience = table.parsed("audience", name);
    if audience.is_none() && !table.has("audience") {
        source.warn(
            &at.span,
            "jwt has no audience: tokens that were issued for other services count as well",
            "add audience = \"..\", unless the issuer serves nobody else",
        );
    }
    let keys = match (keys, secret) {
        (Some(keys), _) => JwtKeys::File(keys.value),
        (None, Some(secret)) => JwtKeys::SecretEnv(secret.value),
        (None, None) => return None,
    };
    let leeway = table.parsed("leeway", units::duration);
    Some(JwtSettings {
        keys,
        issuer: table.parsed("issuer", name).map(|at| at.value),
        audience: audience.map(|at| at.value),
        claim: table
            .parsed("claim", name)
            .map_or_else(|| "sub".into(), |at| at.value),
        algorithms,
        leeway: leeway.map_or(Duration::from_secs(30), |at| at.value),
    })
}

fn algorithms(source: &Source<'_>, table: &Section<'_>, secret: bool) -> Vec<Algorithm> {
    let known = match secret {
        true => Algorithm::OF_SECRETS,
        false => Algorithm::OF_KEYS,
    };
    let parse = |text: &str| {
        let found = known.iter().find(|one| one.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<_> = known.iter().map(|one| one.name()).collect();
            let hint = format!("write some of {}", names.join(", "));
            Invalid::new("is no algorithm for such keys", hint)
        })
    };
    match table.texts("algorithms", parse) {
        Some(list) if table.is_empty("algorithms") => {
            let hint = "leave it out, or name at least one";
            source.refuse(&list.span, "algorithms names none that can be used", hint);
            Vec::new()
        }
        Some(list) => list.value.into_iter().map(|one| one.value).collect(),
        None => Algorithm::usual(secret).to_vec(),
    }
}

fn read_header(source: &Source<'_>, at: &At<Section<'_>>) -> Option<HeaderSettings> {
    let table = &at.value;
    let name = needed(
        source,
        at,
        "name",
        "header",
        table.parsed("name", header_name),
    );
    let peers = table.texts("peers", network);
    match &peers {
        Some(list) if table.is_empty("peers") => refuse_peers(source, &list.span),
        None => refuse_peers(source, &at.span),
        Some(_) => {}
    }
    for At { value, span } in peers.iter().flat_map(|list| &list.value) {
        if value.prefix_len() == 0 {
            source.warn(
                span,
                format!("peers holds {value}, which is everybody: each caller can be any caller"),
                "write the networks of the proxies in front alone",
            );
        }
    }
    Some(HeaderSettings {
        name: name?,
        peers: peers?.value.into_iter().map(|one| one.value).collect(),
    })
}

fn refuse_peers(source: &Source<'_>, span: &Span) {
    source.refuse(
        span,
        "header is believed from nobody",
        "write the networks of the proxies in front, such as peers = [\"127.0.0.1/32\"]",
    );
}

fn read_api_key(source: &Source<'_>, at: &At<Section<'_>>) -> Option<ApiKeySettings> {
    let table = &at.value;
    let keys = needed(source, at, "keys", "api_key", table.path("keys"));
    let header = table.parsed("header", header_name).map(|at| at.value);
    Some(ApiKeySettings {
        header: header.unwrap_or(HeaderName::from_static("x-api-key")),
        keys: keys?,
    })
}

/// Notes that a field is missing, unless it is there and was refused already.
fn needed<T>(
    source: &Source<'_>,
    at: &At<Section<'_>>,
    name: &str,
    table: &str,
    found: Option<At<T>>,
) -> Option<T> {
    if !at.value.has(name) {
        let hint = format!("add {name} to {table} = {{ .. }}");
        source.refuse(&at.span, format!("{table} has no {name}"), hint);
    }
    found.map(|at| at.value)
}

fn name(text: &str) -> Result<String, Invalid> {
    match text {
        "" => Err(Invalid::new("is empty", "write a name")),
        text => Ok(text.to_owned()),
    }
}

/// A network, or one address.
fn network(text: &str) -> Result<IpNet, Invalid> {
    let address = || text.parse::<std::net::IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| {
        address().map_err(|_| {
            let hint = "write an address and the bits that count, such as 10.0.0.0/8";
            Invalid::new("is not a network", hint)
        })
    })
}
