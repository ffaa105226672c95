//! Forms by value: decoded, in the order of the names.

use super::put;

/// Returns the fields of a form in one spelling: sorted by name, those of one name in their own
/// order. `None` if a field is not UTF-8, for then two of them would decode alike.
pub(super) fn canonical(body: &[u8]) -> Option<Vec<u8>> {
    let mut fields: Vec<_> = form_urlencoded::parse(body).collect();
    fields.sort_by(|(one, _), (two, _)| one.cmp(two));
    let mut out = Vec::with_capacity(body.len() + 16 * fields.len());
    for (name, value) in &fields {
        for text in [name, value] {
            if text.contains(char::REPLACEMENT_CHARACTER) {
                return None;
            }
            put(&mut out, text.as_bytes());
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_names_and_spelling_do_not_count() {
        let one = canonical(b"b=2&a=x+y&c=%C3%A9").unwrap();
        assert_eq!(canonical(b"c=\xc3\xa9&a=%78%20y&&b=2").unwrap(), one);
        assert_ne!(canonical(b"b=2&a=x+z&c=%C3%A9").unwrap(), one);
    }

    #[test]
    fn order_of_values_of_one_name_counts() {
        assert_ne!(canonical(b"a=1&a=2"), canonical(b"a=2&a=1"));
        assert_eq!(canonical(b"a=1&b=0&a=2"), canonical(b"b=0&a=1&a=2"));
    }

    #[test]
    fn names_and_values_do_not_run_into_each_other() {
        assert_ne!(canonical(b"ab=c"), canonical(b"a=bc"));
        assert_ne!(canonical(b"a=b&c=d"), canonical(b"a=b%26c%3Dd"));
    }

    #[test]
    fn bytes_that_would_decode_alike_are_not_decoded() {
        assert_eq!(canonical(b"a=%FF"), None);
        assert_eq!(canonical(b"%FE=a"), None);
    }
}
