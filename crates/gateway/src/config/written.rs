//! What a table says about requests: `[defaults]`, or one `[[route]]`.

use std::time::Duration;

use http::HeaderName;
use onceward::Effect;
use onceward_http::{
    BodyRule, Field, FingerprintRules, KeyNeed, KeySource, Pointer, Profile, StatusPattern,
};
use toml::de::DeValue;

use super::fields::Part;
use super::keys::{self, Inherited};
use super::problem::{At, Source, Span};
use super::reader::Section;
use super::rules::Ruling;
use crate::route::Probe;
use crate::units::{self, Invalid};

/// The terms that one table writes down; what it does not write is `None`.
#[derive(Clone, Default, Debug)]
pub(super) struct Written {
    pub(super) effect: Option<At<Effect>>,
    /// Whether duplicates are allowed.
    pub(super) duplicates: Option<At<bool>>,
    pub(super) retention: Option<At<Duration>>,
    pub(super) unknown_retention: Option<At<Duration>>,
    pub(super) lease: Option<At<Duration>>,
    pub(super) on_busy: Option<At<Busy>>,
    pub(super) wait: Option<At<Duration>>,
    pub(super) profile: Option<At<Profile>>,
    pub(super) upstream_timeout: Option<At<Duration>>,
    pub(super) max_request: Option<At<u64>>,
    pub(super) max_answer: Option<At<u64>>,
    pub(super) key: Option<At<KeyNeed>>,
    pub(super) key_from: Option<At<KeySource>>,
    pub(super) key_equals: Option<At<Field>>,
    pub(super) fingerprint: Option<At<Rules>>,
    /// Those that are stored, released and unknown.
    pub(super) statuses: [Option<Vec<StatusPattern>>; 3],
    pub(super) stream: Option<At<bool>>,
    pub(super) replay_cookies: Option<At<bool>>,
    pub(super) store_headers: Option<At<Vec<HeaderName>>>,
    pub(super) key_age_max: Option<At<Duration>>,
    pub(super) probe: Option<At<Probe>>,
    pub(super) keep_body: Option<At<Duration>>,
    pub(super) rules: Ruling,
}

/// What a duplicate gets while the first is running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Busy {
    Wait,
    Refuse,
    Accept,
}

/// What makes a request the same request, now and before a change.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) now: FingerprintRules,
    pub(super) previous: Option<FingerprintRules>,
}

const STATUS_LISTS: [&str; 3] = ["store_statuses", "release_statuses", "unknown_statuses"];

// === impl Written ===

impl Written {
    /// Reads a table.
    pub(super) fn read(source: &Source<'_>, table: &Section<'_>) -> Self {
        table.word("mode", &[("enforce", ())], &["observe"]);
        Self {
            effect: table.word(
                "effect",
                &[
                    ("opaque", Effect::Opaque),
                    ("keyed", Effect::Keyed),
                    ("probed", Effect::Probed),
                ],
                &[],
            ),
            duplicates: table.word("duplicates", &[("refused", false), ("allowed", true)], &[]),
            retention: table.parsed("retention", units::duration),
            unknown_retention: table.parsed("unknown_retention", units::duration),
            lease: table.parsed("lease", units::duration),
            on_busy: table.word(
                "on_busy",
                &[
                    ("wait", Busy::Wait),
                    ("refuse", Busy::Refuse),
                    ("accept", Busy::Accept),
                ],
                &[],
            ),
            wait: table.parsed("wait", units::duration),
            profile: table.word("profile", &Profile::ALL.map(|one| (one.name(), one)), &[]),
            upstream_timeout: table.parsed("upstream_timeout", units::duration),
            max_request: table.parsed("max_request", units::size),
            max_answer: table.parsed("max_answer", units::size),
            key: table.word(
                "key",
                &[
                    ("required", KeyNeed::Required),
                    ("optional", KeyNeed::Optional),
                    ("derived", KeyNeed::Derived),
                    ("off", KeyNeed::Off),
                ],
                &[],
            ),
            key_from: keys::key_from(source, table),
            key_equals: table.parsed("key_equals", keys::field),
            fingerprint: fingerprint(source, table),
            statuses: statuses(source, table),
            stream: table.flag("stream"),
            replay_cookies: table.flag("replay_cookies"),
            store_headers: header_names(table, "store_headers"),
            key_age_max: table.parsed("key_age_max", units::duration),
            probe: probe(source, table),
            keep_body: table.parsed("keep_body", units::duration),
            rules: Ruling::read(source, table),
        }
    }

    /// Returns what holds where this table stands over `below`.
    pub(super) fn over(self, below: &Self) -> Self {
        let Inherited {
            key_from,
            key_equals,
            fingerprint,
        } = self.keys_over(below);
        let keep_body = self.keep_body_over(below);
        let off = self.is_off_over(below);
        let rules = self.rules.over(&below.rules, off);
        // What belongs to another effect is left out: a route that says `opaque` has no use for
        // the probe of the defaults.
        let effect = self.effect.as_ref().map(|at| at.value);
        let stays = |of| effect.is_none_or(|effect| effect == of);
        let below_probe = below.probe.clone().filter(|_| stays(Effect::Probed));
        let below_duplicates = below.duplicates.clone().filter(|_| stays(Effect::Opaque));
        let probe = self.probe.or(below_probe);
        let duplicates = self.duplicates.or(below_duplicates);
        let statuses = over_statuses(&self.statuses, &below.statuses);
        macro_rules! over {
            ($($field:ident)*) => {
                Self {
                    $($field: self.$field.or_else(|| below.$field.clone()),)*
                    probe,
                    duplicates,
                    statuses,
                    key_from,
                    key_equals,
                    fingerprint,
                    keep_body,
                    rules,
                }
            };
        }
        over! {
            effect retention unknown_retention lease on_busy wait profile upstream_timeout
            max_request max_answer key stream replay_cookies store_headers
            key_age_max
        }
    }
}

/// Returns three lists over three others: a list replaces the one below it, and a status that it
/// names leaves the other lists below.
pub(super) fn over_statuses(
    above: &[Option<Vec<StatusPattern>>; 3],
    below: &[Option<Vec<StatusPattern>>; 3],
) -> [Option<Vec<StatusPattern>>; 3] {
    let named = |status: &StatusPattern| above.iter().flatten().flatten().any(|one| one == status);
    std::array::from_fn(|at| match (&above[at], &below[at]) {
        (Some(list), _) => Some(list.clone()),
        (None, Some(list)) => Some(list.iter().filter(|one| !named(one)).copied().collect()),
        (None, None) => None,
    })
}

fn statuses(source: &Source<'_>, table: &Section<'_>) -> [Option<Vec<StatusPattern>>; 3] {
    let lists = STATUS_LISTS
        .map(|name| table.list(name, |value, span| status(source, table, name, value, span)));
    for (at, list) in lists.iter().enumerate() {
        let earlier: Vec<_> = lists[..at]
            .iter()
            .flatten()
            .flat_map(|list| &list.value)
            .collect();
        for one in list.iter().flat_map(|list| &list.value) {
            if earlier.iter().any(|other| other.value == one.value) {
                let message = format!("{} stands in two lists", one.value);
                source.refuse(&one.span, message, "leave it in the one that is meant");
            }
            warn_success(source, STATUS_LISTS[at], one);
        }
    }
    let plain = |list: At<Vec<At<_>>>| list.value.into_iter().map(|one| one.value).collect();
    lists.map(|list| list.map(plain))
}

/// Warns where the protection of work that succeeds is switched off.
fn warn_success(source: &Source<'_>, list: &str, status: &At<StatusPattern>) {
    let success = match status.value {
        StatusPattern::Code(code) => code / 100 == 2,
        StatusPattern::Class(class) => class == 2,
    };
    let then = match list {
        "release_statuses" => "a retry of work that was done does it again",
        "unknown_statuses" => "retries of work that was done are not answered with its answer",
        _ => return,
    };
    if success {
        source.warn(
            &status.span,
            format!("{list} holds {}, a success: {then}", status.value),
            "take it out of the list, unless this status really says that nothing was done",
        );
    }
}

fn status(
    source: &Source<'_>,
    table: &Section<'_>,
    name: &str,
    value: &DeValue<'_>,
    span: &Span,
) -> Option<StatusPattern> {
    let text = match value {
        DeValue::Integer(number) => number.as_str(),
        DeValue::String(text) => text.as_ref(),
        _ => return table.wrong_type(name, value, span, "a code or a class"),
    };
    let parsed = text.parse();
    if parsed.is_err() {
        source.refuse(
            span,
            format!("{name} {text:?} is not a status"),
            "write a code from 200 to 599, or a class such as \"5xx\"",
        );
    }
    parsed.ok()
}

fn fingerprint(source: &Source<'_>, table: &Section<'_>) -> Option<At<Rules>> {
    let At { value: inner, span } = table.table("fingerprint", Part::Fingerprint)?;
    let previous = inner.table("previous", Part::Previous);
    let value = Rules {
        now: rules(source, &inner),
        previous: previous.map(|previous| rules(source, &previous.value)),
    };
    Some(At { value, span })
}

fn rules(source: &Source<'_>, table: &Section<'_>) -> FingerprintRules {
    let json = BodyRule::Json {
        ignore: Vec::new(),
        only: Vec::new(),
    };
    let words = [
        ("bytes", BodyRule::Bytes),
        ("json", json),
        ("form", BodyRule::Form),
        ("multipart", BodyRule::Multipart),
        ("none", BodyRule::None),
    ];
    let mut rules = FingerprintRules::default();
    if let Some(body) = table.word("body", &words, &[]) {
        rules.body = body.value;
    }
    if let Some(headers) = header_names(table, "headers") {
        rules.headers = headers.value;
    }
    let [ignored, alone] = ["ignore", "only"].map(|name| table.texts(name, pointer));
    if let (Some(_), Some(alone)) = (&ignored, &alone) {
        let message = "only and ignore do not go together";
        source.refuse(
            &alone.span,
            message,
            "leave out what ignore names from only",
        );
    }
    match &mut rules.body {
        BodyRule::Json { ignore, only } => {
            let plain = |list: Option<At<Vec<At<Pointer>>>>| {
                let list = list.into_iter().flat_map(|list| list.value);
                list.map(|one| one.value).collect()
            };
            (*ignore, *only) = (plain(ignored), plain(alone));
        }
        _ => {
            for (name, list) in [("ignore", ignored), ("only", alone)] {
                if let Some(list) = list {
                    let message = format!("{name} means nothing unless the body is read as JSON");
                    source.refuse(&list.span, message, "add body = \"json\"");
                }
            }
        }
    }
    rules
}

fn probe(source: &Source<'_>, table: &Section<'_>) -> Option<At<Probe>> {
    let At { value: inner, span } = table.table("probe", Part::Probe)?;
    if !inner.has("url") {
        let hint = "write probe = { url = \"/payments/by-key/{key}\" }";
        source.refuse(&span, "probe has no url", hint);
        return None;
    }
    let At { value, span } = inner.parsed("url", |text| {
        let whole = text.starts_with("http://") || text.starts_with("https://");
        match text.starts_with('/') || whole {
            true => Ok(Probe::new(text)),
            false => Err(Invalid::new(
                "is neither a path nor a URL",
                "write a path of the upstream, such as /payments/by-key/{key}",
            )),
        }
    })?;
    Some(At { value, span })
}

/// A list of header names in a field.
fn header_names(table: &Section<'_>, name: &str) -> Option<At<Vec<HeaderName>>> {
    let At { value, span } = table.texts(name, header_name)?;
    let value = value.into_iter().map(|one| one.value).collect();
    Some(At { value, span })
}

/// Returns the name of a header.
pub(super) fn header_name(text: &str) -> Result<HeaderName, Invalid> {
    text.parse().map_err(|_| {
        let hint = "write the name alone, such as Idempotency-Key";
        Invalid::new("is not the name of a header", hint)
    })
}

/// Returns a pointer to a part of the body.
pub(super) fn pointer(text: &str) -> Result<Pointer, Invalid> {
    let refused = || {
        let hint = "write a slash before each name, such as /order/id";
        Invalid::new("is not a JSON pointer", hint)
    };
    // The whole body is no part of it.
    match text {
        "" => Err(refused()),
        text => Pointer::parse(text).map_err(|_| refused()),
    }
}
