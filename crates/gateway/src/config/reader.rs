//! Reading a table: values of the right kind, with what is wrong noted and not returned, so that
//! one look finds every mistake.

use std::fmt;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fields::{self, Part};
use super::problem::{At, Source, Span};
use super::store::without_password;
use crate::units::Invalid;

/// One table of a configuration. Every field it is asked for is in the table of fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section<'s> {
    source: &'s Source<'s>,
    part: Part,
    /// Nothing if the file does not have the table.
    table: Option<&'s DeTable<'s>>,
}

/// A value, and what it is called in a message.
type Item<'s> = (&'s DeValue<'s>, Span);

// === impl Section ===

impl<'s> Section<'s> {
    /// Returns a table, whose unknown fields are noted.
    pub(super) fn new(source: &'s Source<'s>, part: Part, table: &'s DeTable<'s>) -> Self {
        let section = Self {
            source,
            part,
            table: Some(table),
        };
        for name in table.keys() {
            section.check_name(name);
        }
        section
    }

    /// Returns a table that the file does not have.
    pub(super) fn absent(source: &'s Source<'s>, part: Part) -> Self {
        Self {
            source,
            part,
            table: None,
        }
    }

    /// Where a field is named, for messages about its presence.
    pub(super) fn name_of(&self, name: &str) -> Span {
        let found = self.table?.keys().find(|key| key.get_ref() == name)?;
        Some(found.span())
    }

    /// Whether the field is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The text of a field.
    pub(super) fn text(&self, name: &str) -> Option<At<String>> {
        let (value, span) = self.get(name)?;
        let value = self.as_text(name, value, &span)?.to_owned();
        Some(At { value, span })
    }

    /// What `parse` makes of the text of a field.
    pub(super) fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Invalid>,
    ) -> Option<At<T>> {
        let At { value, span } = self.text(name)?;
        let value = self.parse(name, &value, &span, parse)?;
        Some(At { value, span })
    }

    /// One of a few words; some others have a meaning in later versions.
    pub(super) fn word<T: Clone>(
        &self,
        name: &str,
        words: &[(&str, T)],
        later: &[&str],
    ) -> Option<At<T>> {
        self.parsed(name, |text| {
            if later.contains(&text) {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                let hint = format!("write {}", words.join(", "));
                return Err(Invalid::new("is not available in this version", hint));
            }
            let found = words.iter().find(|(word, _)| *word == text);
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            found
                .map(|(_, value)| value.clone())
                .ok_or_else(|| unknown_word(text, &known))
        })
    }

    /// A path, which is not empty.
    pub(super) fn path(&self, name: &str) -> Option<At<PathBuf>> {
        self.parsed(name, |text| match text {
            "" => Err(Invalid::new("is empty", "write the path of a file")),
            text => Ok(PathBuf::from(text)),
        })
    }

    /// True or false.
    pub(super) fn flag(&self, name: &str) -> Option<At<bool>> {
        let (value, span) = self.get(name)?;
        match value.as_bool() {
            Some(value) => Some(At { value, span }),
            None => self.wrong_type(name, value, &span, "true or false"),
        }
    }

    /// A whole number from 1.
    pub(super) fn count(&self, name: &str) -> Option<At<usize>> {
        let (value, span) = self.get(name)?;
        let number = value.as_integer().map(|number| {
            usize::from_str_radix(number.as_str(), number.radix())
                .ok()
                .filter(|&n| n > 0)
        });
        match number {
            Some(Some(value)) => Some(At { value, span }),
            _ => self.wrong_type(name, value, &span, "a whole number from 1"),
        }
    }

    /// A list of texts, or one text alone.
    pub(super) fn texts<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Invalid>,
    ) -> Option<At<Vec<At<T>>>> {
        self.list(name, |value, span| {
            let text = self.as_text(name, value, span)?;
            self.parse(name, text, span, &parse)
        })
    }

    /// A list, or one value alone, of what `read` makes something of.
    pub(super) fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&DeValue<'s>, &Span) -> Option<T>,
    ) -> Option<At<Vec<At<T>>>> {
        let (value, span) = self.get(name)?;
        let items: Vec<Item<'s>> = match value {
            DeValue::Array(items) => items.iter().map(item).collect(),
            _ => vec![(value, span.clone())],
        };
        let read = items.into_iter().filter_map(|(value, span)| {
            let value = read(value, &span)?;
            Some(At { value, span })
        });
        let value = read.collect();
        Some(At { value, span })
    }

    /// A table in a field.
    pub(super) fn table(&self, name: &str, part: Part) -> Option<At<Section<'s>>> {
        let (value, span) = self.get(name)?;
        match value {
            DeValue::Table(table) => {
                let value = Section::new(self.source, part, table);
                Some(At { value, span })
            }
            _ => self.wrong_type(name, value, &span, "a table"),
        }
    }

    /// A table in a field, or one without fields.
    pub(super) fn table_or_empty(&self, name: &str, part: Part) -> Section<'s> {
        let found = self.table(name, part);
        found.map_or_else(|| Section::absent(self.source, part), |found| found.value)
    }

    /// The tables in a field: `[[name]]`.
    pub(super) fn tables(&self, name: &str, part: Part) -> Vec<At<Section<'s>>> {
        let Some((value, span)) = self.get(name) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value else {
            let wanted = format!("a list of tables, each under [[{name}]]");
            self.wrong_type::<()>(name, value, &span, &wanted);
            return Vec::new();
        };
        let tables = items
            .iter()
            .map(item)
            .filter_map(|(value, span)| match value {
                DeValue::Table(table) => {
                    let value = Section::new(self.source, part, table);
                    Some(At { value, span })
                }
                _ => self.wrong_type(name, value, &span, "a table"),
            });
        tables.collect()
    }

    /// Whether a field holds a list of nothing.
    pub(super) fn is_empty(&self, name: &str) -> bool {
        let found = self.get(name).and_then(|(value, _)| value.as_array());
        found.is_some_and(|list| list.iter().next().is_none())
    }

    /// Whether a field holds a table, for those that take a text as well.
    pub(super) fn is_table(&self, name: &str) -> bool {
        self.get(name).is_some_and(|(value, _)| value.is_table())
    }

    /// Notes that a value is of the wrong kind.
    pub(super) fn wrong_type<T>(
        &self,
        name: &str,
        value: &DeValue<'_>,
        span: &Span,
        wanted: &str,
    ) -> Option<T> {
        let field = fields::find(self.part, name);
        let found = value.type_str();
        self.source.refuse(
            span,
            format!(
                "{name} is {}, where {wanted} is wanted",
                with_article(found)
            ),
            format!("write {name} = {}", field.example),
        );
        None
    }

    fn get(&self, name: &str) -> Option<Item<'s>> {
        fields::find(self.part, name);
        self.table?.get(name).map(item)
    }

    fn as_text<'v>(&self, name: &str, value: &'v DeValue<'s>, span: &Span) -> Option<&'v str> {
        match value.as_str() {
            Some(text) => Some(text),
            None => self.wrong_type(name, value, span, "a text in quotes"),
        }
    }

    fn parse<T>(
        &self,
        name: &str,
        text: &str,
        span: &Span,
        parse: impl Fn(&str) -> Result<T, Invalid>,
    ) -> Option<T> {
        match parse(text) {
            Ok(value) => Some(value),
            Err(invalid) => {
                let shown = without_password(text);
                let message = format!("{name} {shown:?} {invalid}");
                self.source.refuse(span, message, invalid.hint());
                None
            }
        }
    }

    fn check_name(&self, name: &Spanned<std::borrow::Cow<'s, str>>) {
        let (span, text) = (Some(name.span()), name.get_ref().as_ref());
        let known: Vec<_> = fields::of(self.part).map(|field| field.name).collect();
        if known.contains(&text) {
            return;
        }
        let place = self.part.title();
        if fields::is_later(self.part, text) {
            let message = format!("{text} in {place} is not available in this version");
            self.source.refuse(&span, message, "remove it");
            return;
        }
        let hint = match nearest(text, &known) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("known here: {}", known.join(", ")),
        };
        let message = format!("unknown field {text:?} in {place}");
        self.source.refuse(&span, message, hint);
    }
}

fn item<'s>(value: &'s Spanned<DeValue<'s>>) -> Item<'s> {
    (value.get_ref(), Some(value.span()))
}

fn with_article(noun: &str) -> impl fmt::Display {
    let article = if noun.starts_with(['a', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {noun}")
}

/// Says that `text` is none of the words that are known, or which of them it may be meant to be.
pub(super) fn unknown_word(text: &str, known: &[&str]) -> Invalid {
    let hint = match nearest(text, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("write one of {}", known.join(", ")),
    };
    Invalid::new("is not known", hint)
}

/// The name that `text` is most likely a slip of.
fn nearest<'k>(text: &str, known: &[&'k str]) -> Option<&'k str> {
    let ranked = known
        .iter()
        .map(|name| (strsim::jaro_winkler(text, name), *name));
    let best = ranked.max_by(|one, two| one.0.total_cmp(&two.0))?;
    (best.0 > 0.8).then_some(best.1)
}
