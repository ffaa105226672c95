//! Admission: asking for the right to execute, within what the caller may take.

use std::sync::Arc;

use http::request::Parts;
use metrics::counter;
use onceward::{Arrival, Claim, Error, Fingerprint, Key, Replay, Scope, Sight, Slot, Verdict};

use crate::KeyNeed;
use crate::guard::Inner;
use crate::problem::Problem;
use crate::quota::{Nature, Over, Quotas, Subject, Ticket, Weak};

/// What became of a request that asked to execute.
pub(crate) enum Admission {
    /// It may, and this is what it took of its caller's quotas.
    Granted(Claim, Option<Box<Ticket>>),
    /// It gets this instead, which is not [`Verdict::Execute`].
    Verdict(Verdict),
    /// It is refused, and nothing was written.
    Over(Over),
}

// === impl Inner ===

impl Inner {
    /// Asks for the right to execute, after the engine could not recall an answer.
    pub(crate) async fn admit(&self, parts: &Parts, arrival: &Arrival) -> Result<Admission, Error> {
        let Some(quotas) = &self.quotas else {
            let verdict = self.engine.admit_unrecalled(arrival).await;
            return verdict.map(Admission::from);
        };
        let payer = quotas.payer(parts, arrival.slot().scope());
        let admission = match quotas.limits().limit_claims() {
            true => Box::pin(self.admit_within(quotas, &payer, arrival)).await?,
            false => self.engine.admit_unrecalled(arrival).await?.into(),
        };
        match &admission {
            Admission::Granted(..) if self.chooses_keys() => {
                let noted = quotas.claimed(&payer, arrival);
                self.note(arrival, noted);
            }
            Admission::Verdict(Verdict::Mismatch) => {
                if let Some(over) = self.count_mismatch(quotas, &payer, arrival) {
                    return Ok(Admission::Over(over));
                }
            }
            Admission::Granted(..) | Admission::Verdict(_) | Admission::Over(_) => {}
        }
        Ok(admission)
    }

    /// What a caller is told whose key was used for another payload.
    pub(crate) fn mismatch(&self, parts: &Parts, arrival: &Arrival) -> Problem {
        let over = self.quotas.as_ref().and_then(|quotas| {
            let payer = quotas.payer(parts, arrival.slot().scope());
            self.count_mismatch(quotas, &payer, arrival)
        });
        over.map_or(Problem::KeyReused, |over| self.over(over))
    }

    /// What a caller is told that has taken what it may.
    pub(crate) fn over(&self, over: Over) -> Problem {
        let (route, limit) = (self.terms.policy.route.clone(), over.limit.name());
        counter!("onceward_quota_refusals_total", "route" => route, "limit" => limit).increment(1);
        Problem::OverQuota(Box::new(over))
    }

    /// Asks for the right to execute, of a caller that may not have it always.
    async fn admit_within(
        &self,
        quotas: &Arc<Quotas>,
        payer: &Subject,
        arrival: &Arrival,
    ) -> Result<Admission, Error> {
        let mut ticket = match quotas.take(payer, arrival, Nature::Unseen) {
            Ok(ticket) => ticket,
            Err(_) => {
                let nature = match self.engine.look(arrival).await? {
                    Sight::Verdict(verdict) => return Ok(Admission::Verdict(verdict)),
                    Sight::Held => return self.admit_held(quotas, payer, arrival).await,
                    Sight::New => Nature::New,
                    // The record is there already, and this is how it is settled.
                    Sight::Resumed => Nature::Resumed,
                };
                match quotas.take(payer, arrival, nature) {
                    Ok(ticket) => ticket,
                    Err(over) => return Ok(Admission::Over(over)),
                }
            }
        };
        match self.engine.admit_at_once(arrival).await? {
            Some(Verdict::Execute(claim)) => match ticket.confirm() {
                Ok(()) => Ok(Admission::Granted(claim, Some(Box::new(ticket)))),
                Err(over) => {
                    // A release that the store has not taken yet is repeated in the background.
                    let _ = claim.release().await;
                    Ok(Admission::Over(over))
                }
            },
            Some(verdict) => {
                if let Some(replay) = copy(&verdict) {
                    ticket.copied(replay);
                }
                Ok(Admission::Verdict(verdict))
            }
            None => {
                // Whoever waits takes nothing meanwhile.
                drop(ticket);
                self.admit_held(quotas, payer, arrival).await
            }
        }
    }

    /// Asks for what somebody else is at, and waits for it. If the slot becomes free meanwhile the
    /// caller has to have something left after all.
    async fn admit_held(
        &self,
        quotas: &Arc<Quotas>,
        payer: &Subject,
        arrival: &Arrival,
    ) -> Result<Admission, Error> {
        let claim = match self.engine.admit(arrival).await? {
            Verdict::Execute(claim) => claim,
            verdict => {
                // It is written already, so it is paid for as far as there is something left.
                if let Some(replay) = copy(&verdict)
                    && let Ok(ticket) = quotas.take(payer, arrival, Nature::Resumed)
                {
                    ticket.copied(replay);
                }
                return Ok(Admission::Verdict(verdict));
            }
        };
        let nature = match claim.attempt() {
            1 => Nature::New,
            _ => Nature::Resumed,
        };
        match quotas.take(payer, arrival, nature) {
            Ok(ticket) => Ok(Admission::Granted(claim, Some(Box::new(ticket)))),
            Err(over) => {
                // A release that the store has not taken yet is repeated in the background.
                let _ = claim.release().await;
                Ok(Admission::Over(over))
            }
        }
    }

    fn count_mismatch(&self, quotas: &Quotas, payer: &Subject, arrival: &Arrival) -> Option<Over> {
        let (over, noted) = quotas.mismatched(payer, arrival);
        self.note(arrival, noted.filter(|_| self.chooses_keys()));
        over
    }

    /// Whether callers choose their keys: those that are made of a request, or have to fit it, are
    /// nobody's habit.
    fn chooses_keys(&self) -> bool {
        self.terms.key != KeyNeed::Derived && self.terms.key_equals.is_none()
    }

    /// Counts a weak key, and tells the log if it is to be told.
    fn note(&self, arrival: &Arrival, noted: Option<(Weak, bool)>) {
        let Some((weak, tells)) = noted else {
            return;
        };
        let (route, kind) = (self.terms.policy.route.clone(), weak.name());
        counter!("onceward_weak_keys_total", "route" => route, "kind" => kind).increment(1);
        if tells {
            tracing::warn!(
                slot = ?arrival.id(),
                caller = self.digest_of(arrival.slot().scope()),
                route = &*self.terms.policy.route,
                kind,
                "the keys of a caller are weak: it should make a random one for each operation"
            );
        }
    }

    /// What the log calls a caller: eight digits of a keyed digest, as it calls slots.
    fn digest_of(&self, scope: &Scope) -> Option<String> {
        let scope = Scope::parse(scope.tenant(), "caller").ok()?;
        let slot = Slot::new(scope, Key::parse("caller").ok()?);
        let arrival = self.engine.prepared(&slot, &Fingerprint::of(b""))?;
        Some(format!("{:?}", arrival.id()))
    }
}

// === impl Admission ===

impl From<Verdict> for Admission {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Execute(claim) => Self::Granted(claim, None),
            verdict => Self::Verdict(verdict),
        }
    }
}

/// The answer of a twin that was just now written down under the arrival's own key, if that is the
/// verdict.
fn copy(verdict: &Verdict) -> Option<&Replay> {
    match verdict {
        Verdict::Replay(replay) => Some(replay).filter(|replay| replay.copied),
        _ => None,
    }
}
