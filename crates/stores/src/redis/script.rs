//! The scripts: what a server does in one step.
//!
//! What they have in common:
//!
//! - **Time.** `raw` is the server's clock, read with TIME. `shift` and `floor` come from the
//!   [`Reckoning`](crate::reckon::Reckoning): the time that counts is `max(raw + shift, floor)`.
//!   A write that comes later than it may changes nothing; nor does one for which the clock is
//!   seconds past the floor, so that a clock that jumps ahead between two looks at it does not
//!   come through: it is sent again once that has been seen. Lua's numbers are doubles, and hold
//!   microseconds exactly until the year 2255.
//! - **Nothing is half done.** Everything is checked before the first write, and the first write
//!   is one that a full or read-only server refuses; telling of a change, which may not be
//!   allowed, can fail without harm. What fails for one slot leaves the others alone.
//! - **Keys are declared**, and those of one script share a hash tag, so that a cluster can tell
//!   where it runs.
//!
//! A record is a string: its state's number as a digit, its fence in 16 bytes, when it was
//! written in 16 digits of microseconds, then the codec's bytes. The index of its partition is a
//! sorted set of slots by when they are due. A record that expires by itself is given a time to
//! live as well, long past its retention, so that what nobody sweeps any more is gone some day:
//! the server's wall clock decides about that, and a step of it must not take a live record.

use onceward::bugs::{Bug, seeded};
use onceward::record::StateName;
use redis::Cmd;

use crate::reckon::AHEAD_MAX;

/// A script, and the name that a server knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    hash: String,
    /// What one call has, where one run of the script can do many.
    pub(super) many: Option<Many>,
}

/// How many keys and arguments each of several calls has that one run of a script does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Many {
    pub(super) keys: usize,
    /// The first arguments are the same for all calls. Those of the latest one are taken.
    pub(super) shared: usize,
    /// How many arguments each call has besides.
    pub(super) arguments: usize,
}

/// The length of what stands before the codec's bytes.
pub(super) const HEAD: usize = 33;

/// The score of what is never due: the last number that a double counts to by ones.
pub(super) const NEVER: u64 = 1 << 53;

/// What a script answers first.
pub(super) mod answer {
    /// The write happened.
    pub(in super::super) const DONE: i64 = 1;
    /// Something else is there, or nothing: what is there follows.
    pub(in super::super) const FOUND: i64 = 2;
    /// It came too late.
    pub(in super::super) const LATE: i64 = 3;
    /// The server's clock is ahead of what is believed.
    pub(in super::super) const AHEAD: i64 = 4;
}

/// The arguments of [`write`], counted from the first one behind the keys.
pub(super) mod argument {
    /// Whether this was sent before, and may have happened. `1` if so.
    pub(in super::super) const AGAIN: usize = super::SHARED;
}

/// How long past its due time a record is kept that nobody sweeps, in milliseconds: ninety days.
const UNSWEPT_MILLIS: u64 = 90 * 24 * 60 * 60 * 1000;

// === impl Script ===

impl Script {
    pub(crate) fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self {
            text,
            hash,
            many: None,
        }
    }

    /// The command that runs it with so many keys. Keys and arguments are still to come.
    pub(crate) fn call(&self, keys: usize, arguments: usize, bytes: usize) -> Cmd {
        let mut command = Cmd::with_capacity(keys + arguments + 3, bytes + 64);
        command.arg("EVALSHA").arg(&self.hash).arg(keys);
        command
    }

    /// Where an argument of the script is in its command.
    pub(crate) const fn place_of(keys: usize, argument: usize) -> usize {
        3 + keys + argument
    }

    /// The command that teaches it to a server.
    pub(super) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.text);
        command
    }
}

/// Reads the clock.
const CLOCK: &str = "
local time = redis.call('TIME')
local raw = time[1] * 1000000 + time[2]";

/// Compares and swaps, for as many slots as are asked about at once: what a script costs is mostly
/// that it is one. Keys of each: the record, the index of its partition. Arguments of all:
/// `shift`; `floor`; who tells of changes. Arguments of each: whether this was sent before (`1`);
/// what to do (`i`nsert, `r`eplace, `d`elete); the last moment at which it may happen; the slot;
/// the fence seen; the record's state and fence in 17 bytes; its codec's bytes; in how many
/// microseconds it is due, or nothing for never.
///
/// Answers the time and the server's clock, then each call by itself, an error included: with a
/// number where that says it all, or else with a number and what belongs to it.
///
/// A write that was sent before and is found in the slot has happened: its fence is nobody
/// else's. When that was is its answer.
pub(super) fn write(channel: &str) -> Script {
    let text = format!(
        "{CLOCK}
local KEYS, ARGV, call, sub = KEYS, ARGV, redis.call, string.sub
local floor = tonumber(ARGV[2])
local now = math.max(raw + ARGV[1], floor)
local stamp = string.format('%016.0f', now)
local expires = {{{expires}}}
-- When the last write was due: mostly the same for the next one.
local after, due, score
local function write(k, a)
  local name, op, own = KEYS[k + 1], ARGV[a + 2], ARGV[a + 6]
  if ARGV[a + 1] == '1' and op ~= 'd' then
    local head = call('GETRANGE', name, 0, {last})
    if #head == {HEAD} and sub(head, 2, 17) == sub(own, 2) then
      return {{{done}, tonumber(sub(head, 18))}}
    end
  end
  if now > floor + {AHEAD_MAX} then return {ahead} end
  if now > tonumber(ARGV[a + 3]) then return {late} end

  local head
  if op ~= 'i' then
    head = call('GETRANGE', name, 0, {last})
    if sub(head, 2, 17) ~= ARGV[a + 5] then
      return {{{found}, call('GET', name)}}
    end
  end
  if op == 'd' then
    call('DEL', name)
    call('ZREM', KEYS[k + 2], ARGV[a + 4])
  else
    if ARGV[a + 8] ~= after then
      after, due = ARGV[a + 8], {NEVER}
      if after ~= '' then due = math.min(now + after, {NEVER}) end
      score = string.format('%.0f', due)
    end
    local record = own .. stamp .. ARGV[a + 7]
    if op == 'i' and call('SETNX', name, record) == 0 then
      return {{{found}, call('GET', name)}}
    end
    if due < {NEVER} and expires[sub(own, 1, 1)] then
      local unswept = math.floor(due / 1000) + {UNSWEPT_MILLIS}
      call('SET', name, record, 'PXAT', unswept)
    elseif op == 'r' then
      call('SET', name, record)
    end
    call('ZADD', KEYS[k + 2], score, ARGV[a + 4])
  end
  if op ~= 'i' and (op == 'd' or sub(head, 1, 1) ~= sub(own, 1, 1)) then
    redis.pcall('PUBLISH', '{channel}', ARGV[3] .. ARGV[a + 4])
  end
  return {done}
end

local answers = {{now, raw}}
for i = 1, #KEYS / {KEYS} do
  local did, answer = pcall(write, (i - 1) * {KEYS}, {SHARED} + (i - 1) * {ARGUMENTS})
  -- An error is a text here and a table there, by the server's version.
  if did or type(answer) == 'table' then
    answers[i + 2] = answer
  else
    answers[i + 2] = {{err = tostring(answer)}}
  end
end
return answers",
        expires = expiring("['", "'] = true, "),
        last = HEAD - 1,
        done = answer::DONE,
        found = answer::FOUND,
        late = answer::LATE,
        ahead = answer::AHEAD,
    );
    Script {
        many: Some(Many {
            keys: KEYS,
            shared: SHARED,
            arguments: ARGUMENTS,
        }),
        ..Script::new(mistaken(text))
    }
}

/// Makes a mistake in the script that writes, if one of its own is seeded.
fn mistaken(mut text: String) -> String {
    let is_other = "sub(head, 2, 17) ~= ARGV[a + 5]";
    let expires = "expires[sub(own, 1, 1)]";
    let mistakes = [
        (Bug::ScriptIgnoresFence, is_other, "head == ''"),
        (
            Bug::LateScriptWrites,
            "now > tonumber(ARGV[a + 3])",
            "false",
        ),
        (Bug::StepsBelieved, "math.max(raw + ARGV[1], floor)", "raw"),
        (Bug::StepsBelieved, "now > floor +", "now < -floor -"),
        (Bug::LeaseByExpiry, expires, "true"),
        (Bug::LeaseByExpiry, "due / 1000) +", "due / 1000) + 0 *"),
    ];
    for (_, right, wrong) in mistakes.iter().filter(|(bug, ..)| seeded(*bug)) {
        text = text.replace(right, wrong);
    }
    text
}

/// How many keys each write of [`write`] has, how many arguments all of them have together, and
/// how many each has besides.
pub(super) const KEYS: usize = 2;
pub(super) const SHARED: usize = 3;
pub(super) const ARGUMENTS: usize = 8;

/// The numbers of the states that expire, each between these.
fn expiring(before: &str, after: &str) -> String {
    let states = StateName::ALL.into_iter().filter(|state| state.expires());
    states
        .map(|state| format!("{before}{}{after}", state as u8))
        .collect()
}

/// Reads a record. Key: the record. Answers like a write that found something.
pub(super) fn read() -> Script {
    Script::new(format!(
        "{CLOCK}
return {{{found}, 0, raw, redis.call('GET', KEYS[1])}}",
        found = answer::FOUND
    ))
}

/// Looks up which slots are filed in partitions. Keys: the index of each. Arguments: the upper end
/// of the range of scores; how many of each partition at the most; at how many in all to stop, so
/// that nobody else waits for long. Answers each partition until there.
pub(super) fn filed() -> Script {
    Script::new(
        "local each, count = {}, 0
for i = 1, #KEYS do
  each[i] = redis.call('ZRANGEBYSCORE', KEYS[i], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
  count = count + #each[i]
  if count >= tonumber(ARGV[3]) then break end
end
return each"
            .to_owned(),
    )
}

/// Looks at a record that may be due. Keys: the record, the index of its partition. Arguments:
/// the slot; `shift`; `floor`; the horizon; who tells of the change. Removes it if it expires by
/// itself; gives it back if what is to become of it is a matter for the protocol; takes it out of
/// the index if it is gone.
///
/// Whether it is due is looked up here: it may have been given more time since it was found.
pub(super) fn sweep(channel: &str) -> Script {
    Script::new(format!(
        "{CLOCK}
local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
local floor = tonumber(ARGV[3])
local horizon = math.min(math.max(raw + ARGV[2], floor), floor + {AHEAD_MAX}, tonumber(ARGV[4]))
if not due or tonumber(due) >= horizon then return {{{late}, 0, raw}} end
local state = redis.call('GETRANGE', KEYS[1], 0, 0)
if state ~= '' and not string.find('{expires}', state, 1, true) then
  return {{{found}, 0, raw, redis.call('GET', KEYS[1])}}
end
redis.call('ZREM', KEYS[2], ARGV[1])
if state == '' then return {{{late}, 0, raw}} end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', '{channel}', ARGV[5] .. ARGV[1])
return {{{done}, 0, raw}}",
        expires = expiring("", ""),
        done = answer::DONE,
        found = answer::FOUND,
        late = answer::LATE,
    ))
}

/// Raises the highest time on record. Key: the clock. Argument: the time. Answers what is on
/// record by then, and the server's clock.
pub(super) fn clock() -> Script {
    Script::new(format!(
        "{CLOCK}
local there = tonumber(redis.call('GET', KEYS[1]) or '0')
local given = tonumber(ARGV[1])
if given > there then
  redis.call('SET', KEYS[1], string.format('%.0f', given))
  there = given
end
return {{there, raw}}"
    ))
}
