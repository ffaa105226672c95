//! What callers and the service saw, in the words of the judge.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures_util::StreamExt as _;
use futures_util::stream;
use onceward::clock::{Clock as _, SystemClock};
use onceward::{Engine, Key, Scope, Slot, State};
use onceward_rig::gateway::{Received, Seen};
use onceward_rig::history::{
    self, Answer, Class, Event, Expectations, Fence, FinalRead, History, Kind, LedgerRow, Verb,
};
use parking_lot::Mutex;

/// Whose keys they are: on loopback all callers without a credential are one.
const TENANT: &str = "shared";

/// What is written down while a run goes on.
#[derive(Default)]
pub(super) struct Record {
    operations: AtomicU64,
    seen: Mutex<History>,
}

/// A moment on the clock of the run.
fn now() -> u64 {
    SystemClock.stopwatch().as_nanos() as u64
}

// === impl Record ===

impl Record {
    /// Writes down that a caller asks for `key`, and returns the line.
    pub(super) fn asks(&self, key: &Arc<str>, class: Class) -> Event {
        let number = self.operations.fetch_add(1, Relaxed);
        let event = Event {
            mono_ns: now(),
            // Every call is a process of its own: nothing orders it but time.
            proc: number as u32,
            op_id: number,
            class: Some(class),
            ..Event::invoke(Verb::Claim, &TENANT.into(), key)
        };
        self.seen.lock().events.push(event.clone());
        event
    }

    /// Writes down what the caller was told, if it was told anything.
    pub(super) fn told(&self, call: &Event, answer: Option<&Received>) {
        let problem = answer.and_then(Received::problem);
        let (said, body) = match (answer, problem.as_deref()) {
            (None, _) => (None, None),
            (Some(answer), None) => (Some(Answer::Replayed), Some(answer.text().into())),
            (Some(_), Some("outcome-unknown")) => (Some(Answer::Unknown), None),
            (Some(_), Some(_)) => (Some(Answer::Busy), None),
        };
        let kind = said.map_or(Kind::Info, |_| Kind::Ok);
        let event = Event {
            answer: said,
            body_hash: body,
            ..call.ended(kind, now())
        };
        self.seen.lock().events.push(event);
    }

    /// Writes down that the service did the work of a request, and what it answers.
    pub(super) fn effect(&self, seen: &Seen, receipt: &str) {
        let fence = seen.fence().and_then(|fence| fence.parse::<Fence>().ok());
        let row = LedgerRow {
            tenant: TENANT.into(),
            key: seen.key().expect("everybody sends a key").into(),
            mark: fence,
            fence,
            resp_hash: Some(receipt.into()),
            t: now(),
            ..LedgerRow::default()
        };
        self.seen.lock().ledger.push(row);
    }

    /// Reads every record in the end, and returns all that is known of the run.
    pub(super) async fn history(&self, url: &str, kills: usize) -> History {
        let mut history = std::mem::take(&mut *self.seen.lock());
        history.events.sort_by_key(|event| event.mono_ns);
        let url = url.parse().expect("the rig's URLs can be read");
        let store = tokio::task::spawn_blocking(move || onceward_stores::open(&url));
        let store = store.await.expect("it does not panic");
        let engine = Engine::builder(store.expect("the database serves")).build();
        let mut keys: Vec<_> = history
            .events
            .iter()
            .map(|event| (event.key.clone(), event.class))
            .filter_map(|(key, class)| Some((key, class?)))
            .collect();
        keys.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        keys.dedup_by(|one, other| one.0 == other.0);
        let reads = keys
            .into_iter()
            .map(|(key, class)| last_read(&engine, key, class));
        let reads = stream::iter(reads).buffer_unordered(super::ASKING);
        history.finals = reads.collect().await;
        history.faults.insert("kill".into(), kills as u64);
        history.expectations = Expectations {
            black_box: true,
            successes_min: 100,
            faults_min: [("kill".into(), 5)].into(),
            ..Expectations::default()
        };
        history
    }
}

async fn last_read(engine: &Engine, key: Arc<str>, class: Class) -> FinalRead {
    let path = match class {
        Class::Keyed => "POST /keyed",
        _ => "POST /payments",
    };
    let slot = Slot::new(Scope::new(TENANT, path), Key::parse(&key).unwrap());
    let id = engine.id_of(&slot).await.unwrap();
    let found = engine.inspect(id).await.unwrap();
    let read = FinalRead {
        mono_ns: now(),
        tenant: TENANT.into(),
        key,
        ..FinalRead::default()
    };
    let Some(found) = found else {
        return read;
    };
    let fence = |fence: onceward::Fence| fence.to_string().parse().ok();
    FinalRead {
        state: match &found.record.state {
            State::Claimed(_) => history::State::Claimed,
            State::Completed(_) => history::State::Completed,
            State::Unknown(_) => history::State::Unknown,
            State::Open => history::State::Open,
            State::Reserved(_) => history::State::Absent,
        },
        body_hash: found.record.outcome().and_then(|outcome| {
            let body = outcome.body()?;
            Some(String::from_utf8_lossy(body).into())
        }),
        mark: found.record.mark.and_then(fence),
        generation: fence(found.record.generation),
        ..read
    }
}
