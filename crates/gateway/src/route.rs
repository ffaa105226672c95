//! Routes: which terms hold for a request.
//!
//! A pattern is a method, or `*` for any, and a path of which a segment may be `{name}` and the
//! rest `{*rest}`. Of all patterns that match, the most specific one wins: segment by segment a
//! literal over `{name}` over `{*rest}`, then a method over `*`. The order in the file does not
//! matter.

use std::collections::HashMap;
use std::fmt;

use http::Method;
use onceward_http::Terms;

use self::pattern::Segment;
pub use self::pattern::{InvalidPattern, Pattern};

mod pattern;

/// What holds for the requests that a pattern matches.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Route {
    /// Which requests these are.
    pub pattern: Pattern,
    /// The name of the route in metrics: that of its operation, or the pattern as written.
    pub name: Box<str>,
    /// What holds for them.
    pub terms: Terms,
    /// How the service is asked whether the work happened, for `effect = "probed"`.
    pub probe: Option<Probe>,
    /// Whether silence means running the work again, which is outside the promise.
    pub duplicates_allowed: bool,
    /// The line of the file in which its pattern stands; 0 without a file.
    pub line: usize,
}

/// How the service behind is asked whether the work happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Probe {
    /// Where to ask. `{key}` and `{fence}` stand for those of the request, `{name}` for a segment
    /// of the route's pattern. Relative to the upstream if it begins with a slash.
    pub url: Box<str>,
}

/// All routes, ready to be looked up in.
///
/// ```
/// use http::Method;
/// use onceward_gateway::route::{Pattern, Routes};
///
/// let pattern = |text| Pattern::parse(text).unwrap();
/// let routes = Routes::new(vec![pattern("* /{*rest}"), pattern("POST /payments")]);
/// assert_eq!(routes.find(&Method::POST, "/payments").unwrap().to_string(), "POST /payments");
/// assert_eq!(routes.find(&Method::PUT, "/payments").unwrap().to_string(), "* /{*rest}");
/// ```
#[derive(Clone, Debug)]
pub struct Routes<R = Route> {
    routes: Vec<R>,
    tree: Node,
}

/// Something that is found by a pattern.
pub trait Routed {
    /// The pattern by which it is found.
    fn pattern(&self) -> &Pattern;
}

/// The patterns that have the same segments up to here.
#[derive(Clone, Default, Debug)]
struct Node {
    literals: HashMap<Box<str>, Node>,
    name: Option<Box<Node>>,
    /// Patterns that go on with `{*rest}`.
    rest: Places,
    /// Patterns that end here.
    end: Places,
}

/// Where the routes stand whose paths are the same, by method.
#[derive(Clone, Default, Debug)]
struct Places {
    methods: Vec<(Method, usize)>,
    any: Option<usize>,
}

// === impl Route ===

impl Route {
    /// Returns a route with these terms, named as its operation or else as its pattern.
    pub fn new(pattern: Pattern, terms: Terms) -> Self {
        let name = match &terms.operation {
            Some(operation) => operation.as_ref().into(),
            None => pattern.to_string().into(),
        };
        Self {
            pattern,
            name,
            terms,
            probe: None,
            duplicates_allowed: false,
            line: 0,
        }
    }
}

impl Routed for Route {
    fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

impl Routed for Pattern {
    fn pattern(&self) -> &Pattern {
        self
    }
}

// === impl Probe ===

impl Probe {
    /// Returns a probe that asks at `url`.
    pub fn new(url: impl Into<Box<str>>) -> Self {
        Self { url: url.into() }
    }

    /// Returns where to ask, and the path there, unless that is relative to the upstream.
    pub fn origin(&self) -> Option<(&str, &str)> {
        let (scheme, rest) = self.url.split_once("://")?;
        let path = rest
            .find('/')
            .map_or(self.url.len(), |at| scheme.len() + 3 + at);
        let (origin, path) = self.url.split_at(path);
        Some((origin, if path.is_empty() { "/" } else { path }))
    }
}

// === impl Routes ===

impl<R: Routed> Routes<R> {
    /// Returns `routes`, ready to be looked up in. Of two with the same pattern the first counts.
    pub fn new(routes: Vec<R>) -> Self {
        let mut tree = Node::default();
        for (at, route) in routes.iter().enumerate() {
            let pattern = route.pattern();
            let mut node = &mut tree;
            let mut places = None;
            for segment in pattern.segments() {
                match segment {
                    Segment::Literal(text) => node = node.literals.entry(text.clone()).or_default(),
                    Segment::Name(_) => node = node.name.get_or_insert_default(),
                    Segment::Rest(_) => places = Some(()),
                }
            }
            let places = match places {
                Some(()) => &mut node.rest,
                None => &mut node.end,
            };
            places.put(pattern.method(), at);
        }
        Self { routes, tree }
    }

    /// The most specific route for a request, if there is any. The path is compared as received,
    /// without decoding it.
    pub fn find(&self, method: &Method, path: &str) -> Option<&R> {
        let path = path.strip_prefix('/')?;
        self.tree.find(method, path).map(|at| &self.routes[at])
    }
}

impl<R> Routes<R> {
    /// All routes, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, R> {
        self.routes.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

impl<'a, R> IntoIterator for &'a Routes<R> {
    type Item = &'a R;
    type IntoIter = std::slice::Iter<'a, R>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

// === impl Node ===

impl Node {
    /// Looks for `path`, which begins after a slash. No node is visited twice, so a lookup never
    /// takes more steps than there are segments in all patterns together.
    fn find(&self, method: &Method, path: &str) -> Option<usize> {
        let (segment, after) = match path.split_once('/') {
            Some((segment, after)) => (segment, Some(after)),
            None => (path, None),
        };
        let step = |node: &Self| match after {
            Some(after) => node.find(method, after),
            None => node.end.get(method),
        };
        let literal = || self.literals.get(segment).and_then(step);
        let name = || match segment.is_empty() {
            true => None,
            false => self.name.as_deref().and_then(step),
        };
        let rest = || match path.is_empty() {
            true => None,
            false => self.rest.get(method),
        };
        literal().or_else(name).or_else(rest)
    }
}

// === impl Places ===

impl Places {
    fn put(&mut self, method: Option<&Method>, at: usize) {
        match method {
            None => self.any = self.any.or(Some(at)),
            Some(method) if self.methods.iter().any(|(known, _)| known == method) => {}
            Some(method) => self.methods.push((method.clone(), at)),
        }
    }

    fn get(&self, method: &Method) -> Option<usize> {
        let exact = self.methods.iter().find(|(known, _)| known == method);
        exact.map(|(_, at)| *at).or(self.any)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pattern.fmt(f)
    }
}

#[cfg(test)]
mod tests;
