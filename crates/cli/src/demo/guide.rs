//! The guide: what runs where, and what to try.

use std::fmt;
use std::net::SocketAddr;

use super::service::Trouble;

/// What runs where. Its `Display` is the guide.
#[derive(Debug)]
pub(super) struct Guide {
    pub(super) service: SocketAddr,
    pub(super) gateway: SocketAddr,
    pub(super) admin: Option<SocketAddr>,
}

/// Something to try.
struct Step {
    what: &'static str,
    try_this: String,
    expect: &'static str,
}

// === impl Guide ===

impl Guide {
    /// What to try, in an order in which each step adds one idea.
    fn steps(&self) -> [Step; 6] {
        let lost = format!("-H '{}: lost-answer' ", Trouble::HEADER);
        let slow = format!("-H '{}: slow=3s' ", Trouble::HEADER);
        let at_once = self.pay("/payments", "second", 200, "o-2", &slow);
        [
            Step {
                what: "Charge a customer.",
                try_this: self.pay("/payments", "first", 100, "o-1", ""),
                expect: "201 and a payment.",
            },
            Step {
                what: "Send the same line again, as a client does that never saw the answer.",
                try_this: self.pay("/payments", "first", 100, "o-1", ""),
                expect: "the same 201, with Idempotent-Replayed: true. Nothing more is charged.",
            },
            Step {
                what: "Use the key for another amount.",
                try_this: self.pay("/payments", "first", 999, "o-1", ""),
                expect: "422 key-reused: a key names one piece of work.",
            },
            Step {
                what: "Send two at once to a slow service.",
                try_this: format!("{at_once} & \\\n   {at_once} ; wait"),
                expect: "after 3 s the same payment twice: one charged, the other waited for it.",
            },
            Step {
                what: "Let the service charge and lose its answer. Then send the line again.",
                try_this: self.pay("/payments", "third", 300, "o-3", &lost),
                expect: "409 outcome-unknown, both times: from outside nobody can tell whether \
                         it was charged,\n   so it is not sent again. An operator settles it.",
            },
            Step {
                what: "The same where the service knows keys itself, and the gateway is told so \
                       with effect = \"keyed\".",
                try_this: self.pay("/orders", "fourth", 400, "o-4", &lost),
                expect: "409 the first time. The second time it is sent again under the same \
                         key, and is 201.",
            },
        ]
    }

    fn pay(&self, path: &str, key: &str, amount: u64, order: &str, more: &str) -> String {
        let gateway = self.gateway;
        format!(
            "curl -i http://{gateway}{path} -H 'Idempotency-Key: {key}' {more}\
             -d '{{\"amount\":{amount},\"order\":\"{order}\"}}'"
        )
    }
}

impl fmt::Display for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            service, gateway, ..
        } = self;
        writeln!(f, "onceward {}\n", env!("CARGO_PKG_VERSION"))?;
        writeln!(
            f,
            "  service  http://{service}  sample payments; GET /charges is its ledger"
        )?;
        writeln!(
            f,
            "  gateway  http://{gateway}  before it; records in a temporary folder"
        )?;
        if let Some(admin) = self.admin {
            writeln!(f, "  admin    http://{admin}/metrics")?;
        }
        writeln!(f, "\nTry in another terminal:")?;
        for (at, step) in self.steps().iter().enumerate() {
            let Step {
                what,
                try_this,
                expect,
            } = step;
            let number = at + 1;
            writeln!(f, "\n{number}. {what}\n   {try_this}\n   Expect {expect}")?;
        }
        writeln!(
            f,
            "\nSee what was charged: curl http://{gateway}/charges\n\
             More trouble to ask for: -H 'Trouble: refused' (402), -H 'Trouble: unavailable' (503)\n\
             A noisy client that tries it all: onceward demo --drive\n\n\
             Ctrl-C ends it.\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guide() -> Guide {
        Guide {
            service: "127.0.0.1:3000".parse().unwrap(),
            gateway: "127.0.0.1:8080".parse().unwrap(),
            admin: None,
        }
    }

    #[test]
    fn second_step_repeats_the_first_to_the_letter() {
        let [first, second, third, ..] = guide().steps();
        assert_eq!(first.try_this, second.try_this);
        assert_ne!(first.try_this, third.try_this);
    }

    #[test]
    fn lines_can_be_copied() {
        let wanted = "\
            curl -i http://127.0.0.1:8080/payments -H 'Idempotency-Key: first' \
            -d '{\"amount\":100,\"order\":\"o-1\"}'";
        let text = guide().to_string();
        assert!(text.contains(wanted), "{text}");
        assert!(!text.contains("admin"), "{text}");
    }
}
