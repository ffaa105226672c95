//! A way around the Redis store to its keys.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use async_trait::async_trait;
use onceward_rig::redis::RedisServer;

use crate::aged::BackDoor;

/// A connection of its own, and what the names of the keys begin with.
pub(super) struct Keys {
    connection: MultiplexedConnection,
    prefix: String,
}

/// Makes every record older. A record begins with its state and its fence, in 17 bytes, then comes
/// when it was written, in 16 digits; what is never due has a score above all others.
const AGE: &str = "
local by = tonumber(ARGV[2])
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '{*}:r:*')) do
  local written = tonumber(redis.call('GETRANGE', key, 17, 32))
  redis.call('SETRANGE', key, 17, string.format('%016.0f', written - by))
end
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '{*}:due')) do
  local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for at = 1, #all, 2 do
    local due = tonumber(all[at + 1])
    if due < 9007199254740992 then redis.call('ZADD', key, due - by, all[at]) end
  end
end";

/// Removes the records of tenants that trials have made up, and their places in the index.
const CLEAR: &str = "
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '{*}:r:*')) do
  if string.find(redis.call('GET', key), 'tenant-', 1, true) then redis.call('DEL', key) end
end
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '{*}:due')) do redis.call('DEL', key) end";

// === impl Keys ===

impl Keys {
    pub(super) async fn of(server: &RedisServer, prefix: &str) -> Self {
        let client = ::redis::Client::open(server.url()).expect("the URL is good");
        let connection = client.get_multiplexed_async_connection().await;
        Self {
            connection: connection.expect("the server answers"),
            prefix: prefix.to_owned(),
        }
    }

    async fn run(&self, script: &str, by: u128) {
        let mut command = ::redis::cmd("EVAL");
        command.arg(script).arg(0).arg(&self.prefix);
        command.arg(by.to_string());
        let mut connection = self.connection.clone();
        let done = command.query_async::<()>(&mut connection).await;
        done.expect("the server does it");
    }
}

#[async_trait]
impl BackDoor for Keys {
    async fn age(&self, by: Duration) {
        self.run(AGE, by.as_micros()).await;
    }

    async fn clear(&self) {
        self.run(CLEAR, 0).await;
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.prefix)
    }
}
