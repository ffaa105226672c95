//! Generations: the lives of a slot, each bounded by what is certain about it.
//!
//! A generation begins with a claim in an empty slot, is inherited by take-overs, and ends when
//! its record is released, opened or expires. Operations are intervals, so its bounds are too:
//! between `begun`, when it has surely started, and `gone`, before which it cannot have ended, it
//! surely owns the slot. All that the checks conclude rests on these sure spans: what might be
//! excused by an operation nobody knows the end of is not held against anyone.

use super::{Class, Expectations, Fence, LedgerRow, Verb, op::Op};

/// One life of a slot.
#[derive(Debug, Default)]
pub(super) struct Generation<'a> {
    pub(super) id: Fence,

    /// Its claims, those nobody knows the end of included if they were seen at work.
    pub(super) claims: Vec<&'a Op<'a>>,

    /// Its claims that were granted, in the order of their marks. Each took over the one before.
    pub(super) grants: Vec<&'a Op<'a>>,

    /// The first instant at which it can have begun.
    pub(super) asked: u64,

    /// The first instant at which it has surely begun.
    pub(super) begun: u64,

    /// The first operation after which it is surely completed.
    pub(super) terminal: Option<&'a Op<'a>>,

    /// The first instant at which it can have ended.
    pub(super) gone: u64,

    /// The first instant at which a later generation has surely begun.
    pub(super) superseded: u64,

    /// Operations by which it learned or was given an outcome.
    pub(super) answers: Vec<&'a Op<'a>>,

    /// Operations that wrote its outcome, or may have.
    pub(super) completions: Vec<&'a Op<'a>>,

    /// Releases that emptied its slot, or may have.
    pub(super) releases: Vec<&'a Op<'a>>,

    /// Resolves that settled it as not executed, or may have.
    pub(super) opens: Vec<&'a Op<'a>>,

    /// Its effects, in the order they were accepted.
    pub(super) effects: Vec<&'a LedgerRow>,
}

// === impl Generation ===

impl<'a> Generation<'a> {
    pub(super) fn new(id: Fence) -> Self {
        Self {
            id,
            begun: u64::MAX,
            gone: u64::MAX,
            superseded: u64::MAX,
            ..Self::default()
        }
    }

    /// Whether every claim of it is known to be of this class.
    pub(super) fn is(&self, class: Class) -> bool {
        !self.claims.is_empty() && self.claims.iter().all(|op| op.class() == Some(class))
    }

    /// Whether nothing speaks against its being of this class.
    pub(super) fn may_be(&self, class: Class) -> bool {
        !self.claims.is_empty() && self.claims.iter().all(|op| op.may_be(class))
    }

    /// Whether the service behind deduplicates its effects on the key.
    pub(super) fn is_keyed(&self) -> bool {
        self.claims.iter().any(|op| op.may_be(Class::Keyed))
    }

    /// Returns the fingerprint that it is bound to.
    pub(super) fn fingerprint(&self) -> Option<&'a str> {
        let granted = self
            .grants
            .first()
            .or(self.claims.first())
            .and_then(|op| op.fingerprint());
        let executed = || {
            self.effects
                .iter()
                .find_map(|row| row.fingerprint.as_deref())
        };
        let answered = || self.answers.iter().find_map(|op| op.fingerprint());
        granted.or_else(executed).or_else(answered)
    }

    /// Whether it surely owns the slot during all of an operation, or of a last read.
    pub(super) fn owns(&self, from: u64, to: u64) -> bool {
        self.begun < from && to < self.gone
    }

    /// Whether it is surely completed during all of it.
    pub(super) fn is_completed_during(&self, from: u64, to: u64) -> bool {
        self.terminal.is_some_and(|op| op.to() < from) && to < self.gone
    }

    /// Notes that its record was there at an instant.
    pub(super) fn seen(&mut self, at: u64) {
        self.begun = self.begun.min(at);
    }

    /// Notes one of its operations.
    pub(super) fn add(&mut self, op: &'a Op<'a>) {
        if op.is_grant() {
            self.grants.push(op);
        }
        if op.may_be_grant() {
            self.claims.push(op);
        }
        if op.is_terminal() {
            self.answers.push(op);
        }
        self.add_end(op);
    }

    /// Notes an operation that may have completed or ended it.
    pub(super) fn add_end(&mut self, op: &'a Op<'a>) {
        if op.may_complete() {
            self.completions.push(op);
        }
        match op.verb() {
            Verb::Release if op.may_vacate() => self.releases.push(op),
            Verb::Resolve if op.may_vacate() => self.opens.push(op),
            _ => {}
        }
    }

    /// Works out its bounds, once all its operations are known.
    pub(super) fn settle(&mut self, expect: &Expectations) {
        self.grants.sort_by_key(|op| op.mark());
        let asked = self.claims.iter().map(|op| op.since());
        // From outside nobody can tell which of the callers began it: whoever was answered may
        // have, and who was told nothing may have come later.
        let outside = expect.black_box.then(|| {
            let answered = self.answers.iter().map(|op| op.since());
            answered.chain(self.effects.iter().map(|row| row.t))
        });
        self.asked = asked
            .chain(outside.into_iter().flatten())
            .min()
            .unwrap_or(0);
        // What was over before the first claim was asked for, and does not say whose it is, was
        // about a generation that nothing else tells of.
        let asked = self.asked;
        let own =
            |op: &&Op<'_>| op.to() >= asked || op.generation().is_some() || op.mark().is_some();
        self.opens.retain(own);
        self.answers.retain(own);
        if self.grants.is_empty() {
            // A claim that nobody saw granted was granted before anything was done under it.
            let worked = self.effects.iter().map(|row| row.t);
            let answered = self.answers.iter().map(|op| op.to());
            self.begun = worked.chain(answered).fold(self.begun, u64::min);
        }
        self.terminal = self.answers.iter().min_by_key(|op| op.to()).copied();
        self.gone = self.first_end(expect);
    }

    /// Returns the first instant at which it can have ended.
    fn first_end(&self, expect: &Expectations) -> u64 {
        let kept = |since: u64, ns: u64| since.saturating_add(ns).saturating_sub(expect.slack_ns);
        let completed = self.completions.iter().map(|op| op.from()).min();
        let completed = completed.or(self.terminal.map(|_| self.asked));
        let expired = completed
            .zip(expect.retention_ns)
            .map(|(since, ns)| kept(since, ns));
        if let Some(terminal) = self.terminal {
            // What has an outcome was not given up before, and cannot be after. Where a release and
            // a completion both succeeded, C6 says so, and either is an end.
            let both = terminal.verb() == Verb::Complete;
            let ends = |op: &&&Op<'_>| op.is_ok() && (both || op.to() >= terminal.from());
            let released = self.releases.iter().filter(ends).map(|op| op.from());
            return released.chain(expired).min().unwrap_or(u64::MAX);
        }
        let given_up = self.releases.iter().chain(&self.opens).map(|op| op.from());
        let forgotten = expect.unknown_retention_ns.map(|ns| kept(self.asked, ns));
        // Nothing has happened before a transactional claim completes, so it needs no end.
        let lapsed = self.may_be(Class::Transactional).then_some(self.asked);
        given_up
            .chain(expired)
            .chain(forgotten)
            .chain(lapsed)
            .min()
            .unwrap_or(u64::MAX)
    }
}
