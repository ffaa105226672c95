//! What a table says about work that names itself: what succeeds once, and what is suspected,
//! whatever the keys.

use std::sync::Arc;
use std::time::Duration;

use onceward::{Suspicion, Then};
use onceward_http::{Fields, KeyNeed, SuspectRule, Terms, UniqueRule};

use super::fields::Part;
use super::keys;
use super::problem::{At, Source, Span};
use super::reader::Section;
use super::written::Written;
use crate::route::Route;
use crate::units::{self, Invalid};

/// The rules of a table.
#[derive(Clone, Default, Debug)]
pub(super) struct Ruling {
    pub(super) unique: Option<At<Vec<At<UniqueRule>>>>,
    pub(super) suspect: Option<At<Suspect>>,
}

/// A rule that need not have a name of its own.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    name: Option<Arc<str>>,
    same: Fields,
    within: Duration,
    then: Suspicion,
}

/// The longest name of a rule, in bytes.
const NAME_MAX: usize = 64;

// === impl Ruling ===

impl Ruling {
    /// Reads the rules of a table.
    pub(super) fn read(source: &Source<'_>, table: &Section<'_>) -> Self {
        let unique = unique(source, table);
        if let Some(At { value, span }) = &unique
            && !value.is_empty()
            && table.text("key").is_some_and(|key| key.value == "optional")
        {
            source.warn(
                span,
                "unique needs a key to find the work by: a request without one is refused, \
                 although the key is optional",
                "write key = \"required\"",
            );
        }
        Self {
            unique,
            suspect: suspect(source, table),
        }
    }

    /// Returns what holds where these stand over `below`. Where keys are `off`, nothing is taken
    /// over.
    pub(super) fn over(self, below: &Self, off: bool) -> Self {
        match off {
            true => self,
            false => Self {
                unique: self.unique.or_else(|| below.unique.clone()),
                suspect: self.suspect.or_else(|| below.suspect.clone()),
            },
        }
    }

    /// Refuses what does not fit together, with `names` for the parts of the path that there are.
    pub(super) fn check(&self, source: &Source<'_>, key: Option<KeyNeed>, names: &[&str]) {
        let unique = self.unique.as_ref().filter(|list| !list.value.is_empty());
        let spans = unique.map(|at| ("unique", &at.span));
        let spans = spans.into_iter().chain(
            self.suspect
                .as_ref()
                .map(|suspect| ("suspect", &suspect.span)),
        );
        for (what, span) in spans.filter(|_| key == Some(KeyNeed::Off)) {
            source.refuse(
                span,
                format!("{what} means nothing where keys are off"),
                "write key = \"required\", or remove the rule",
            );
        }
        for (facts, span) in self.facts() {
            keys::check_parts(source, span, "the rule", facts.path_names(), names);
        }
    }

    fn facts(&self) -> impl Iterator<Item = (&Fields, &Span)> {
        let unique = self.unique.iter().flat_map(|list| &list.value);
        let unique = unique.map(|at| (&at.value.on, &at.span));
        let suspect = self.suspect.iter().map(|at| (&at.value.same, &at.span));
        unique.chain(suspect)
    }

    /// Refuses a name that stands for something else on another route: the two would never meet.
    pub(super) fn check_names(&self, source: &Source<'_>, others: &[Route]) {
        let unique = self.unique.iter().flat_map(|list| &list.value);
        for At { value: rule, span } in unique {
            let of = |terms: &Terms| {
                let mut rules = terms.unique.iter();
                let named = rules.find(|other| other.name == rule.name);
                named.map(|other| other.on.iter().len())
            };
            refuse_other(source, span, &rule.name, rule.on.iter().len(), others, of);
        }
        if let Some(At { value, span }) = &self.suspect
            && let Some(name) = &value.name
        {
            let of = |terms: &Terms| {
                let named = terms.suspect.as_ref().filter(|other| other.name == *name);
                named.map(|other| other.same.iter().len())
            };
            refuse_other(source, span, name, value.same.iter().len(), others, of);
        }
    }

    /// Writes what holds into `terms`, for a route of that name.
    pub(super) fn hold(&self, terms: &mut Terms, route: &str) {
        let unique = self.unique.iter().flat_map(|list| &list.value);
        terms.unique = unique.map(|at| at.value.clone()).collect();
        // Shown as it is held: whoever has no key cannot be found again.
        if !terms.unique.is_empty() && terms.key == KeyNeed::Optional {
            terms.key = KeyNeed::Required;
        }
        terms.suspect = self.suspect.as_ref().map(|at| at.value.named(route));
    }
}

fn refuse_other(
    source: &Source<'_>,
    span: &Span,
    name: &str,
    count: usize,
    others: &[Route],
    of: impl Fn(&Terms) -> Option<usize>,
) {
    let differs = |route: &&Route| of(&route.terms).is_some_and(|other| other != count);
    if let Some(route) = others.iter().find(differs) {
        source.refuse(
            span,
            format!(
                "{name:?} names {count} fields here and another number on line {}: the two would \
                 never meet",
                route.line
            ),
            "list the same things in the same order, or give one of them another name",
        );
    }
}

// === impl Suspect ===

impl Suspect {
    /// Returns the rule, named as its route if it has no name: payments and refunds of one amount
    /// are not each other's duplicates.
    fn named(&self, route: &str) -> SuspectRule {
        let name = self.name.clone().unwrap_or_else(|| route.into());
        SuspectRule::new(name, self.same.clone(), self.within).then(self.then)
    }
}

fn unique(source: &Source<'_>, table: &Section<'_>) -> Option<At<Vec<At<UniqueRule>>>> {
    let span = table.name_of("unique");
    table.has("unique").then_some(())?;
    let tables = table.tables("unique", Part::Unique);
    let mut rules: Vec<At<UniqueRule>> = Vec::new();
    for At { value: table, span } in tables {
        let name = table.parsed("name", name);
        if !table.has("name") {
            let hint = "give it one, such as name = \"paid-order\"";
            source.refuse(&span, "a rule of unique has no name", hint);
        }
        let on = facts(source, &table, "on", &span);
        let words = [("return", Then::Return), ("refuse", Then::Refuse)];
        let then = table.word("then", &words, &[]).map(|at| at.value);
        let (Some(name), Some(on)) = (name, on) else {
            continue;
        };
        if rules.iter().any(|other| *other.value.name == *name.value) {
            let message = format!("{:?} is the name of two rules of this list", name.value);
            source.refuse(&name.span, message, "give one of them another name");
        }
        let value = UniqueRule::new(name.value, on).then(then.unwrap_or_default());
        rules.push(At { value, span });
    }
    Some(At { value: rules, span })
}

fn suspect(source: &Source<'_>, table: &Section<'_>) -> Option<At<Suspect>> {
    let At { value: table, span } = table.table("suspect", Part::Suspect)?;
    let same = facts(source, &table, "same", &span);
    let within = table.parsed("within", |text| match units::duration(text)? {
        Duration::ZERO => Err(Invalid::new(
            "is no time at all",
            "write how long after the first a duplicate comes, such as \"30s\"",
        )),
        span => Ok(span),
    });
    if !table.has("within") {
        let hint = "write how long after the first a duplicate comes, such as within = \"30s\"";
        source.refuse(&span, "suspect has no within", hint);
    }
    let words = [
        ("flag", Suspicion::Flag),
        ("refuse", Suspicion::Refuse),
        ("return", Suspicion::Return),
    ];
    let value = Suspect {
        name: table.parsed("name", name).map(|at| at.value.into()),
        then: table
            .word("then", &words, &[])
            .map_or_else(Suspicion::default, |at| at.value),
        same: same?,
        within: within?.value,
    };
    Some(At { value, span })
}

/// Reads the fields that a rule is about.
fn facts(source: &Source<'_>, table: &Section<'_>, name: &str, rule: &Span) -> Option<Fields> {
    if !table.has(name) {
        let hint = format!("name each field once, such as {name} = [\"/order_id\"]");
        source.refuse(rule, format!("the rule has no {name}"), hint);
        return None;
    }
    keys::fields(source, table, name)
}

fn name(text: &str) -> Result<String, Invalid> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(Invalid::new(
            "is not the name of a rule",
            format!("write 1 to {NAME_MAX} letters, digits, dots, dashes and underscores"),
        )),
    }
}

// === impl Written ===

impl Written {
    /// Whether keys mean nothing under this table over `below`.
    pub(super) fn is_off_over(&self, below: &Self) -> bool {
        let key = self.key.as_ref().or(below.key.as_ref());
        key.is_some_and(|key| key.value == KeyNeed::Off)
    }

    /// How long bodies are kept under this table over `below`. What is said there for longer
    /// records means nothing for shorter ones.
    pub(super) fn keep_body_over(&self, below: &Self) -> Option<At<Duration>> {
        let shorter = |keep: &At<Duration>| {
            let retention = self.retention.as_ref();
            retention.is_none_or(|retention| keep.value < retention.value)
        };
        let below = || below.keep_body.clone().filter(shorter);
        self.keep_body.clone().or_else(below)
    }

    /// Refuses to keep bodies for no time, or for as long as their records.
    pub(super) fn check_keep_body(&self, source: &Source<'_>, retention: Duration) {
        let Some(At { value, span }) = &self.keep_body else {
            return;
        };
        let shown = units::write_duration(*value);
        if value.is_zero() {
            source.refuse(
                span,
                format!("keep_body {shown:?} is no time at all"),
                "write how long answers are repeated in full, such as \"24h\"",
            );
        } else if *value >= retention {
            let retention = units::write_duration(retention);
            source.refuse(
                span,
                format!("keep_body {shown:?} is not below the retention of {retention}"),
                "write less, or leave it out: bodies are then kept as long as their records",
            );
        }
    }
}
