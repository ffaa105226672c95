//! A cache in Redis or Valkey.
//!
//! What is about a slot stands under `PREFIX{SLOT}:c`, with a time to live. That only collects
//! garbage: whether a memo counts is judged by the clock of the truth. A value stays an hour
//! longer than it counts, so that its fence keeps older ones out.
//!
//! A cache may evict: a memo that is gone makes a retry slower. A tombstone that is gone early
//! matters only to a memo that is still on its way, and that arrives within a minute or is refused.
//! Only evidence is worth more than that, so a cache that never evicts keeps the better alarm.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use onceward::{BoxError, Fence, SlotId};
use parking_lot::{Condvar, Mutex, RwLock};
use redis::{Cmd, Value};

use super::memory::TOMBSTONE as TOMBSTONE_LIFE;
use super::value::{self, EVIDENCE_AT, MEMO, TOMBSTONE};
use super::{Cache, Memo};
use crate::OpenError;
use crate::redis::Settings;
use crate::redis::ask::{Answer, Ask, Nature, Target};
use crate::redis::cluster::slot_of;
use crate::redis::layout::digits;
use crate::redis::link::{Hub, Link};
use crate::redis::script::Script;

/// A cache in one server, behind sentinels, or in a cluster.
///
/// One that cannot be reached is no error: it is tried again in the background.
#[derive(Debug)]
pub struct RedisCache {
    line: Arc<Line>,
    /// Dials until there is a link, if there was none at first.
    dialer: Option<JoinHandle<()>>,
    scripts: Scripts,
    /// The clocks of the servers less our stopwatch, in microseconds, as far as they are known.
    clocks: Mutex<HashMap<Option<usize>, i64>>,
}

/// The way to the servers, once there is one.
#[derive(Debug)]
struct Line {
    settings: Settings,
    link: RwLock<Option<Link>>,
    is_closing: Mutex<bool>,
    closing: Condvar,
}

#[derive(Debug)]
struct Scripts {
    note: Arc<Script>,
    bury: Arc<Script>,
    keep: Arc<Script>,
}

/// Nothing was asked: there is no way to the servers.
#[derive(Debug, thiserror::Error)]
#[error("the cache cannot be reached")]
struct NoLink;

/// A script gave an answer of another kind.
#[derive(Debug, thiserror::Error)]
#[error("the cache gave an answer of another kind")]
struct Strange;

/// How long after it was sent a memo may still be written, by the server's clock.
const LATE: Duration = Duration::from_secs(30);

/// How long a memo is tried to be written with a clock that turned out to be off.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait before dialing once more.
const DIAL_PAUSE: Duration = Duration::from_secs(1);

/// Compares two fences, as `f` does in C.
const COMPARE: &str = "
local function compare(one, two)
  for at = 1, 16 do
    local difference = string.byte(one, at) - string.byte(two, at)
    if difference ~= 0 then return difference end
  end
  return 0
end";

// === impl RedisCache ===

impl RedisCache {
    /// Opens the cache that the settings name. Blocks until it is there or known to be away.
    ///
    /// Settings that the server refuses are an error; a server that does not answer is not.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let line = Arc::new(Line {
            settings,
            link: RwLock::default(),
            is_closing: Mutex::new(false),
            closing: Condvar::new(),
        });
        let dialer = match line.dial() {
            Ok(()) => None,
            Err(error @ OpenError::Unreachable { .. }) => {
                tracing::warn!(error = %error.line(), "the cache is left out until it answers");
                Some(line.clone().keep_dialing()?)
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            line,
            dialer,
            scripts: Scripts::new(),
            clocks: Mutex::default(),
        })
    }

    /// Whether the servers have been reached.
    pub fn is_linked(&self) -> bool {
        self.line.link.read().is_some()
    }

    async fn run(&self, slot: SlotId, command: Cmd, script: Option<&Arc<Script>>) -> Said {
        let hub = self.line.hub().ok_or(NoLink)?;
        let target = Target::Slot(hash_slot(&hub, slot));
        // Each of them does no harm when it is done twice.
        let mut ask = Ask::new(target, command, Nature::Read);
        if let Some(script) = script {
            ask = ask.of_script(script);
        }
        let said = hub.run(ask).await;
        said.map_err(|trouble| trouble.to_string().into())
    }

    fn name(&self, slot: SlotId) -> Vec<u8> {
        let prefix = self.line.settings.prefix();
        let mut name = Vec::with_capacity(prefix.len() + 2 * SlotId::LEN + 4);
        name.extend_from_slice(prefix.as_bytes());
        name.push(b'{');
        name.extend(digits(slot));
        name.extend_from_slice(b"}:c");
        name
    }

    /// The server's time past which a memo that is sent now is not written; `None` if its clock is
    /// not known.
    fn not_after(&self, node: Option<usize>, hub: &Hub) -> Option<i64> {
        let ahead = *self.clocks.lock().get(&node)?;
        Some(micros(hub.stopwatch() + LATE).saturating_add(ahead))
    }
}

type Said = Result<Answer, BoxError>;

#[async_trait]
impl Cache for RedisCache {
    async fn look(&self, slot: SlotId) -> Result<Option<Memo>, BoxError> {
        let mut command = redis::cmd("GET");
        command.arg(self.name(slot));
        match self.run(slot, command, None).await?.value {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => value::decode(&Bytes::from(bytes)),
            _ => Err(Strange.into()),
        }
    }

    async fn note(&self, slot: SlotId, memo: &Memo, life: Duration) -> Result<(), BoxError> {
        let bytes = value::encode(memo);
        let hub = self.line.hub().ok_or(NoLink)?;
        let started = hub.stopwatch();
        loop {
            let node = hub.owner(hash_slot(&hub, slot));
            let not_after = self.not_after(node, &hub);
            let mut command = self.scripts.note.call(1, 4, bytes.len() + 200);
            command
                .arg(self.name(slot))
                .arg(not_after.unwrap_or(0))
                .arg(&value::fence(memo.record.fence))
                .arg(millis(life.saturating_add(TOMBSTONE_LIFE)))
                .arg(&bytes);
            let answer = self.run(slot, command, Some(&self.scripts.note)).await?;
            let Value::Int(raw) = answer.value else {
                return Err(Strange.into());
            };
            if raw == 0 {
                return Ok(());
            }
            // It came too late by the server's clock: because that was not known, because it was
            // set forward, or because this process was stopped in between.
            let now = hub.stopwatch();
            self.clocks.lock().insert(node, raw - micros(now));
            if now.saturating_sub(started) > PATIENCE {
                return Ok(());
            }
        }
    }

    async fn bury(&self, slot: SlotId, before: Fence) -> Result<(), BoxError> {
        let mut command = self.scripts.bury.call(1, 2, 200);
        command
            .arg(self.name(slot))
            .arg(&value::fence(before))
            .arg(millis(TOMBSTONE_LIFE));
        self.run(slot, command, Some(&self.scripts.bury)).await?;
        Ok(())
    }

    async fn keep(&self, slot: SlotId, fence: Fence, life: Duration) -> Result<bool, BoxError> {
        let mut command = self.scripts.keep.call(1, 2, 200);
        command
            .arg(self.name(slot))
            .arg(&value::fence(fence))
            .arg(millis(life.saturating_add(TOMBSTONE_LIFE)));
        let answer = self.run(slot, command, Some(&self.scripts.keep)).await?;
        match answer.value {
            Value::Int(kept) => Ok(kept == 1),
            _ => Err(Strange.into()),
        }
    }
}

impl Drop for RedisCache {
    fn drop(&mut self) {
        *self.line.is_closing.lock() = true;
        self.line.closing.notify_all();
        if let Some(dialer) = self.dialer.take()
            && dialer.join().is_err()
        {
            tracing::error!("the thread that dials the cache panicked");
        }
    }
}

// === impl Line ===

impl Line {
    fn hub(&self) -> Option<Arc<Hub>> {
        self.link.read().as_ref().map(|link| link.hub().clone())
    }

    fn dial(&self) -> Result<(), OpenError> {
        let settings = self.settings.clone();
        let (link, ()) = Link::open(settings, "onceward-cache", async |_: &Arc<Hub>| Ok(()))?;
        *self.link.write() = Some(link);
        Ok(())
    }

    /// Dials again and again, on a thread of its own, until there is a link or nobody wants one.
    fn keep_dialing(self: Arc<Self>) -> Result<JoinHandle<()>, OpenError> {
        let place = self.settings.place();
        let thread = thread::Builder::new().name("onceward-dial".into());
        let dialing = move || {
            loop {
                let mut is_closing = self.is_closing.lock();
                if !*is_closing {
                    self.closing.wait_for(&mut is_closing, DIAL_PAUSE);
                }
                if *is_closing {
                    return;
                }
                drop(is_closing);
                if self.dial().is_ok() {
                    tracing::info!("the cache answers");
                    return;
                }
            }
        };
        thread.spawn(dialing).map_err(|error| OpenError::Server {
            server: crate::open::REDIS,
            place,
            why: format!("no thread for it: {error}"),
        })
    }
}

// === impl Scripts ===

impl Scripts {
    fn new() -> Self {
        let (memo, tombstone) = (char::from(MEMO), char::from(TOMBSTONE));
        // Key: the value. Arguments: the last moment at which it may be written, the memo's
        // fence, how many milliseconds to keep it, the memo. Answers 0, or the server's clock if
        // it came too late.
        let note = format!(
            "{COMPARE}
local time = redis.call('TIME')
local raw = time[1] * 1000000 + time[2]
if raw > tonumber(ARGV[1]) then return raw end
local there = redis.call('GETRANGE', KEYS[1], 0, 16)
if #there == 17 then
  local order = compare(ARGV[2], string.sub(there, 2))
  if order < 0 or (order == 0 and string.sub(there, 1, 1) == '{memo}') then return 0 end
end
redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[3])
return 0"
        );
        // Key: the value. Arguments: the fence, how many milliseconds to keep the tombstone.
        let bury = format!(
            "{COMPARE}
local there, fence = redis.call('GETRANGE', KEYS[1], 0, 16), ARGV[1]
if #there == 17 and string.sub(there, 1, 1) == '{tombstone}'
  and compare(string.sub(there, 2), fence) > 0 then fence = string.sub(there, 2) end
redis.call('SET', KEYS[1], '{tombstone}' .. fence, 'PX', ARGV[2])
return 1"
        );
        // Key: the value. Arguments: the fence, how many milliseconds to keep the memo at least.
        let keep = format!(
            "if redis.call('GETRANGE', KEYS[1], 0, 16) ~= '{memo}' .. ARGV[1] then return 0 end
redis.call('SETRANGE', KEYS[1], {EVIDENCE_AT}, '\\1')
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1"
        );
        Self {
            note: Arc::new(Script::new(note)),
            bury: Arc::new(Script::new(bury)),
            keep: Arc::new(Script::new(keep)),
        }
    }
}

/// The hash slot of a slot's name. Where there is no cluster it does not matter.
fn hash_slot(hub: &Hub, slot: SlotId) -> u16 {
    match hub.is_cluster() {
        true => slot_of(&digits(slot).collect::<Vec<_>>()),
        false => 0,
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
