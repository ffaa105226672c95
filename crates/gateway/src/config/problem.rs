//! Problems: what is wrong with a configuration, where, and what to do about it.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// One thing that is wrong, or worth a second look.
///
/// Its `Display` is `FILE:LINE:COLUMN: what is wrong`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// Where it stands; nowhere if it comes from the command line or from a default.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// A place in a file. Lines and columns count from 1, columns in characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub struct Place {
    /// The name of the file, as given.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Everything that is wrong with a configuration, in the order of the file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Errors(pub Vec<Problem>);

/// Where something stands in a text; `None` if it does not stand there.
pub(super) type Span = Option<Range<usize>>;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// The text of a configuration, and what has been found to be wrong with it.
#[derive(Debug)]
pub(super) struct Source<'t> {
    file: &'t str,
    text: &'t str,
    errors: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

// === impl Source ===

impl<'t> Source<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        Self {
            file,
            text,
            errors: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// Notes an error.
    pub(super) fn refuse(&self, span: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.note(&self.errors, span, message.into(), hint.into());
    }

    /// Notes something that is allowed, and rarely meant.
    pub(super) fn warn(&self, span: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.note(&self.warnings, span, message.into(), hint.into());
    }

    /// Returns the warnings, or the errors if there are any.
    pub(super) fn verdict(self) -> Result<Vec<Problem>, Errors> {
        let sorted = |problems: RefCell<Vec<Problem>>| {
            let mut problems = problems.into_inner();
            problems.sort_by(|one, two| one.place.cmp(&two.place));
            problems
        };
        match sorted(self.errors) {
            none if none.is_empty() => Ok(sorted(self.warnings)),
            errors => Err(Errors(errors)),
        }
    }

    /// The line of a span, from 1; 0 if it stands nowhere.
    pub(super) fn line(&self, span: &Span) -> usize {
        self.place(span).map_or(0, |place| place.line)
    }

    /// What stands in `[defaults]` is checked for every route, and told once.
    fn note(&self, list: &RefCell<Vec<Problem>>, span: &Span, message: String, hint: String) {
        let problem = Problem {
            place: self.place(span),
            message,
            hint,
        };
        let mut list = list.borrow_mut();
        if !list.contains(&problem) {
            list.push(problem);
        }
    }

    fn place(&self, span: &Span) -> Option<Place> {
        let start = span.as_ref()?.start;
        let before = self.text.get(..start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Some(Place {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        })
    }
}

// === impl At ===

impl<T> At<T> {
    /// A value that stands nowhere in the file.
    pub(super) fn nowhere(value: T) -> Self {
        Self { value, span: None }
    }
}

// === impl Problem ===

impl Problem {
    /// Returns a problem that stands in no file.
    pub fn anywhere(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            place: None,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { file, line, column }) = &self.place {
            write!(f, "{file}:{line}:{column}: ")?;
        }
        f.write_str(&self.message)
    }
}

// === impl Errors ===

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}\n  hint: {}", problem.hint)?;
        }
        Ok(())
    }
}
