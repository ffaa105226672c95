//! Asks: commands on their way to a server, and what becomes of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use onceward::bugs::{Bug, seeded};
use redis::{Arg, Cmd, Value};
use tokio::sync::oneshot;

use super::script::Script;
use super::trouble::Trouble;

/// A command on its way to a server.
pub(crate) struct Ask {
    pub(super) target: Target,
    pub(super) command: Cmd,
    /// The script that the command runs, in case that the server does not know it.
    pub(super) script: Option<Arc<Script>>,
    pub(super) nature: Nature,
    /// When the caller gets an answer whatever happens, by the stopwatch.
    pub(super) deadline: Duration,
    /// It is sent again, and may have happened before.
    pub(super) is_again: bool,
    /// The key is on its way to this server, which has to be told that we know.
    pub(super) is_asking: bool,
    reply: Option<oneshot::Sender<Result<Answer, Trouble>>>,
}

/// Which server a command is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The one that holds the keys of this hash slot.
    Slot(u16),
    /// This one.
    Node(usize),
}

/// What may be done about a command whose answer was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nature {
    /// It is sent again: it only looks, or does no harm when it is done twice.
    Read,
    /// It is sent again with this argument set to `1`: the script then recognises its own write.
    Write {
        /// Which argument of the command, counted from its name.
        again: usize,
    },
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// When it answered, where a script says so to all whom it answers at once.
    pub(super) times: Option<Times>,
    /// Which server.
    pub(crate) node: usize,
    /// It was sent more than once, and what came before may have happened.
    pub(crate) is_again: bool,
    /// How many replicas have what was written so far, where that was asked.
    pub(crate) replicas: Option<usize>,
}

/// When a server answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Times {
    /// The time that counted.
    pub(super) now: i64,
    /// The server's clock.
    pub(super) raw: i64,
}

// === impl Ask ===

impl Ask {
    /// Returns a command for `target`.
    pub(crate) fn new(target: Target, command: Cmd, nature: Nature) -> Self {
        Self {
            target,
            command,
            script: None,
            nature,
            deadline: Duration::ZERO,
            is_again: false,
            is_asking: false,
            reply: None,
        }
    }

    /// The same, where the command runs this script.
    pub(crate) fn of_script(mut self, script: &Arc<Script>) -> Self {
        self.script = Some(Arc::clone(script));
        self
    }

    /// How long the command is, more or less, in bytes.
    pub(super) fn len(&self) -> usize {
        let parts = self.command.args_iter();
        let lens = parts.map(|part| match part {
            Arg::Simple(bytes) => bytes.len(),
            _ => 0,
        });
        lens.sum()
    }

    /// Where the answer will come.
    pub(super) fn expect(&mut self) -> oneshot::Receiver<Result<Answer, Trouble>> {
        let (reply, answer) = oneshot::channel();
        self.reply = Some(reply);
        answer
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_forsaken(&self) -> bool {
        self.reply.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    pub(super) fn answer(mut self, answer: Result<Answer, Trouble>) {
        if let Some(reply) = self.reply.take() {
            // A caller that no longer waits is no error.
            let _ = reply.send(answer);
        }
    }

    /// The same after its answer was lost.
    pub(super) fn again(mut self) -> Self {
        if let Nature::Write { again } = self.nature
            && !self.is_again
            && !seeded(Bug::RepeatUnrecognised)
        {
            self.command = with_argument(&self.command, again, b"1");
            self.is_again = true;
        }
        self
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// The command with another argument in this place.
fn with_argument(command: &Cmd, at: usize, value: &[u8]) -> Cmd {
    let mut changed = Cmd::new();
    for (index, argument) in command.args_iter().enumerate() {
        match argument {
            _ if index == at => changed.arg(value),
            Arg::Simple(bytes) => changed.arg(bytes),
            _ => changed.cursor_arg(0),
        };
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_sent_again_says_so() {
        let mut command = redis::cmd("EVALSHA");
        command.arg("hash").arg(0).arg("0").arg("last");
        let ask = Ask::new(Target::Slot(0), command, Nature::Write { again: 3 }).again();
        let sent = ask.command.get_packed_command();
        assert!(ask.is_again);
        assert!(sent.ends_with(b"$1\r\n1\r\n$4\r\nlast\r\n"), "{sent:?}");
    }
}
