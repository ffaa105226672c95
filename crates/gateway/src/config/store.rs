//! Where records are kept: the URL of a store, and the password that does not belong into it.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;

use onceward_stores::{CacheUrl, InvalidCache, InvalidUrl, StoreUrl};

use super::fields::Part;
use super::problem::{At, Source};
use super::reader::Section;
use super::{Config, check};
use crate::StartError;
use crate::units::Invalid;

/// What is shown in the place of a password.
const HIDDEN: &str = "..";

/// A parameter of a URL that holds a password.
const PARAMETER: &str = "password=";

/// The store that a file and a command line name, and where its password is.
pub(super) struct Place {
    pub(super) url: StoreUrl,
    pub(super) cache: Option<CacheUrl>,
    pub(super) password_file: Option<PathBuf>,
}

/// Reads `[store]`; what the command line says counts before it.
pub(super) fn read(
    source: &Source<'_>,
    top: &Section<'_>,
    given: Option<StoreUrl>,
    given_cache: Option<CacheUrl>,
) -> Place {
    let table = top.table_or_empty("store", Part::Store);
    if let Some(At { value, span }) = table.text("url")
        && holds_password(&value)
    {
        source.warn(
            &span,
            "the URL of the store holds a password, for everybody who reads this file",
            "use password_file in [store], PGPASSWORD or ONCEWARD_REDIS_PASSWORD, or the URL in \
             ONCEWARD_STORE",
        );
    }
    let url = check::given_or(
        given,
        table.parsed("url", store_url),
        check::default_store(),
    );
    let file = table.path("password_file");
    if let Some(file) = &file
        && !is_database(&url.value)
    {
        source.warn(
            &file.span,
            format!("password_file means nothing for the store {}", url.value),
            "remove it, or name a database, such as url = \"postgres://onceward@db.internal/app\"",
        );
    }
    Place {
        cache: cache(source, &table, given_cache, &url.value),
        url: url.value,
        password_file: file.map(|at| at.value),
    }
}

/// Reads what remembers answers in front of the store at `url`.
fn cache(
    source: &Source<'_>,
    table: &Section<'_>,
    given: Option<CacheUrl>,
    url: &StoreUrl,
) -> Option<CacheUrl> {
    if let Some(At { value, span }) = table.text("cache")
        && holds_password(&value)
    {
        source.warn(
            &span,
            "the URL of the cache holds a password, for everybody who reads this file",
            "use ONCEWARD_REDIS_PASSWORD, or give the URL in ONCEWARD_CACHE",
        );
    }
    let written = table.parsed("cache", cache_url);
    let cache = given.map(At::nowhere).or(written)?;
    if !CacheUrl::goes_before(url) {
        source.refuse(
            &cache.span,
            format!("a cache goes in front of a PostgreSQL store, not of {url}"),
            "remove it, or name a database, such as url = \"postgres://onceward@db.internal/app\"",
        );
    }
    Some(cache.value)
}

/// Returns the cache that `text` names.
pub fn cache_url(text: &str) -> Result<CacheUrl, Invalid> {
    text.parse().map_err(|invalid: InvalidCache| {
        let problem = match &invalid {
            InvalidCache::Scheme(_) => "is not a cache URL".into(),
            other => format!("cannot be used: {other}"),
        };
        Invalid::new(problem, invalid.hint())
    })
}

/// Returns the store that `text` names.
pub fn store_url(text: &str) -> Result<StoreUrl, Invalid> {
    text.parse().map_err(|invalid: InvalidUrl| {
        let problem = match &invalid {
            InvalidUrl::Scheme(_) => "is not a store URL".into(),
            InvalidUrl::NoPath(_) => "names no folder".into(),
            InvalidUrl::Parameter(part) => {
                let part = without_password(part);
                format!("says {part:?}, which means nothing here")
            }
            other => format!("cannot be used: {other}"),
        };
        Invalid::new(problem, invalid.hint())
    })
}

/// Whether a store is on a server that wants to know who asks.
fn is_database(url: &StoreUrl) -> bool {
    !matches!(url, StoreUrl::Memory | StoreUrl::Embedded { .. })
}

/// Whether a URL holds a password, which no command line may.
pub fn holds_password(text: &str) -> bool {
    matches!(without_password(text), Cow::Owned(_))
}

/// Returns a URL as it can be shown: without the password that it may hold.
///
/// Whatever is not a URL is returned as it is, unless it looks like one that was mistyped.
pub fn without_password(text: &str) -> Cow<'_, str> {
    let is_path = text.starts_with("embedded:");
    let user = match text.rfind('@').filter(|_| !is_path) {
        Some(at) => {
            let begin = text.find("://").map_or(0, |at| at + 3).min(at);
            let colon = text[begin..at].find(':');
            colon.map(|colon| (begin + colon + 1, at))
        }
        None => None,
    };
    let shown = match user {
        Some((from, to)) if from < to => {
            Cow::Owned(format!("{}{HIDDEN}{}", &text[..from], &text[to..]))
        }
        _ => Cow::Borrowed(text),
    };
    let Some(at) = shown.find(PARAMETER) else {
        return shown;
    };
    let from = at + PARAMETER.len();
    let to = shown[from..]
        .find('&')
        .map_or(shown.len(), |end| from + end);
    Cow::Owned(format!("{}{HIDDEN}{}", &shown[..from], &shown[to..]))
}

// === impl Config ===

impl Config {
    /// Returns the store with its password, if a file has one.
    pub fn store_with_password(&self) -> Result<StoreUrl, StartError> {
        let Some(path) = &self.password_file else {
            return Ok(self.store.clone());
        };
        let refuse = |what: String| StartError::says(what, "put the password into it, in one line");
        let text = fs::read_to_string(path)
            .map_err(|error| refuse(format!("{} cannot be read: {error}", path.display())))?;
        let password = text.trim_end_matches(['\r', '\n']);
        if password.is_empty() || password.contains('\n') {
            return Err(refuse(format!("{} holds no password", path.display())));
        }
        Ok(with_password(self.store.clone(), password))
    }
}

#[cfg_attr(
    not(any(feature = "postgres", feature = "redis")),
    allow(unused_variables)
)]
fn with_password(url: StoreUrl, password: &str) -> StoreUrl {
    match url {
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(settings) => StoreUrl::Postgres(Box::new(settings.password(password))),
        #[cfg(feature = "redis")]
        StoreUrl::Redis(settings) => StoreUrl::Redis(Box::new(settings.with_password(password))),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overrides;

    /// Returns a configuration with this in `[store]`.
    fn config(store: &str) -> Config {
        let text = format!("upstream = \"http://127.0.0.1:3000\"\n[store]\n{store}");
        Config::parse(&text, "test", Overrides::default()).unwrap()
    }

    #[test]
    fn passwords_in_a_file_are_worth_a_second_look_and_not_repeated() {
        let config = config("url = \"postgres://ann:s3cret@db/app\"\n");
        let [warning] = &config.warnings[..] else {
            panic!("{:?}", config.warnings);
        };
        assert!(warning.hint.contains("password_file"), "{warning}");
        let said = format!("{warning:?} {config:?} {}", config.store);
        assert!(!said.contains("s3cret"), "{said}");
    }

    #[test]
    fn a_cache_goes_in_front_of_a_database_and_of_nothing_else() {
        const CACHE: &str = "cache = \"redis://app:s3cret@cache:6379\"\n";
        let config = config(&format!("url = \"postgres://ann@db/app\"\n{CACHE}"));
        assert_eq!(config.cache.unwrap().to_string(), "redis://app@cache:6379");
        let [warning] = &config.warnings[..] else {
            panic!("{:?}", config.warnings);
        };
        assert!(!format!("{warning:?}").contains("s3cret"), "{warning:?}");

        let refused = |store: &str| {
            let text = format!("upstream = \"http://127.0.0.1:3000\"\n[store]\n{store}");
            let errors = Config::parse(&text, "test", Overrides::default()).unwrap_err();
            errors.0[0].message.clone()
        };
        let told = refused(&format!("url = \"memory:\"\n{CACHE}"));
        assert!(told.contains("not of memory:"), "{told}");
        let told = refused("url = \"postgres://ann@db/app\"\ncache = \"memory:\"\n");
        assert!(told.contains("is not a cache URL"), "{told}");
    }

    #[test]
    fn passwords_come_from_a_file_of_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let config = config(&format!(
            "url = \"postgres://ann@db/app\"\npassword_file = {file:?}\n"
        ));
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        let refused = config.store_with_password().unwrap_err();
        assert!(refused.to_string().contains("cannot be read"), "{refused}");
        for (text, fits) in [("", false), ("a\nb\n", false), ("s3cret\n", true)] {
            fs::write(&file, text).unwrap();
            let url = config.store_with_password();
            assert_eq!(url.is_ok(), fits, "{text:?}: {url:?}");
        }
        let url = config.store_with_password().unwrap();
        assert_ne!(url, config.store, "the password is in it");
        assert_eq!(url.to_string(), config.store.to_string(), "and not shown");
    }

    #[test]
    fn passwords_mean_nothing_to_a_folder() {
        let config = config("password_file = \"password\"\n");
        let [warning] = &config.warnings[..] else {
            panic!("{:?}", config.warnings);
        };
        assert!(warning.to_string().contains("embedded:"), "{warning}");
    }

    #[test]
    fn passwords_are_not_shown() {
        for (text, shown) in [
            ("postgres://ann:s3cret@db/app", "postgres://ann:..@db/app"),
            ("postgres://ann:s3@cr/et@db/app", "postgres://ann:..@db/app"),
            ("postgres//ann:s3cret@db", "postgres//ann:..@db"),
            (
                "postgres://db/app?password=s3cret&schema=x",
                "postgres://db/app?password=..&schema=x",
            ),
            (
                "postgres://ann:s3cret@db/app?password=s3cret",
                "postgres://ann:..@db/app?password=..",
            ),
            ("http://ann:s3cret@service", "http://ann:..@service"),
        ] {
            assert_eq!(without_password(text), shown);
            assert!(holds_password(text));
        }
    }

    #[test]
    fn what_holds_no_password_is_shown_as_it_is() {
        for text in [
            "",
            "memory:",
            "embedded:./a@b",
            "postgres://db:5432/app",
            "postgres://ann@db:5432/app?schema=x",
            "postgres://ann:@db/app",
        ] {
            assert_eq!(without_password(text), text);
            assert!(!holds_password(text), "{text}");
        }
    }
}
