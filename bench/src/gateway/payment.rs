//! The one payment that every caller asks for, and the answer that the upstream makes of its key.

/// What a request is known by: the number in its key, or no key at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Key(u64),
    None,
}

/// A request whose key can be changed without writing the rest again.
#[derive(Debug, Clone)]
pub(crate) struct Request(Patched);

/// The upstream's answer to a payment: the same bytes for the same key, others for another key.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    whole: Patched,
    /// Where the body begins.
    body: usize,
}

/// Bytes in which a key stands at a known place, if at any.
#[derive(Debug, Clone)]
struct Patched {
    bytes: Vec<u8>,
    key: Option<usize>,
}

/// How long a key is, in bytes.
pub(crate) const KEY_LEN: usize = 36;

/// What stands in an answer in place of a key that the request did not have.
const NO_KEY: &[u8; KEY_LEN] = b"------------------------------------";

/// What the digits of a number are written over.
const KEY: &[u8; KEY_LEN] = b"8e03978e-40d5-43e8-bc93-000000000000";
const DIGITS: usize = 12;

const BODY: &str = concat!(
    r#"{"amount":1999,"currency":"EUR","customer":"cus_42","#,
    r#""order":"o-12345","capture":true}"#
);

// === impl Name ===

impl Name {
    /// Returns the bytes by which the upstream calls this request.
    pub(crate) fn bytes(self) -> [u8; KEY_LEN] {
        match self {
            Self::None => *NO_KEY,
            Self::Key(mut number) => {
                let mut key = *KEY;
                for digit in key[KEY_LEN - DIGITS..].iter_mut().rev() {
                    *digit = b'0' + (number % 10) as u8;
                    number /= 10;
                }
                key
            }
        }
    }
}

// === impl Request ===

impl Request {
    /// Returns the request as a caller with or without keys sends it.
    pub(crate) fn new(keyed: bool) -> Self {
        let key = String::from_utf8_lossy(KEY);
        let line = match keyed {
            true => format!("Idempotency-Key: {key}\r\n"),
            false => String::new(),
        };
        let text = format!(
            "POST /payments HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer bench\r\n\
             Content-Type: application/json\r\n{line}Content-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        Self(Patched {
            key: text.find(&*key),
            bytes: text.into_bytes(),
        })
    }

    /// Returns the bytes to send for `name`.
    pub(crate) fn bytes(&mut self, name: Name) -> &[u8] {
        self.0.patch(&name.bytes());
        &self.0.bytes
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn new() -> Self {
        let key = String::from_utf8_lossy(KEY);
        let body = format!(
            concat!(
                r#"{{"id":"pay_{key}","object":"payment","amount":1999,"amount_refunded":0,"#,
                r#""currency":"EUR","customer":"cus_42","order":"o-12345","captured":true,"#,
                r#""status":"succeeded","description":"One of many that are alike","livemode":false,"#,
                r#""receipt":"https://pay.example/receipts/latest"}}"#
            ),
            key = key
        );
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let text = head.clone() + &body;
        Self {
            body: head.len(),
            whole: Patched {
                key: text.find(&*key),
                bytes: text.into_bytes(),
            },
        }
    }

    /// Returns head and body for the request called `name`.
    pub(crate) fn bytes(&mut self, name: &[u8; KEY_LEN]) -> &[u8] {
        self.whole.patch(name);
        &self.whole.bytes
    }

    /// Returns the body for the request called `name`.
    pub(crate) fn body(&mut self, name: &[u8; KEY_LEN]) -> &[u8] {
        self.whole.patch(name);
        &self.whole.bytes[self.body..]
    }
}

// === impl Patched ===

impl Patched {
    fn patch(&mut self, key: &[u8; KEY_LEN]) {
        if let Some(at) = self.key {
            self.bytes[at..at + KEY_LEN].copy_from_slice(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, BODY, Name, Request};

    #[test]
    fn request_and_answer_have_the_size_of_a_small_payment() {
        assert_eq!(BODY.len(), 85);
        let len = Answer::new().body(&Name::None.bytes()).len();
        assert!((280..=320).contains(&len), "{len}");
    }

    #[test]
    fn every_key_makes_its_own_request_and_its_own_answer() {
        let (mut request, mut answer) = (Request::new(true), Answer::new());
        let mut both = |number| {
            let name = Name::Key(number);
            let asked = request.bytes(name).to_vec();
            (asked, answer.body(&name.bytes()).to_vec())
        };
        let (one, other) = (both(7), both(999_999_999_999));
        assert_eq!(one, both(7));
        assert_ne!(one.0, other.0);
        assert_ne!(one.1, other.1);
        let text = String::from_utf8(one.0).unwrap();
        assert!(text.contains("Idempotency-Key: 8e03978e-40d5-43e8-bc93-000000000007\r\n"));
    }

    #[test]
    fn request_without_a_key_says_nothing_of_keys() {
        let bytes = Request::new(false).bytes(Name::None).to_vec();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.to_ascii_lowercase().contains("idempotency"), "{text}");
    }
}
