//! The words of a script's line.

use std::{str::FromStr, sync::Arc};

use crate::history::{Answer, Class, Event, Fence, Verb};

/// The words of one side of a line, sorted.
#[derive(Default)]
pub(super) struct Words<'a> {
    pub(super) plain: Vec<&'a str>,
    slot: Option<(&'a str, &'a str)>,
    mark: Option<Fence>,
    pub(super) generation: Option<Fence>,
    pub(super) fence: Option<Fence>,
    pub(super) fingerprint: Option<&'a str>,
    body: Option<&'a str>,
    class: Option<Class>,
    refused: bool,
}

// === impl Words ===

impl<'a> Words<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let mut sorted = Self::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or_else(|| format!("`{word}` of what?"));
            match word {
                "as" => sorted.mark = Some(number(next()?)?),
                "of" => sorted.generation = Some(number(next()?)?),
                "fence" => sorted.fence = Some(number(next()?)?),
                "for" => sorted.fingerprint = Some(next()?),
                "body" => sorted.body = Some(next()?),
                "transactional" => sorted.class = Some(Class::Transactional),
                "keyed" => sorted.class = Some(Class::Keyed),
                "probed" => sorted.class = Some(Class::Probed),
                "at-least-once" => sorted.class = Some(Class::AtLeastOnce),
                "refused" if !sorted.plain.is_empty() => sorted.refused = true,
                _ => match word.strip_prefix('@').and_then(|slot| slot.split_once('/')) {
                    Some(slot) => sorted.slot = Some(slot),
                    None => sorted.plain.push(word),
                },
            }
        }
        Ok(sorted)
    }

    pub(super) fn slot(&self) -> (Arc<str>, Arc<str>) {
        let (tenant, key) = self.slot.unwrap_or(("t", "k"));
        (tenant.into(), key.into())
    }

    /// Writes what is asked into the line that begins an operation.
    pub(super) fn ask(&self, event: &mut Event) -> Result<(), String> {
        (event.mark, event.class) = (self.mark, self.class);
        (event.generation, event.fence) = (self.generation, self.fence);
        match (event.verb, &self.plain[..]) {
            (Verb::Claim, [fingerprint]) => {
                event.fingerprint = Some((*fingerprint).into());
                event.class = self.class.or(Some(Class::Opaque));
            }
            (Verb::Renew | Verb::Release | Verb::Abandon, [mark]) => {
                event.mark = Some(number(mark)?);
            }
            (Verb::Complete, [mark, hash]) => {
                event.mark = Some(number(mark)?);
                event.body_hash = Some((*hash).into());
                event.answer = self.refused.then_some(Answer::Refused);
            }
            (Verb::Resolve, ["open"]) => event.answer = Some(Answer::Open),
            (Verb::Resolve, ["completed", hash]) => {
                event.answer = Some(Answer::Completed);
                event.body_hash = Some((*hash).into());
            }
            (Verb::MsgAck, ["parked"]) => event.answer = Some(Answer::Parked),
            (Verb::Get | Verb::Sweep | Verb::MsgAck, []) => {}
            (verb, plain) => return Err(format!("nobody can {verb} `{}`", plain.join(" "))),
        }
        Ok(())
    }

    /// Writes what was answered into the line that ends an operation.
    pub(super) fn answer(&self, event: &mut Event) -> Result<(), String> {
        (event.mark, event.generation, event.fence) = (self.mark, self.generation, self.fence);
        event.body = self.body.map(Arc::from);
        let (answer, detail) = match self.plain[..] {
            [] => return Ok(()),
            [answer] => (answer, None),
            [answer, detail] => (answer, Some(detail)),
            _ => return Err(format!("nobody answers `{}`", self.plain.join(" "))),
        };
        let answer = answer_of(answer)?;
        event.answer = Some(answer);
        match (answer, detail) {
            (_, None) => {}
            (Answer::Replayed | Answer::Completed | Answer::Refused, Some(hash)) => {
                event.body_hash = Some(hash.into());
            }
            (_, Some(mark)) => event.mark = Some(number(mark)?),
        }
        Ok(())
    }
}

fn answer_of(text: &str) -> Result<Answer, String> {
    // The words are those of the file format, so that each is spelled in one place.
    serde_json::from_value(text.into()).map_err(|_| format!("`{text}` is not an answer"))
}

/// Reads a number: times are decimal, fences hexadecimal.
pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number"))
}
