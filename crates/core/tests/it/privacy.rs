//! What is never shown: keys may hold personal data, and so may answers and payloads.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::store::Filter;
use onceward::testing::{ExpectLost, ExpectRun, ExpectVerdict, Fault, World};
use onceward::{Done, Effect, OnBusy, Outcome, Secret};
use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::format::FmtSpan;

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "alice@example.com-4711";
const ANSWER: &str = "card 4242-4242";
const PAYLOAD: &str = "iban DE02";

#[track_caller]
fn shows_nothing(shown: &str) {
    for hidden in [KEY, ANSWER, PAYLOAD] {
        assert!(!shown.contains(hidden), "{hidden} is shown: {shown}");
    }
}

/// Everything that is logged while this lives.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(&self) -> (DefaultGuard, Dispatch) {
        // A lone dispatcher is taken for that of all threads, so a test on another one would
        // decide whether a line is worth logging here.
        let another = Dispatch::new(tracing_subscriber::registry());
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        (tracing::subscriber::set_default(subscriber), another)
    }

    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no test panics while it logs").clone();
        String::from_utf8(bytes).expect("a log is text")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().expect("no test panics while it logs");
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn no_log_line_shows_a_key_an_answer_or_a_payload() {
    let log = Log::default();
    let _listening = log.listen();
    let world = World::new()
        .payload(PAYLOAD)
        .effect(Effect::Keyed)
        .policy(|policy| policy.on_busy(OnBusy::Refuse));
    // Everything that is worth a line: failures, losses, late results, retries, a shutdown.
    let late = world.begin(KEY).await.expect_claim();
    world.store.fail_next(Fault::Error);
    world.pass(world.policy.lease / 2).await;
    world.clock.advance(world.policy.lease);
    let node = world.node();
    let run = node.run(KEY, |_| async { Done::outcome(ANSWER) });
    run.await.expect_first();
    world.pass(world.policy.lease).await;
    late.complete("late").await.unwrap_err().expect_lost();
    let claim = world.begin("other").await.expect_claim();
    world.store.fail_next(Fault::Error);
    claim.complete(ANSWER).await.unwrap();
    let _left = world.begin("left").await.expect_claim();
    world.store.set_down(true);
    let (refused, ()) = tokio::join!(world.try_begin(KEY), world.pass(6 * SECOND));
    shows_nothing(&format!("{refused:?}"));
    world.engine.shutdown(world.policy.lease).await;

    let text = log.text();
    shows_nothing(&text);
    for line in [
        "begin",
        "run",
        "late completion",
        "not renewed",
        "lost while",
        "left to lapse",
    ] {
        assert!(text.contains(line), "{line} is missing: {text}");
    }
}

#[tokio::test]
async fn debug_shows_no_key_no_answer_and_no_payload() {
    let world = World::new().payload(PAYLOAD);
    let slot = world.slot(KEY);
    let claim = world.begin(KEY).await.expect_claim();
    shows_nothing(&format!("{slot:?} {claim:?} {claim:#?}"));
    let arrival = world
        .engine
        .prepare(&slot, &world.fingerprint())
        .await
        .unwrap();
    shows_nothing(&format!("{arrival:?}"));
    claim.complete(ANSWER).await.unwrap();
    let record = world.record(KEY).await.unwrap();
    let verdict = world.begin(KEY).await;
    shows_nothing(&format!(
        "{record:?} {verdict:?} {:?}",
        Outcome::success(ANSWER)
    ));
    let page = world
        .engine
        .list(&Filter::default(), None, 10)
        .await
        .unwrap();
    shows_nothing(&format!("{page:?} {:?} {:#?}", world.engine, world.engine));
}

#[tokio::test]
async fn debug_of_a_claim_is_short_however_many_there_are() {
    let world = World::new();
    let mut claims = Vec::new();
    for nth in 0..200 {
        claims.push(world.begin(&format!("k{nth}")).await.expect_claim());
    }
    assert!(format!("{:#?}", claims[0]).len() < 1_000);
    assert!(format!("{:#?}", world.engine).len() < 1_000_000);
}

#[tokio::test]
async fn errors_name_slots_by_their_digest() {
    let world = World::new().payload(PAYLOAD);
    let run = world.run(KEY, |_| async { Done::unknown("timeout") });
    let unknown = run.await.unwrap_err();
    shows_nothing(&format!("{unknown} {unknown:?}"));
    world.store.fail_next(Fault::Unreadable);
    let unreadable = world.try_begin(KEY).await.unwrap_err();
    shows_nothing(&format!("{unreadable} {unreadable:?}"));
}

#[tokio::test]
async fn the_secret_is_not_shown_by_whatever_holds_it() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    let given =
        onceward::Engine::builder(world.store.clone()).secret(Secret::from_bytes([0xab; 32]));
    let shown = format!("{given:?} {:?} {:?}", world.engine, given);
    assert!(
        !shown.contains("171, 171") && !shown.contains("abab"),
        "{shown}"
    );
}
