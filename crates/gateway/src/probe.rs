//! Probing: asking the service whether an earlier attempt happened.
//!
//! A probe is a `GET` of a configured URL. It carries the key, the attempt's number and its
//! fence, which is greater than that of any earlier attempt: from then on the service has to
//! refuse requests with an older one. It answers with
//!
//! - `Idempotency-Outcome: done`, and the first answer as its own status, headers and body;
//! - `Idempotency-Outcome: not-done`, and the same `Idempotency-Fence` to say that it will honour
//!   it. Without that a late request could still do the work, so the answer is not believed;
//! - anything else: nobody can say.

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Limited};
use onceward::Attempt;
use onceward::bugs::{Bug, seeded};
use onceward_http::headers::{IDEMPOTENCY_FENCE, IDEMPOTENCY_KEY, IDEMPOTENCY_OUTCOME};
use onceward_http::{Probe, Probed};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::forward;
use crate::route::Pattern;
use crate::upstream::{Care, Outbound, Upstream};

/// Asks by a request of its own.
#[derive(Debug)]
pub(crate) struct Prober {
    pub(crate) upstream: Upstream,
    /// The path and query to ask, with names in braces.
    pub(crate) template: Box<str>,
    /// The route that asks: its names may stand in the template.
    pub(crate) pattern: Option<Pattern>,
    pub(crate) host: HeaderValue,
    pub(crate) within: Duration,
    /// The largest answer.
    pub(crate) answer_max: usize,
}

// === impl Prober ===

impl Prober {
    async fn ask(&self, attempt: &Attempt, about: &Parts) -> Result<Probed, String> {
        let request = self.request(attempt, about)?;
        let send = self.upstream.send(request, Care::Any, self.within);
        let response = send.await.map_err(|error| error.to_string())?;
        let (mut head, body) = response.into_parts();
        let body = Limited::new(body, self.answer_max).collect();
        let body = match tokio::time::timeout(self.within, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return Err("its answer was cut or is too large".into()),
            Err(_) => return Err("its answer did not end in time".into()),
        };
        let said = head.headers.remove(IDEMPOTENCY_OUTCOME);
        let honours = honours(&head.headers, attempt);
        forward::answer(&mut head.headers);
        match said.as_ref().map(HeaderValue::as_bytes) {
            Some(b"done") => Ok(Probed::Done(Response::from_parts(head, body))),
            Some(b"not-done") if honours || seeded(Bug::ProbeUnfenced) => Ok(Probed::NotDone),
            Some(b"not-done") => Err("it does not honour the fence".into()),
            _ => Err(format!(
                "it answered {} without an outcome",
                head.status.as_u16()
            )),
        }
    }

    fn request(&self, attempt: &Attempt, about: &Parts) -> Result<Request<Outbound>, String> {
        let target = self.target(attempt, about);
        if target
            .split(['/', '?'])
            .any(|part| matches!(part, "." | ".."))
        {
            return Err("its URL would lead elsewhere".into());
        }
        let request = Request::get(target).body(Outbound::Empty);
        let mut request = request.map_err(|_| "its URL cannot be made")?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.host.clone());
        headers.insert(IDEMPOTENCY_KEY, forward::written(attempt.key()));
        forward::say_which(headers, attempt);
        let identity = HeaderValue::from_static("identity");
        headers.insert(header::ACCEPT_ENCODING, identity);
        if let Some(credential) = about.headers.get(header::AUTHORIZATION) {
            headers.insert(header::AUTHORIZATION, credential.clone());
        }
        Ok(request)
    }

    fn target(&self, attempt: &Attempt, about: &Parts) -> String {
        let captured = self
            .pattern
            .as_ref()
            .and_then(|pattern| pattern.captures(about.uri.path()));
        let captured = captured.unwrap_or_default();
        fill(&self.template, |name| match name {
            "key" => Some(encoded(attempt.key().as_str())),
            "fence" => Some(attempt.fence().to_string()),
            name => {
                let found = captured.iter().find(|(captured, _)| *captured == name);
                found.map(|(_, part)| utf8_percent_encode(part, RECEIVED).to_string())
            }
        })
    }
}

/// Puts values for the names in braces; a name without one stays.
fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            rest = &rest[before.len()..];
            break;
        };
        match value(name) {
            Some(value) => filled.push_str(&value),
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = behind;
    }
    filled + rest
}

/// Everything but letters, digits and what is safe in any part of a URL.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The same for a part of a path as it was received, which is encoded already.
const RECEIVED: &AsciiSet = &RESERVED.remove(b'%');

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

impl Probe for Prober {
    fn probe<'a>(&'a self, attempt: &'a Attempt, request: &'a Parts) -> BoxFuture<'a, Probed> {
        Box::pin(async move {
            let asked = self.ask(attempt, request).await;
            asked.unwrap_or_else(Probed::CannotSay)
        })
    }
}

/// Whether the service says that it will refuse older fences.
fn honours(headers: &HeaderMap, attempt: &Attempt) -> bool {
    let said = headers.get(IDEMPOTENCY_FENCE);
    said.is_some_and(|fence| fence.as_bytes() == attempt.fence().to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_template_are_filled_and_keys_encoded() {
        let value = |name: &str| match name {
            "key" => Some(encoded("a/b?c d")),
            "id" => Some("7".into()),
            _ => None,
        };
        assert_eq!(fill("/ops/{key}", value), "/ops/a%2Fb%3Fc%20d");
        assert_eq!(
            fill("/p/{id}/x?k={key}&{other}", value),
            "/p/7/x?k=a%2Fb%3Fc%20d&{other}"
        );
        assert_eq!(fill("/p/{id", value), "/p/{id");
        assert_eq!(fill("/plain", value), "/plain");
    }
}
