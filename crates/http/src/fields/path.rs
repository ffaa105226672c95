//! The parts of a path that have names.

use http::request::Parts;

/// The parts of a request's path that its route names, decoded.
///
/// Whoever routes a request puts this into its extensions, if [`Terms`](crate::Terms) name such
/// parts ([`Terms::needs_path`](crate::Terms::needs_path)). The gateway does.
///
/// ```
/// use http::Request;
/// use onceward_http::{Fields, PathFields};
///
/// let mut request = Request::post("/accounts/7/close").body(()).unwrap();
/// request.extensions_mut().insert(PathFields::from_iter([("account", "7")]));
/// let (parts, ()) = request.into_parts();
/// assert!(Fields::parse(["{account}"])?.digest(&parts, b"").is_ok());
/// # Ok::<(), onceward_http::InvalidField>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathFields(Vec<(Box<str>, Box<str>)>);

// === impl PathFields ===

impl PathFields {
    /// Returns the part of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut parts = self.0.iter();
        parts.find_map(|(known, part)| (**known == *name).then_some(&**part))
    }

    pub(super) fn of(parts: &Parts) -> Option<&Self> {
        parts.extensions.get()
    }
}

/// Of names with their parts.
impl<N: Into<Box<str>>, P: Into<Box<str>>> FromIterator<(N, P)> for PathFields {
    fn from_iter<I: IntoIterator<Item = (N, P)>>(parts: I) -> Self {
        let parts = parts.into_iter();
        Self(
            parts
                .map(|(name, part)| (name.into(), part.into()))
                .collect(),
        )
    }
}
