//! Scripts: histories in a few words, for tests and for seeds that once failed.

mod words;

use std::sync::Arc;

use self::words::{Words, number};
use super::{Answer, Event, FinalRead, History, Kind, LedgerRow, ReadError, Verb};

/// When an operation was asked and how it ended.
struct Times {
    from: u64,
    end: Option<(Kind, u64)>,
}

// === impl History ===

impl History {
    /// Returns the history that a script describes.
    ///
    /// One line per operation. Times come first: `1-2` is asked at 1 and answered at 2, `1-2!` failed
    /// without effect, `1-` was never answered and `1-2?` was given up. A single time is a witness.
    ///
    /// ```text
    /// 1-2   claim pay keyed -> granted 1      fingerprint, class (default opaque), mark
    /// 3-4   claim pay keyed -> granted 3 of 1 a take-over: mark 3, generation 1
    /// 5-    claim pay as 5                    a claim whose mark is known though it was not answered
    /// 6-7   renew 3
    /// 6-7   complete 3 receipt                the hash of the answer; `refused` when nothing happened
    /// 6-7!  complete 1 other -> replayed receipt
    /// 6-7   release 3                         or `-> unknown`
    /// 6-7   abandon 3
    /// 6-7   resolve open                      or `completed receipt`; `probed` when a probe said so
    /// 6-7   get -> claimed 3 of 1             absent, completed HASH, unknown MARK, open
    /// 6-7   sweep -> absent
    /// 6-7   ack                               or `ack parked`
    /// 5     effect 3 receipt                  mark, hash; `of` generation, `for` fingerprint
    /// 9     end completed receipt of 1        the last read
    /// fault crash 2
    /// expect retention 100
    /// ```
    ///
    /// Any line may say `@tenant/key` (else `t/k`), `fence N` and `body TEXT`; numbers of marks are
    /// hexadecimal. What follows `#` is a remark.
    pub fn script(text: &str) -> Result<Self, ReadError> {
        let mut history = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                history
                    .say(at as u64 + 1, line)
                    .map_err(|reason| ReadError::Line {
                        line: at + 1,
                        reason,
                    })?;
            }
        }
        // Lines stand in the order that reads best; the log is in the order of time.
        history.events.sort_by_key(|event| event.mono_ns);
        Ok(history)
    }

    fn say(&mut self, op_id: u64, line: &str) -> Result<(), String> {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match first {
            "expect" => return self.say_expectation(rest),
            "fault" => {
                let [kind, count] = words(rest)?;
                *self.faults.entry(kind.to_owned()).or_default() += number::<u64>(count)?;
                return Ok(());
            }
            _ => {}
        }
        let (verb, rest) = rest
            .trim()
            .split_once(char::is_whitespace)
            .unwrap_or((rest.trim(), ""));
        match verb {
            "effect" => self.ledger.push(effect(number(first)?, rest)?),
            "end" => self.finals.push(last_read(number(first)?, rest)?),
            _ => self.events.extend(operation(
                op_id,
                &Times::parse(first)?,
                verb_of(verb)?,
                rest,
            )?),
        }
        Ok(())
    }

    fn say_expectation(&mut self, text: &str) -> Result<(), String> {
        let expect = &mut self.expectations;
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["retention", ns] => expect.retention_ns = Some(number(ns)?),
            ["unknown-retention", ns] => expect.unknown_retention_ns = Some(number(ns)?),
            ["slack", ns] => expect.slack_ns = number(ns)?,
            ["black-box"] => expect.black_box = true,
            ["fault-free"] => expect.fault_free = true,
            ["successes", min] => expect.successes_min = number(min)?,
            ["faults", kind, min] => {
                expect.faults_min.insert(kind.to_owned(), number(min)?);
            }
            ["canary", tenant, secret] => {
                expect.canaries.insert(tenant.to_owned(), secret.to_owned());
            }
            ["total", tenant, what, count] => {
                let totals = expect.totals.entry(tenant.to_owned()).or_default();
                let place = match what {
                    "grants" => &mut totals.grants,
                    "take-overs" => &mut totals.take_overs,
                    "completed" => &mut totals.completed,
                    "released" => &mut totals.released,
                    "unknown" => &mut totals.unknown,
                    "claimed" => &mut totals.claimed,
                    _ => return Err(format!("no total is called `{what}`")),
                };
                *place = number(count)?;
            }
            _ => return Err(format!("nobody can expect `{text}`")),
        }
        Ok(())
    }
}

fn operation(op_id: u64, times: &Times, verb: Verb, rest: &str) -> Result<Vec<Event>, String> {
    let (asked, answered) = rest.split_once("->").unwrap_or((rest, ""));
    let asked = Words::parse(asked)?;
    let answered = Words::parse(answered)?;
    let (tenant, key) = asked.slot();
    let mut invoke = Event {
        mono_ns: times.from,
        op_id,
        ..Event::invoke(verb, &tenant, &key)
    };
    asked.ask(&mut invoke)?;
    let Some((kind, at)) = times.end else {
        return Ok(vec![invoke]);
    };
    let mut end = invoke.ended(kind, at);
    answered.answer(&mut end)?;
    if end.answer == Some(Answer::Granted) {
        // A claim that took nothing over begins its own generation, and its mark is its fence.
        end.generation = end.generation.or(end.mark);
        end.fence = end.fence.or(end.mark);
    }
    if verb == Verb::Release && kind == Kind::Ok {
        end.answer = end.answer.or(Some(Answer::Absent));
    }
    Ok(vec![invoke, end])
}

fn effect(t: u64, rest: &str) -> Result<LedgerRow, String> {
    let words = Words::parse(rest)?;
    let (tenant, key) = words.slot();
    let [mark, hash] = words.plain[..] else {
        return Err("an effect has a mark and a hash".to_owned());
    };
    Ok(LedgerRow {
        tenant,
        key,
        mark: if mark == "-" {
            None
        } else {
            Some(number(mark)?)
        },
        fence: words.fence,
        fingerprint: words.fingerprint.map(Arc::from),
        generation: words.generation,
        resp_hash: Some(hash.into()),
        t,
    })
}

fn last_read(mono_ns: u64, rest: &str) -> Result<FinalRead, String> {
    let words = Words::parse(rest)?;
    let (tenant, key) = words.slot();
    let mut seen = Event::default();
    words.answer(&mut seen)?;
    let Some(state) = seen.answer.and_then(Answer::state) else {
        return Err(format!("`{rest}` is not the state of a slot"));
    };
    let Event {
        body_hash,
        mark,
        generation,
        ..
    } = seen;
    Ok(FinalRead {
        mono_ns,
        tenant,
        key,
        state,
        body_hash,
        mark,
        generation,
    })
}

// === impl Times ===

impl Times {
    fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text
            .split_once('-')
            .ok_or_else(|| format!("`{text}` is not a time"))?;
        let from = number(from)?;
        let end = match to.strip_suffix('!').map(|to| (Kind::Fail, to)) {
            _ if to.is_empty() => None,
            Some((kind, to)) => Some((kind, number(to)?)),
            None => match to.strip_suffix('?') {
                Some(to) => Some((Kind::Info, number(to)?)),
                None => Some((Kind::Ok, number(to)?)),
            },
        };
        Ok(Self { from, end })
    }
}

fn verb_of(text: &str) -> Result<Verb, String> {
    Ok(match text {
        "claim" => Verb::Claim,
        "renew" => Verb::Renew,
        "complete" => Verb::Complete,
        "release" => Verb::Release,
        "abandon" => Verb::Abandon,
        "resolve" => Verb::Resolve,
        "get" => Verb::Get,
        "sweep" => Verb::Sweep,
        "ack" => Verb::MsgAck,
        _ => return Err(format!("`{text}` is not a verb")),
    })
}

fn words<const N: usize>(text: &str) -> Result<[&str; N], String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .try_into()
        .map_err(|_| format!("`{text}` should be {N} words"))
}
