//! Orders: what must hold of work that bears a business identity, whatever its keys.
//!
//! The rules of [`check()`](super::check()) look at one slot at a time. These look at all slots
//! whose work is for the same thing: one success while its record is kept, and one answer.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{Answer, Event, Fence, History, Kind, LedgerRow, Verb};

/// A business identity, or several that always come together.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// What to call it in a complaint.
    pub name: String,
    /// The work for it: slots, each with the payload that is brought for this order.
    pub works: BTreeSet<(Arc<str>, Arc<str>)>,
    /// The answers to which callers were referred who were refused.
    pub referred: Vec<Arc<str>>,
}

/// What a history says of its claims.
struct Book<'a> {
    history: &'a History,
    /// The claims, by their marks: when each was asked for, with which payload, and the generation
    /// of its slot.
    claims: HashMap<Fence, (&'a Event, Fence)>,
    /// The writes of outcomes that happened, for all that is known: asked, and done at the latest.
    stored: Vec<(&'a Event, u64)>,
    /// What callers were told, and what they had asked.
    told: Vec<(&'a Event, &'a Event)>,
}

/// An effect, and the generation of its slot that it belongs to.
struct Effect<'a> {
    row: &'a LedgerRow,
    generation: Fence,
    /// When its outcome was first asked to be stored.
    stored: Option<u64>,
}

/// Returns what is wrong with the orders of a history.
pub fn check_orders(history: &History, orders: &[Order]) -> Vec<String> {
    if orders.is_empty() {
        return Vec::new();
    }
    let book = Book::read(history);
    let wrong = orders.iter().flat_map(|order| {
        let effects = book.effects(order);
        let mut wrong = book.charged_twice(&effects);
        wrong.extend(book.answered_otherwise(order, &effects));
        wrong.extend(book.copied_late(order, &effects));
        let name = &order.name;
        wrong
            .into_iter()
            .map(move |what| format!("order {name}: {what}"))
    });
    wrong.collect()
}

// === impl Order ===

impl Order {
    /// An order that all work of a history is for.
    pub fn of_all(history: &History) -> Self {
        let works = history.events.iter().filter_map(|event| {
            let payload = event.fingerprint.clone()?;
            Some((event.key.clone(), payload))
        });
        Self {
            name: "of all keys".to_owned(),
            works: works.collect(),
            referred: Vec::new(),
        }
    }

    fn has(&self, key: &Arc<str>, payload: Option<&Arc<str>>) -> bool {
        payload.is_some_and(|payload| self.works.contains(&(key.clone(), payload.clone())))
    }
}

// === impl Book ===

impl<'a> Book<'a> {
    fn read(history: &'a History) -> Self {
        let mut book = Self {
            history,
            claims: HashMap::new(),
            stored: Vec::new(),
            told: Vec::new(),
        };
        let mut asked: HashMap<(u32, u64), &Event> = HashMap::new();
        for event in &history.events {
            let operation = (event.proc, event.op_id);
            if event.kind == Kind::Invoke {
                asked.insert(operation, event);
                book.claimed(event, event);
                continue;
            }
            let Some(begun) = asked.remove(&operation) else {
                continue;
            };
            book.claimed(begun, event);
            if begun.may_store() && event.kind != Kind::Fail {
                book.stored.push((begun, event.mono_ns));
            }
            if event.verb == Verb::Claim && event.answer == Some(Answer::Replayed) {
                book.told.push((begun, event));
            }
        }
        // What was never answered may have happened.
        let open = asked.into_values().filter(|event| event.may_store());
        book.stored.extend(open.map(|event| (event, u64::MAX)));
        book
    }

    /// Notes a claim, as far as one of its lines tells its mark.
    fn claimed(&mut self, asked: &'a Event, line: &Event) {
        if let (Verb::Claim, Some(mark)) = (line.verb, line.mark) {
            let generation = line.generation.unwrap_or(mark);
            self.claims.insert(mark, (asked, generation));
        }
    }

    /// The generation that an outcome was stored for.
    fn generation(&self, stored: &Event) -> Option<Fence> {
        let claim = || Some(self.claims.get(&stored.mark?)?.1);
        stored.generation.or_else(claim)
    }

    /// The effects of an order, in the order of time.
    fn effects(&self, order: &Order) -> Vec<Effect<'a>> {
        let rows = self.history.ledger.iter();
        let own = rows.filter(|row| order.has(&row.key, row.fingerprint.as_ref()));
        let mut effects: Vec<_> = own
            .filter_map(|row| {
                let (_, generation) = *self.claims.get(&row.mark?)?;
                let stored = self.stored.iter().map(|(asked, _)| *asked);
                let stored = stored.filter(|asked| self.generation(asked) == Some(generation));
                Some(Effect {
                    row,
                    generation,
                    stored: stored.map(|asked| asked.mono_ns).min(),
                })
            })
            .collect();
        effects.sort_by_key(|effect| effect.row.t);
        effects
    }

    /// Finds two successes of which the first was kept when the second happened.
    fn charged_twice(&self, effects: &[Effect<'_>]) -> Vec<String> {
        let expect = &self.history.expectations;
        let kept_until = |effect: &Effect<'_>| {
            let stored = effect.stored?.saturating_add(expect.retention_ns?);
            Some(stored.saturating_sub(expect.slack_ns))
        };
        let mut wrong = Vec::new();
        for (at, second) in effects.iter().enumerate() {
            let first = effects[..at].iter().find(|first| {
                let other =
                    first.generation != second.generation || first.row.key != second.row.key;
                other && kept_until(first).is_none_or(|until| second.row.t < until)
            });
            if let Some(first) = first {
                let (one, other) = (&first.row.key, &second.row.key);
                let (first, second) = (first.row, second.row);
                wrong.push(format!(
                    "charged twice, by the {first} under {one} and the {second} under {other}"
                ));
            }
        }
        wrong
    }

    /// Finds answers that are not those of a success of the order, nor of the key's own work.
    fn answered_otherwise(&self, order: &Order, effects: &[Effect<'_>]) -> Vec<String> {
        let is_success = |answer: &str| {
            let mut receipts = effects.iter().filter_map(|it| it.row.resp_hash.as_deref());
            receipts.any(|receipt| receipt == answer)
        };
        let told = self.told.iter().filter_map(|(asked, told)| {
            let answer = told.body_hash.as_deref()?;
            let own = answer.starts_with(&*asked.key);
            let due = order.has(&asked.key, asked.fingerprint.as_ref()) && !own;
            (due && !is_success(answer)).then(|| {
                let key = &asked.key;
                format!("a caller of {key} was told `{answer}`, which is of other work")
            })
        });
        let referred = order.referred.iter();
        let referred = referred.filter(|answer| !is_success(answer));
        let referred = referred.map(|answer| format!("a caller was referred to `{answer}`"));
        told.chain(referred).collect()
    }

    /// Finds answers that a key took over from a twin when another success had come after it.
    fn copied_late(&self, order: &Order, effects: &[Effect<'_>]) -> Vec<String> {
        let copies = self.stored.iter().filter_map(|(asked, _)| {
            let (claim, _) = self.claims.get(&asked.mark?)?;
            let is_copy = asked.answer == Some(Answer::Copied);
            let own = is_copy && order.has(&asked.key, claim.fingerprint.as_ref());
            own.then_some((*asked, claim.mono_ns))
        });
        let wrong = copies.filter_map(|(copy, claimed)| {
            let stored_before = |effect: &&Effect<'_>| {
                let own = |asked: &Event| self.generation(asked) == Some(effect.generation);
                let mut writes = self.stored.iter();
                writes.any(|(asked, done)| own(asked) && *done < claimed)
            };
            let last = effects.iter().rev().find(stored_before)?;
            let (answer, right) = (copy.body_hash.as_ref()?, last.row.resp_hash.as_ref()?);
            let known = effects
                .iter()
                .find(|effect| effect.row.resp_hash.as_ref() == Some(answer))?;
            let key = &copy.key;
            (known.row.t < last.row.t)
                .then(|| format!("{key} took `{answer}` over after `{right}` was stored"))
        });
        wrong.collect()
    }
}

// === impl Event ===

impl Event {
    /// Whether it asks for an outcome to be stored.
    fn may_store(&self) -> bool {
        match self.verb {
            Verb::Complete => true,
            Verb::Resolve => self.answer == Some(Answer::Completed),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a history in which both keys are for one order.
    fn wrong(script: &str) -> String {
        let mut history = History::script(script).unwrap();
        // The second key never has work of its own done in these.
        for event in &mut history.events {
            if event.verb == Verb::Complete && event.body_hash.as_deref() == Some("a-0") {
                let copied = (&*event.key == "b").then_some(Answer::Copied);
                event.answer = event.answer.or(copied);
            }
        }
        let of = |key: &str| (key.into(), "pay".into());
        let order = Order {
            name: "1001".to_owned(),
            works: BTreeSet::from([of("a"), of("b")]),
            referred: Vec::new(),
        };
        check_orders(&history, &[order]).join("; ")
    }

    #[test]
    fn one_success_that_every_key_repeats_is_right() {
        let said = wrong(
            "1-2  claim pay @t/a -> granted 1
             3    effect 1 a-0 for pay           @t/a
             4-5  complete 1 a-0                 @t/a
             6-7  claim pay @t/b -> granted 6
             8-9  complete 6 a-0                 @t/b
             6-9  claim pay @t/b -> replayed a-0",
        );
        assert_eq!(said, "");
    }

    #[test]
    fn two_successes_are_wrong_while_the_first_is_kept() {
        let twice = "1-2  claim pay @t/a -> granted 1
             3    effect 1 a-0 for pay               @t/a
             4-5  complete 1 a-0                     @t/a
             106-107  claim pay @t/b -> granted 6
             108  effect 6 b-0 for pay               @t/b\n";
        let said = wrong(&format!("{twice} expect retention 200"));
        assert!(said.contains("charged twice"), "{said}");
        let said = wrong(&format!("{twice} expect retention 100"));
        assert_eq!(said, "");
        // Nothing says that a record without an end is ever forgotten.
        let said = wrong(&twice.replace("4-5  complete 1 a-0", "4-5  abandon 1"));
        assert!(said.contains("charged twice"), "{said}");
    }

    #[test]
    fn the_answer_of_other_work_is_wrong() {
        let said = wrong(
            "1-2  claim ship @t/a -> granted 1
             3    effect 1 a-0 for ship          @t/a
             4-5  complete 1 a-0                 @t/a
             6-7  claim pay @t/b -> replayed a-0",
        );
        assert!(said.contains("which is of other work"), "{said}");
    }

    #[test]
    fn an_answer_is_not_taken_over_once_another_success_is_stored() {
        let said = wrong(
            "1-2  claim pay @t/a -> granted 1
             3    effect 1 a-0 for pay           @t/a
             4-5  complete 1 a-0                 @t/a
             106-107  claim pay @t/a -> granted 6
             108  effect 6 a-1 for pay           @t/a
             109-110  complete 6 a-1             @t/a
             111-112  claim pay @t/b -> granted 7
             113-114  complete 7 a-0             @t/b
             expect retention 50",
        );
        assert!(said.contains("took `a-0` over after `a-1`"), "{said}");
    }
}
