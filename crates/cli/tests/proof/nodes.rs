//! Two gateways on one database, killed again and again: one execution per key, wherever its
//! callers land, and what everybody was told is held against the service's own ledger.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use onceward_rig::gateway::{Act, Answer, Ask, Gateway, Launch, Origin, Received, Seen};
use onceward_rig::history::{self, Class, History};
use onceward_rig::postgres::Server;
use onceward_rig::tally::Tally;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::record::Record;
use crate::budget::Budget;
use crate::turn;

mod record;

/// How many keys are asked for at a time.
const KEYS: usize = 8;

/// How many callers a key has: half of them begin at each gateway.
const CALLERS: usize = 4;

/// How many ask at a time in the end.
const ASKING: usize = 32;

/// How long a caller pauses that was not answered.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the callers of a key may take once nothing is killed any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is told of both kinds of work: how it is asked for, and who remembers it.
const CONFIG: &str = "\
[defaults]
lease = \"500ms\"
[[route]]
match = \"POST /keyed\"
effect = \"keyed\"
";

/// Where the gateways are now.
type Places = [watch::Receiver<SocketAddr>; 2];

/// What a caller ended up with: the answer, or that nobody knows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    Answered(String),
    Unknown,
}

/// What became of one key.
struct Told {
    asked: Ask,
    fate: Fate,
    /// How many were told to be the first.
    firsts: usize,
    /// Whether callers of both gateways got the answer.
    met: bool,
}

/// A gateway that is killed and comes back.
struct Node {
    gateway: Option<Gateway>,
    place: watch::Sender<SocketAddr>,
}

/// The service: does keyed work once, and repeats its first answer; does opaque work as often as
/// it is asked.
fn service(record: Arc<Record>) -> impl Fn(&Seen) -> Act + Send + Sync + 'static {
    let done = Mutex::new(HashMap::<String, usize>::new());
    let number = AtomicUsize::new(0);
    move |seen| {
        let key = seen.key().expect("everybody sends a key");
        let mut done = done.lock();
        let known = done.get(&key).filter(|_| seen.target == "/keyed");
        let receipt = known.copied().unwrap_or_else(|| {
            let receipt = number.fetch_add(1, Relaxed);
            record.effect(seen, &format!("receipt {receipt}"));
            receipt
        });
        done.insert(key, receipt);
        Answer::receipt(receipt).into()
    }
}

// === impl Node ===

impl Node {
    async fn start(launch: Launch) -> Self {
        let gateway = launch.start().await;
        Self {
            place: watch::Sender::new(gateway.addr()),
            gateway: Some(gateway),
        }
    }

    async fn kill(&mut self) {
        let mut gateway = self.gateway.take().expect("it is back");
        gateway.kill9().await;
        let gateway = gateway.restart().await;
        self.place.send_replace(gateway.addr());
        self.gateway = Some(gateway);
    }
}

/// Asks, now here and now there, until there is an answer that a retry would not change.
async fn insist(
    asked: Ask,
    key: Arc<str>,
    class: Class,
    mut places: Places,
    mut at: usize,
    record: Arc<Record>,
) -> (Fate, bool, usize) {
    loop {
        let addr = *places[at].borrow_and_update();
        let call = record.asks(&key, class);
        let answer = onceward_rig::gateway::ask(addr, &asked).await;
        let answer = answer.ok().filter(|answer| answer.complete);
        record.told(&call, answer.as_ref());
        if let Some(answer) = &answer
            && let Some(fate) = fate(answer)
        {
            let first = fate != Fate::Unknown && !answer.is_replay();
            return (fate, first, at);
        }
        // Whoever hears that the gateway is back does not wait any longer.
        let _ = tokio::time::timeout(PAUSE, places[at].changed()).await;
        at = 1 - at;
    }
}

/// What an answer means for good, if it does.
fn fate(answer: &Received) -> Option<Fate> {
    match (answer.status, answer.problem().as_deref()) {
        (201, None) => Some(Fate::Answered(answer.text())),
        (409, Some("outcome-unknown")) if answer.retry_after().is_none() => Some(Fate::Unknown),
        (409, Some("outcome-unknown" | "in-progress")) => None,
        _ => panic!("nobody should get {}: {}", answer.status, answer.text()),
    }
}

/// Has some callers at each gateway ask for one key, and waits until all of them are answered.
async fn ask_for(number: usize, places: Places, record: Arc<Record>) -> Told {
    let (path, class) = match number % 2 {
        0 => ("/payments", Class::Opaque),
        _ => ("/keyed", Class::Keyed),
    };
    let key: Arc<str> = format!("key-{number}").into();
    let asked = Ask::post(path).key(&key);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (places, record) = (places.clone(), record.clone());
        callers.spawn(insist(
            asked.clone(),
            key.clone(),
            class,
            places,
            caller % 2,
            record,
        ));
    }
    let all = tokio::time::timeout(PATIENCE, callers.join_all()).await;
    let all = all.unwrap_or_else(|_| panic!("the callers of {key} are not answered"));
    let fates: BTreeMap<_, usize> = all.iter().map(|(fate, _, at)| (fate, *at)).collect();
    assert_eq!(fates.len(), 1, "{key}: more than one answer: {fates:?}");
    Told {
        asked,
        fate: all[0].0.clone(),
        firsts: all.iter().filter(|(_, first, _)| *first).count(),
        met: (0..2).all(|node| all.iter().any(|(.., at)| *at == node)),
    }
}

/// Asks for key after key, and kills one gateway after the other meanwhile. Returns what everybody
/// was told, and how often a gateway was killed.
async fn harass(nodes: &mut [Node; 2], record: &Arc<Record>) -> (Vec<Told>, usize) {
    let places = nodes.each_ref().map(|node| node.place.subscribe());
    let mut asking = JoinSet::new();
    let (mut told, mut asked, mut kills) = (Vec::new(), 0, 0);
    let budget = Budget::seconds(15);
    while budget.lasts() {
        let span = Duration::from_millis(fastrand::u64(0..300));
        let node = &mut nodes[kills % 2];
        let kill = async {
            tokio::time::sleep(span).await;
            node.kill().await;
        };
        tokio::pin!(kill);
        loop {
            while asking.len() < KEYS {
                asking.spawn(ask_for(asked, places.clone(), record.clone()));
                asked += 1;
            }
            tokio::select! {
                () = &mut kill => break,
                Some(one) = asking.join_next() => told.push(one.unwrap()),
            }
        }
        kills += 1;
    }
    told.extend(asking.join_all().await);
    (told, kills)
}

/// Checks that what everybody was told stays true, at both gateways, and that nothing is executed
/// any more.
async fn ask_again(nodes: &[Node; 2], told: &[Told], origin: &Origin) {
    let executed = origin.count();
    let asks = told.iter().flat_map(|one| {
        let nodes = nodes.iter().map(|node| *node.place.borrow());
        nodes.map(async move |addr| {
            let again = onceward_rig::gateway::ask(addr, &one.asked).await;
            let again = again.expect("nobody is killed any more");
            assert_eq!(fate(&again).as_ref(), Some(&one.fate), "{again:?}");
        })
    });
    let asks = stream::iter(asks).buffer_unordered(ASKING);
    asks.collect::<()>().await;
    assert_eq!(origin.count(), executed, "a retry was executed");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_on_one_database_execute_a_key_once_whoever_is_killed() {
    let _turn = turn().await;
    let server = Server::start().await;
    let record = Arc::new(Record::default());
    let origin = Origin::scripted(service(record.clone())).await;
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    let launch = launch.argument("--store", &server.url()).config(CONFIG);
    let mut nodes = [Node::start(launch.clone()).await, Node::start(launch).await];
    let (told, kills) = harass(&mut nodes, &record).await;
    ask_again(&nodes, &told, &origin).await;
    let history = record.history(&server.url(), kills).await;
    report(&history, &told, kills);
}

/// Judges the run, and notes how much there was of it.
fn report(history: &History, told: &[Told], kills: usize) {
    let judged = history::check(history);
    if !judged.is_pass() {
        let path = std::env::temp_dir().join("onceward-two-gateways.jsonl");
        let file = std::fs::File::create(&path).expect("a file for the history");
        history.write_jsonl(file).expect("it is written");
        panic!("{judged}\nthe history is in {}", path.display());
    }
    let twice = told.iter().filter(|one| one.firsts > 1).count();
    assert_eq!(twice, 0, "several callers were told to be the first");
    let unknown = told.iter().filter(|one| one.fate == Fate::Unknown).count();
    let met = told.iter().filter(|one| one.met).count();
    assert!(kills >= 5 && met > 20 && unknown < told.len() / 2);
    let calls = judged.counts.events / 2;
    let note = format!(
        "{} keys, {kills} kills, {unknown} keys unknown, {met} answered on both, \
         0 second executions",
        told.len()
    );
    Tally::record("two gateways on PostgreSQL, kill -9", calls, None, 0, &note);
}
