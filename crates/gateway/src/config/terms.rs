//! From what is written to what holds.

use std::time::Duration;

use onceward::{Effect, Policy};
use onceward_http::{OnBusy, Profile, Statuses, Terms};

use super::parse::upstream_url;
use super::problem::{At, Source};
use super::written::{Busy, Written, over_statuses};
use crate::route::Probe;
use crate::units;

/// What holds for some requests.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) terms: Terms,
    pub(super) probe: Option<Probe>,
    pub(super) duplicates_allowed: bool,
}

/// The longest wait: callers and proxies give up after about that.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long a service may take, unless a route says otherwise.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// A retention below this is shorter than many callers go on retrying.
const RETENTION_SHORT: Duration = Duration::from_secs(3600);

// === impl Written ===

impl Written {
    /// Returns what holds, with `names` for the parts of the path that fields and a probe's URL
    /// may name.
    pub(super) fn hold(&self, source: &Source<'_>, names: &[&str]) -> Held {
        let mut terms = Terms::default();
        if let Some(profile) = &self.profile {
            terms = terms.profile(profile.value);
        }
        let duplicates_allowed = self.duplicates_allowed(source);
        let effect = self.effect.as_ref().map_or(Effect::Opaque, |at| at.value);
        terms.policy = self.policy(
            source,
            match duplicates_allowed {
                true => Effect::Repeatable,
                false => effect,
            },
        );
        terms.statuses = self.statuses(terms.profile);
        terms.on_busy = self.busy(source);
        self.check_span(source, "upstream_timeout", &self.upstream_timeout);
        terms.within = Some(value(&self.upstream_timeout).unwrap_or(UPSTREAM_TIMEOUT));
        if let Some(At { value: rules, .. }) = &self.fingerprint {
            terms.fingerprint = rules.now.clone();
            terms.previous_fingerprint = rules.previous.clone();
        }
        terms.key = value(&self.key).unwrap_or(terms.key);
        terms.key_from = value(&self.key_from).unwrap_or(terms.key_from);
        terms.key_equals = value(&self.key_equals);
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        terms.request_max = value(&self.max_request).map_or(terms.request_max, bytes);
        terms.stream = value(&self.stream).unwrap_or(false);
        terms.replay_cookies = value(&self.replay_cookies).unwrap_or(false);
        terms.store_headers = value(&self.store_headers);
        terms.key_age_max = value(&self.key_age_max);
        self.check_key_age(source, terms.policy.retention);
        self.check_keys(source, names);
        self.check_keep_body(source, terms.policy.retention);
        self.rules.check(source, value(&self.key), names);
        self.check_probe(source, names);
        Held {
            terms,
            probe: value(&self.probe),
            duplicates_allowed,
        }
    }

    fn policy(&self, source: &Source<'_>, effect: Effect) -> Policy {
        let mut policy = Policy::default().effect(effect);
        if let Some(At { value: lease, span }) = &self.lease {
            if *lease < Policy::LEASE_MIN {
                let least = units::write_duration(Policy::LEASE_MIN);
                source.refuse(
                    span,
                    format!(
                        "lease {:?} is too short to be renewed in time",
                        shown(*lease)
                    ),
                    format!("write at least {least:?}"),
                );
            }
            policy = policy.lease(*lease);
        }
        self.check_span(source, "retention", &self.retention);
        if let Some(At { value, span }) = &self.retention {
            if !value.is_zero() && *value < RETENTION_SHORT {
                source.warn(
                    span,
                    format!("a retention of {} is short", shown(*value)),
                    "a retry that comes later runs the work again: see onceward plan",
                );
            }
            policy = policy.retention(*value);
        }
        self.check_span(source, "unknown_retention", &self.unknown_retention);
        if let Some(At { value, .. }) = &self.unknown_retention {
            policy = policy.unknown_retention(*value);
        }
        if let Some(At { value, .. }) = &self.keep_body {
            policy = policy.keep_body(*value);
        }
        if let Some(At { value, .. }) = &self.max_answer {
            policy = policy.body_max(usize::try_from(*value).unwrap_or(usize::MAX));
        }
        policy
    }

    fn busy(&self, source: &Source<'_>) -> OnBusy {
        let wait = value(&self.wait).unwrap_or(Duration::from_secs(10));
        if let Some(At { value, span }) = &self.wait
            && *value > WAIT_MAX
        {
            source.refuse(
                span,
                format!("wait {:?} is too long", shown(*value)),
                "write at most \"30s\": most callers give up by then",
            );
        }
        match self.on_busy.as_ref().map(|at| at.value) {
            None | Some(Busy::Wait) => OnBusy::Wait(wait),
            Some(Busy::Refuse) => OnBusy::Refuse,
            Some(Busy::Accept) => OnBusy::Accept,
        }
    }

    fn statuses(&self, profile: Profile) -> Statuses {
        // A list of the file replaces that of the profile.
        let lists = profile.status_lists().map(Some);
        let [store, release, unknown] =
            over_statuses(&self.statuses, &lists).map(Option::unwrap_or_default);
        // A clash was refused when the lists were read; what holds then does not matter.
        Statuses::new(&store, &release, &unknown).unwrap_or_else(|_| profile.statuses())
    }

    fn duplicates_allowed(&self, source: &Source<'_>) -> bool {
        let Some(At { value: true, span }) = &self.duplicates else {
            return false;
        };
        if let Some(effect) = &self.effect
            && effect.value != Effect::Opaque
        {
            source.refuse(
                span,
                "duplicates = \"allowed\" is for opaque work only",
                "leave it out: what is known about the effect already says what to do",
            );
            return false;
        }
        source.warn(
            span,
            "duplicates are allowed: work may run twice, which is outside the promise",
            "leave it out unless doing the work twice is harmless",
        );
        true
    }

    fn check_key_age(&self, source: &Source<'_>, retention: Duration) {
        self.check_span(source, "key_age_max", &self.key_age_max);
        if let Some(At { value, span }) = &self.key_age_max
            && *value > retention
        {
            source.warn(
                span,
                format!(
                    "keys may be {} old, but answers are kept for {}",
                    shown(*value),
                    shown(retention)
                ),
                "write less than the retention: a key in between runs the work again",
            );
        }
    }

    fn check_probe(&self, source: &Source<'_>, names: &[&str]) {
        let probed = self.effect.as_ref().filter(|at| at.value == Effect::Probed);
        match (probed, &self.probe) {
            (Some(effect), None) => source.refuse(
                &effect.span,
                "effect = \"probed\" needs a probe",
                "add probe = { url = \"/payments/by-key/{key}\" }",
            ),
            (None, Some(probe)) => source.refuse(
                &probe.span,
                "probe is used for effect = \"probed\" only",
                "add effect = \"probed\", or remove the probe",
            ),
            (Some(_), Some(probe)) => check_url(source, probe, names),
            (None, None) => {}
        }
    }

    /// Refuses no time at all.
    fn check_span(&self, source: &Source<'_>, name: &str, span: &Option<At<Duration>>) {
        if let Some(At { value, span }) = span
            && value.is_zero()
        {
            let message = format!("{name} {:?} is no time at all", shown(*value));
            source.refuse(
                span,
                message,
                "write a duration above zero, such as \"24h\"",
            );
        }
    }
}

/// Refuses a name in braces that stands for nothing, and a place that no service can be at.
fn check_url(source: &Source<'_>, probe: &At<Probe>, names: &[&str]) {
    if let Some((origin, _)) = probe.value.origin()
        && let Err(invalid) = upstream_url(origin)
    {
        let message = format!("url {:?} {invalid}", probe.value.url);
        source.refuse(&probe.span, message, invalid.hint());
        return;
    }
    let known: Vec<_> = ["key", "fence"].iter().chain(names).copied().collect();
    let mut parts = probe.value.url.split('{');
    let literal = parts.next().unwrap_or_default();
    let strange = |part: &str| match part.split_once('}') {
        Some((name, after)) => !known.contains(&name) || after.contains('}'),
        None => true,
    };
    if literal.contains('}') || parts.any(strange) {
        source.refuse(
            &probe.span,
            format!(
                "url {:?} has braces around what has no value",
                probe.value.url
            ),
            format!("known here: {{{}}}", known.join("}, {")),
        );
    }
}

fn value<T: Clone>(at: &Option<At<T>>) -> Option<T> {
    at.as_ref().map(|at| at.value.clone())
}

fn shown(duration: Duration) -> String {
    units::write_duration(duration)
}
