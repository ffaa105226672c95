//! Operations: an event that asks, and the one that tells what came of it.

use std::fmt;

use super::{Answer, Class, Event, Fence, Kind, Verb};

/// One operation: what was asked, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op<'a> {
    asked: &'a Event,
    ended: Option<&'a Event>,
    /// The mark of an unanswered claim that did not know it, told by what was done under it.
    lent: Option<Fence>,
    /// What the mark does not tell, because it may be another claim's.
    doubt: Doubt,
}

/// What is not certain about a claim whose mark may be another's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// When the first that it may be was asked for.
    pub(super) since: Option<u64>,
    pub(super) payload: bool,
    pub(super) class: bool,
}

// === impl Op ===

impl<'a> Op<'a> {
    pub(super) fn new(asked: &'a Event) -> Self {
        Self {
            asked,
            ended: None,
            lent: None,
            doubt: Doubt::default(),
        }
    }

    pub(super) fn end(&mut self, event: &'a Event) -> Result<(), String> {
        if self.ended.is_some() {
            return Err(format!("{self} ends twice"));
        }
        if event.verb != self.asked.verb || event.mono_ns < self.asked.mono_ns {
            return Err(format!("{self} ends as another, or before it began"));
        }
        self.ended = Some(event);
        Ok(())
    }

    /// Tells it the mark that was found to be its own.
    pub(super) fn lend(&mut self, mark: Fence, doubt: Doubt) {
        self.lent = Some(mark);
        self.doubt = doubt;
    }

    /// Whether it is an unanswered claim that nothing gives a mark to.
    pub(super) fn is_nameless_claim(&self) -> bool {
        self.verb() == Verb::Claim && self.is_info() && self.mark().is_none()
    }

    /// Whether two claims ask for the same.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.told_fingerprint() == other.told_fingerprint()
            && self.told_class() == other.told_class()
    }

    pub(super) fn verb(&self) -> Verb {
        self.asked.verb
    }

    /// When it was asked: it did not happen before.
    pub(super) fn from(&self) -> u64 {
        self.asked.mono_ns
    }

    /// When it was asked, or another claim whose mark it may have.
    pub(super) fn since(&self) -> u64 {
        self.doubt.since.unwrap_or(self.from())
    }

    /// When it was answered: it does not happen later. The end of time if nobody knows.
    pub(super) fn to(&self) -> u64 {
        match self.ended {
            Some(event) if event.kind != Kind::Info => event.mono_ns,
            _ => u64::MAX,
        }
    }

    fn ended_as(&self, kind: Kind) -> bool {
        self.ended.is_some_and(|event| event.kind == kind)
    }

    /// Whether it surely happened.
    pub(super) fn is_ok(&self) -> bool {
        self.ended_as(Kind::Ok)
    }

    /// Whether it surely did not happen.
    pub(super) fn is_fail(&self) -> bool {
        self.ended_as(Kind::Fail)
    }

    /// Whether nobody knows if it happened.
    pub(super) fn is_info(&self) -> bool {
        !self.is_ok() && !self.is_fail()
    }

    /// Whether it is a claim that was granted.
    pub(super) fn is_grant(&self) -> bool {
        self.verb() == Verb::Claim && self.is_ok() && self.answer() == Some(Answer::Granted)
    }

    /// Whether it is a claim that was granted or, for all that is known, may have been.
    pub(super) fn may_be_grant(&self) -> bool {
        self.is_grant() || self.verb() == Verb::Claim && self.is_info()
    }

    /// Whether its caller learned, or made sure, that the slot is completed.
    pub(super) fn is_terminal(&self) -> bool {
        match (self.verb(), self.answer()) {
            (Verb::Complete, Some(Answer::Replayed)) => !self.is_info(),
            (Verb::Complete, _) => self.is_ok(),
            (Verb::Claim, Some(Answer::Replayed | Answer::Refused)) => self.is_ok(),
            (Verb::Get | Verb::Sweep | Verb::Resolve, Some(Answer::Completed)) => self.is_ok(),
            _ => false,
        }
    }

    /// Whether it may have written an outcome.
    pub(super) fn may_complete(&self) -> bool {
        match self.verb() {
            Verb::Complete => !self.is_fail(),
            Verb::Resolve => !self.is_fail() && self.answer() == Some(Answer::Completed),
            _ => false,
        }
    }

    /// Whether it may have emptied the slot, or opened it to the next claim.
    pub(super) fn may_vacate(&self) -> bool {
        match self.verb() {
            Verb::Release => !self.is_fail() && self.answer() != Some(Answer::Unknown),
            Verb::Resolve => !self.is_fail() && self.answer() != Some(Answer::Completed),
            _ => false,
        }
    }

    /// Whether its caller learned that the outcome of the work is unknown.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.is_ok() && (self.verb() == Verb::Abandon || self.answer() == Some(Answer::Unknown))
    }

    /// What it answered; what it was to write, if the answer does not say.
    pub(super) fn answer(&self) -> Option<Answer> {
        self.field(|event| event.answer)
    }

    pub(super) fn mark(&self) -> Option<Fence> {
        self.told_mark().or(self.lent)
    }

    /// The mark that its own lines tell.
    pub(super) fn told_mark(&self) -> Option<Fence> {
        self.field(|event| event.mark)
    }

    pub(super) fn generation(&self) -> Option<Fence> {
        self.field(|event| event.generation)
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        self.field(|event| event.fence)
    }

    pub(super) fn class(&self) -> Option<Class> {
        self.told_class().filter(|_| !self.doubt.class)
    }

    /// The class that its own lines tell.
    pub(super) fn told_class(&self) -> Option<Class> {
        self.field(|event| event.class)
    }

    /// Whether nothing speaks against its being of this class.
    pub(super) fn may_be(&self, class: Class) -> bool {
        self.doubt.class || self.class() == Some(class)
    }

    pub(super) fn fingerprint(&self) -> Option<&'a str> {
        self.told_fingerprint().filter(|_| !self.doubt.payload)
    }

    /// The fingerprint that its own lines tell.
    pub(super) fn told_fingerprint(&self) -> Option<&'a str> {
        let end = self.ended.and_then(|event| event.fingerprint.as_deref());
        end.or(self.asked.fingerprint.as_deref())
    }

    /// The hash of the outcome it wrote or was given.
    pub(super) fn hash(&self) -> Option<&'a str> {
        let end = self.ended.and_then(|event| event.body_hash.as_deref());
        // What a failed completion meant to write is nobody's answer.
        end.or_else(|| self.asked.body_hash.as_deref().filter(|_| !self.is_fail()))
    }

    fn field<T>(&self, of: impl Fn(&Event) -> Option<T>) -> Option<T> {
        self.ended.and_then(&of).or_else(|| of(self.asked))
    }
}

impl fmt::Display for Op<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event {
            proc,
            op_id,
            verb,
            mono_ns,
            ..
        } = self.asked;
        write!(f, "{verb}")?;
        if let Some(mark) = self.mark() {
            write!(f, " of {mark}")?;
        }
        write!(f, " (process {proc}, op {op_id}, at {mono_ns}..")?;
        match self.ended {
            Some(event) if event.kind != Kind::Info => write!(f, "{})", event.mono_ns),
            _ => write!(f, ")"),
        }
    }
}
