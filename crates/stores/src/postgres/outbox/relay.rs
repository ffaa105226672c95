//! The relay: gives staged events to a callback, at least once and in order for each key.
//!
//! A relay has a connection of its own. It takes a key by a lock of that session, reads the key's
//! first events, publishes them one after the other, removes those that were published, and gives
//! the key back. No transaction is open meanwhile, and a slow key does not hold up the others.
//!
//! Several relays may run, on one node or many: a key is with one of them at a time. One that
//! crashes loses its session, and with it its keys; what it had published and not yet removed is
//! published again by the next.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use onceward::BoxError;
use onceward::store::Store as _;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::super::PostgresStore;
use super::super::transaction::connect;
use super::{Event, SLOT};
use crate::reckon::micros;

mod statements;

use statements::{Session, Texts};

/// Publishes staged events for as long as it lives.
///
/// Dropping it stops it at once; [`Relay::stop`] lets what is under way end.
#[derive(Debug)]
#[must_use = "a relay that is dropped publishes nothing"]
pub struct Relay {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

/// How a relay goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Pace {
    /// How long to wait for a hint before looking all the same. Default: 250 ms.
    pub poll: Duration,
    /// How many keys are published for at a time. Default: 16.
    pub keys: usize,
    /// How many events of a key are read at a time. Default: 32.
    pub events: usize,
    /// How long publishing one event may take. Default: 30 s.
    pub patience: Duration,
    /// How long an event that failed waits at first. Default: 100 ms; it doubles each time.
    pub first_pause: Duration,
    /// How long an event that failed waits at the most. Default: 5 min.
    pub longest_pause: Duration,
}

/// What a relay needs at hand.
struct Relaying<F> {
    store: PostgresStore,
    pace: Pace,
    texts: Texts,
    publish: F,
    stop: watch::Receiver<bool>,
    hint: Arc<Notify>,
}

/// What became of a key's events.
struct Done {
    key: String,
    published: Vec<i64>,
    /// The one that failed, and how often it did before.
    failed: Option<(i64, u32)>,
}

// === impl Relay ===

impl Relay {
    /// Starts a relay that gives every event of `store` to `publish`.
    ///
    /// An event is removed once `publish` returned `Ok`. An error or a panic puts it off, for longer each
    /// time, and with it the events behind it of the same key, but no others. An event may be
    /// published more than once: after a crash, a timeout, or an error that came too late.
    /// A future of `publish` may be dropped when the relay loses its connection.
    ///
    /// Needs a tokio runtime.
    pub fn start<F, R>(store: &PostgresStore, pace: Pace, publish: F) -> Self
    where
        F: Fn(Event) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        let relaying = Relaying {
            store: store.clone(),
            pace,
            texts: Texts::new(store.settings()),
            publish,
            stop: stopped,
            hint: Arc::default(),
        };
        let task = tokio::spawn(relaying.run());
        Self { task, stop }
    }

    /// Takes no new keys, lets what is under way end, and returns.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // It ends by itself, or with its runtime.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Pace ===

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(250),
            keys: 16,
            events: 32,
            patience: Duration::from_secs(30),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(300),
        }
    }
}

impl Pace {
    /// How long an event waits that failed `tries` times before.
    fn pause(&self, tries: u32) -> Duration {
        let pause = self.first_pause.saturating_mul(1 << tries.min(20));
        pause.min(self.longest_pause)
    }
}

// === impl Relaying ===

impl<F, R> Relaying<F>
where
    F: Fn(Event) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    /// How many keys are looked at in one step.
    const PAGE: i64 = 200;
    /// How long to wait before connecting again.
    const RECONNECT: Duration = Duration::from_millis(500);

    async fn run(self) {
        let hint = self.hint.clone();
        let mut hints = self.store.watch();
        let listen = async move {
            while let Some(slot) = hints.next().await {
                if slot == SLOT {
                    hint.notify_one();
                }
            }
            // Polling goes on without hints.
            std::future::pending::<()>().await;
        };
        select(pin!(listen), pin!(self.keep_relaying())).await;
    }

    async fn keep_relaying(&self) {
        while !*self.stop.borrow() {
            if let Err(error) = self.session().await {
                tracing::warn!(%error, "the relay lost its connection");
                sleep(Self::RECONNECT).await;
            }
        }
    }

    /// Relays over one connection, until that ends or the relay is stopped.
    async fn session(&self) -> Result<(), BoxError> {
        let (connection, driver) = connect(self.store.settings()).await?;
        let relay = pin!(async {
            let session = self.texts.prepare(connection).await?;
            self.relay(&session).await
        });
        match select(relay, pin!(driver)).await {
            Either::Left((done, _)) => done,
            // Its keys are free for others by now, so what is under way is dropped.
            Either::Right(_) => Err("the connection ended".into()),
        }
    }

    async fn relay(&self, session: &Session) -> Result<(), BoxError> {
        let mut under_way = FuturesUnordered::new();
        let mut held = HashSet::new();
        let mut after = String::new();
        loop {
            let is_stopping = *self.stop.borrow();
            if is_stopping && under_way.is_empty() {
                return Ok(());
            }
            let room = self.pace.keys.max(1) - held.len();
            if room > 0 && !is_stopping {
                let (keys, next) = self.heads(session, &after, &held, room).await?;
                after = next;
                for (key, events) in self.take(session, keys).await? {
                    held.insert(key.clone());
                    under_way.push(self.publish_in_order(key, events));
                }
            }
            // Keys further on are looked at right away, while there is room.
            let is_done_looking = after.is_empty() || held.len() >= self.pace.keys;
            let reason = self.reason_to_look(is_done_looking, is_stopping);
            let ended = match under_way.is_empty() {
                true => Either::Left(std::future::pending()),
                false => Either::Right(under_way.next()),
            };
            let ended = match select(ended, pin!(reason)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => None,
            };
            if let Some(done) = ended {
                held.remove(&done.key);
                self.finish(session, done).await?;
                // There may be more of the same key.
                self.hint.notify_one();
            }
        }
    }

    /// Waits for a hint, the end, or as long as a relay goes without looking.
    async fn reason_to_look(&self, is_done_looking: bool, is_stopping: bool) {
        if !is_done_looking {
            return;
        }
        let mut stop = self.stop.clone();
        let stopping = pin!(stop.wait_for(|stop| *stop && !is_stopping));
        let hint = pin!(self.hint.notified());
        let _ = timeout(self.pace.poll, select(stopping, hint)).await;
    }

    /// Finds keys whose first event is due, and where to go on looking.
    async fn heads(
        &self,
        session: &Session,
        after: &str,
        held: &HashSet<String>,
        room: usize,
    ) -> Result<(Vec<String>, String), BoxError> {
        let Session { client, heads, .. } = session;
        let rows = client.query(heads, &[&after, &Self::PAGE]).await?;
        let mut keys = Vec::new();
        for row in &rows {
            let (key, is_due): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
            if !is_due || held.contains(&key) {
                continue;
            }
            keys.push(key);
            if keys.len() == room {
                break;
            }
        }
        let next = match (keys.len() == room, rows.last()) {
            // The rest waits until there is room.
            (true, _) => keys.last().cloned().unwrap_or_default(),
            (false, Some(last)) if rows.len() as i64 == Self::PAGE => last.try_get(0)?,
            (false, _) => String::new(),
        };
        Ok((keys, next))
    }

    /// Takes keys that no other relay has, and reads their first events.
    async fn take(
        &self,
        session: &Session,
        keys: Vec<String>,
    ) -> Result<BTreeMap<String, Vec<Event>>, BoxError> {
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let events = self.pace.events.max(1) as i64;
        let Session { client, take, .. } = session;
        let taken = client.query(take, &[&keys]).await?;
        let taken: Vec<String> = taken.iter().map(|row| row.get(0)).collect();
        // After they are taken: what another relay has removed is not read any more.
        let rows = client.query(&session.read, &[&taken, &events]).await?;
        let mut read: BTreeMap<String, Vec<Event>> = BTreeMap::new();
        let mut put_off = HashSet::new();
        for row in rows {
            let key: String = row.try_get(0)?;
            let is_due: bool = row.try_get(5)?;
            if !is_due || put_off.contains(&key) {
                // It failed meanwhile, and what is behind it waits as well.
                put_off.insert(key);
                continue;
            }
            read.entry(key.clone()).or_default().push(Event {
                number: row.try_get(1)?,
                topic: row.try_get(2)?,
                key,
                payload: Bytes::copy_from_slice(row.try_get(3)?),
                tries: row.try_get::<_, i32>(4)?.unsigned_abs(),
            });
        }
        let doubts = self.store.doubts();
        if doubts.is_open() {
            // They may be on the server alone, with the transactions that they tell of.
            doubts.want();
            read.clear();
        }
        for key in taken.iter().filter(|key| !read.contains_key(*key)) {
            client.execute(&session.give_back, &[key]).await?;
        }
        Ok(read)
    }

    /// Publishes the events of a key one after the other, up to the first that fails.
    async fn publish_in_order(&self, key: String, events: Vec<Event>) -> Done {
        let mut done = Done {
            key,
            published: Vec::with_capacity(events.len()),
            failed: None,
        };
        for event in events {
            let (number, tries) = (event.number, event.tries);
            // One callback that panics must not end the relay, and every key with it.
            let publish = AssertUnwindSafe(async { (self.publish)(event).await });
            let published = timeout(self.pace.patience, publish.catch_unwind()).await;
            let error: BoxError = match published {
                Ok(Ok(Ok(()))) => {
                    done.published.push(number);
                    continue;
                }
                Ok(Ok(Err(error))) => error,
                Ok(Err(_)) => "the callback panicked".into(),
                Err(late) => late.into(),
            };
            tracing::warn!(number, tries, %error, "an event could not be published");
            done.failed = Some((number, tries));
            break;
        }
        done
    }

    /// Removes what was published, puts off what was not, and gives the key back, in this order.
    async fn finish(&self, session: &Session, done: Done) -> Result<(), BoxError> {
        let Done {
            key,
            published,
            failed,
        } = done;
        if !published.is_empty() {
            let remove = &session.remove;
            session.client.execute(remove, &[&key, &published]).await?;
        }
        if let Some((number, tries)) = failed {
            let pause = micros(self.pace.pause(tries));
            let put_off = &session.put_off;
            session
                .client
                .execute(put_off, &[&key, &number, &pause])
                .await?;
        }
        session.client.execute(&session.give_back, &[&key]).await?;
        Ok(())
    }
}
