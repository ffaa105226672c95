//! Batches: what is sent at once, with as few runs of scripts as will do.

use redis::{Arg, Cmd, Pipeline, Value};

use super::ask::{Ask, Times};
use super::script::Many;

/// A command on its way, and those whom its answer is for.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) asks: Vec<Ask>,
    /// What each of them has, if one run of a script does them all.
    many: Option<Many>,
}

/// What comes before the answers of a run that did many calls.
const HEAD: usize = 2;

/// How many calls one run of a script does at the most: nothing else happens on the server
/// meanwhile.
const TOGETHER_MAX: usize = 32;

/// How long the commands of one run may be together, in bytes.
const BYTES_MAX: usize = 64 * 1024;

/// Puts calls of one script together. Those of a cluster stay apart: their keys are not on one
/// server, or will not be.
pub(super) fn gather(batch: Vec<Ask>, is_cluster: bool) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::with_capacity(batch.len());
    // The run that still takes calls, and how long its commands are.
    let mut open: Option<(usize, usize)> = None;
    for ask in batch {
        let many = ask.script.as_ref().and_then(|script| script.many);
        let len = ask.len();
        if many.is_some()
            && !is_cluster
            && let Some((at, bytes)) = open
            && bytes + len <= BYTES_MAX
            && calls[at].takes(&ask)
        {
            calls[at].asks.push(ask);
            open = Some((at, bytes + len));
            continue;
        }
        if many.is_some() {
            open = Some((calls.len(), len));
        }
        calls.push(Call {
            asks: vec![ask],
            many,
        });
    }
    calls
}

// === impl Call ===

impl Call {
    /// Whether one run can do this as well.
    fn takes(&self, ask: &Ask) -> bool {
        let of = |ask: &Ask| ask.script.as_ref().map(std::sync::Arc::as_ptr);
        self.asks.len() < TOGETHER_MAX && of(&self.asks[0]) == of(ask)
    }

    /// Adds the command to those that are sent.
    pub(super) fn add_to(&self, pipeline: &mut Pipeline) {
        if self.asks[0].is_asking {
            pipeline.cmd("ASKING");
        }
        match self.many {
            Some(many) if self.asks.len() > 1 => pipeline.add_command(self.together(many)),
            _ => pipeline.add_command(self.asks[0].command.clone()),
        };
    }

    /// One command for all: all keys, the arguments that all share, then those of each.
    fn together(&self, many: Many) -> Cmd {
        let each = many.keys + many.arguments;
        let bytes = self.asks.iter().map(Ask::len).sum();
        let parts_max = 3 + many.shared + each * self.asks.len();
        let mut command = Cmd::with_capacity(parts_max, bytes);
        let first = &self.asks[0].command;
        // Not the last one: that may be one which is sent again.
        let latest = self.asks.iter().max_by_key(|ask| ask.deadline);
        let latest = latest.map_or(first, |ask| &ask.command);
        for part in parts(first, 0, 2) {
            command.arg(part);
        }
        command.arg(many.keys * self.asks.len());
        for ask in &self.asks {
            for part in parts(&ask.command, 3, many.keys) {
                command.arg(part);
            }
        }
        for part in parts(latest, 3 + many.keys, many.shared) {
            command.arg(part);
        }
        for ask in &self.asks {
            for part in parts(&ask.command, 3 + many.keys + many.shared, many.arguments) {
                command.arg(part);
            }
        }
        command
    }

    /// Takes the answer from those that came, and gives everybody its own.
    pub(super) fn answered(
        self,
        values: &mut impl Iterator<Item = Value>,
    ) -> impl Iterator<Item = (Ask, Value, Option<Times>)> {
        if self.asks[0].is_asking {
            values.next();
        }
        let value = values.next().unwrap_or_default();
        let count = self.asks.len();
        let (times, each) = match (value, self.many) {
            (Value::Array(mut each), Some(_)) if each.len() == HEAD + count => {
                let times = Times::read(&each);
                each.drain(..HEAD);
                (times, each)
            }
            // An error is everybody's.
            (value, _) => (None, vec![value; count]),
        };
        let asks = self.asks.into_iter().zip(each);
        asks.map(move |(ask, value)| (ask, value, times))
    }
}

// === impl Times ===

impl Times {
    fn read(answers: &[Value]) -> Option<Self> {
        match answers {
            [Value::Int(now), Value::Int(raw), ..] => Some(Self {
                now: *now,
                raw: *raw,
            }),
            _ => None,
        }
    }
}

/// Some parts of a command.
fn parts(command: &Cmd, skip: usize, take: usize) -> impl Iterator<Item = &[u8]> {
    let parts = command.args_iter().skip(skip).take(take);
    parts.filter_map(|part| match part {
        Arg::Simple(bytes) => Some(bytes),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::ask::{Nature, Target};
    use super::super::script::{self, Script};
    use super::*;

    fn ask(script: &Arc<Script>, name: &str) -> Ask {
        let mut command = script.call(script::KEYS, script::SHARED + script::ARGUMENTS, 0);
        for key in 0..script::KEYS {
            command.arg(format!("{name}.key{key}"));
        }
        for argument in 0..script::SHARED {
            command.arg(format!("{name}.all{argument}"));
        }
        for argument in 0..script::ARGUMENTS {
            command.arg(format!("{name}.{argument}"));
        }
        Ask::new(Target::Slot(0), command, Nature::Read).of_script(script)
    }

    fn words(command: &Cmd) -> Vec<String> {
        let parts = parts(command, 0, usize::MAX);
        parts
            .map(|it| String::from_utf8_lossy(it).into_owned())
            .collect()
    }

    #[test]
    fn writes_that_wait_together_are_one_run() {
        let script = Arc::new(script::write("c"));
        let other = Ask::new(Target::Slot(0), redis::cmd("PING"), Nature::Read);
        let mut latest = ask(&script, "b");
        latest.deadline = Duration::from_secs(1);
        let batch = vec![ask(&script, "a"), other, latest, ask(&script, "c")];
        let calls = gather(batch, false);
        assert_eq!(calls.len(), 2);
        let sent = words(&calls[0].together(script.many.unwrap()));
        assert_eq!(sent[2..6], ["6", "a.key0", "a.key1", "b.key0"]);
        // The one that was asked last knows the time best.
        assert_eq!(sent[9..12], ["b.all0", "b.all1", "b.all2"]);
        assert_eq!(sent[12], "a.0");
        assert_eq!(sent[12 + script::ARGUMENTS], "b.0");
        assert_eq!(sent.len(), 12 + 3 * script::ARGUMENTS);
    }

    #[test]
    fn those_of_a_cluster_stay_apart() {
        let script = Arc::new(script::write("c"));
        let batch = vec![ask(&script, "a"), ask(&script, "b")];
        assert_eq!(gather(batch, true).len(), 2);
    }

    #[test]
    fn everybody_gets_its_own_answer_and_an_error_is_everybodys() {
        let script = Arc::new(script::write("c"));
        let call = || {
            let batch = vec![ask(&script, "a"), ask(&script, "b")];
            gather(batch, false).remove(0)
        };
        let each = Value::Array([70, 80, 1, 2].map(Value::Int).to_vec());
        let answers: Vec<_> = call().answered(&mut [each].into_iter()).collect();
        let times = Some(Times { now: 70, raw: 80 });
        assert_eq!((&answers[1].1, answers[1].2), (&Value::Int(2), times));
        let answers: Vec<_> = call().answered(&mut [Value::Nil].into_iter()).collect();
        assert_eq!(answers.len(), 2);
        assert!(answers.iter().all(|(_, value, _)| *value == Value::Nil));
    }

    #[test]
    fn a_run_is_not_too_long() {
        let script = Arc::new(script::write("c"));
        let batch = (0..100).map(|_| ask(&script, "a")).collect();
        let calls = gather(batch, false);
        assert!(calls.iter().all(|call| call.asks.len() <= TOGETHER_MAX));
        assert_eq!(calls.iter().map(|call| call.asks.len()).sum::<usize>(), 100);
    }
}
