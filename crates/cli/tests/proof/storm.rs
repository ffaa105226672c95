//! Retry storms: a crowd on one key that does not let go, while the gateway is killed under it.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use onceward_rig::gateway::{
    Act, Answer, Ask, Gate, Gateway, Origin, Received, Wire, raise_file_limit, until,
};
use onceward_rig::tally::Tally;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::budget::Budget;
use crate::{MEMORY_MAX, ask, durable, mib, number, pay, turn};

/// Callers of the first key: more than may wait for one slot, so that some are turned away.
const CROWD: usize = 10_500;

/// Callers of every other key.
const GROUP: usize = 300;

/// How many may wait for one slot.
const WAITERS_MAX: usize = 10_000;

/// How often a gateway is killed, at the least.
const KILLS: usize = 50;

/// How many callers connect at a time: what a listener holds in line is a matter of the system.
const CONNECTING: usize = 256;

/// How long a caller pauses that was not answered.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a crowd may take to be answered once nothing is killed any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which moment a kill strikes at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moment {
    /// Callers are coming, and hardly anything has happened.
    Arriving,
    /// The service is at work, and the others wait.
    Executing,
    /// The service has answered, and its answer is being stored.
    Storing,
    /// Some have the answer, and the others are getting it.
    Answering,
}

/// What a caller ended up with.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    /// The answer: its status, fields and body.
    Answered(String),
    /// Nobody knows, and a retry would not change it.
    Unknown,
}

/// The callers of one key.
struct Crowd {
    callers: JoinSet<(Fate, bool)>,
    counts: Arc<Counts>,
    size: usize,
}

/// How far a crowd is.
#[derive(Default)]
struct Counts {
    sent: AtomicUsize,
    answered: AtomicUsize,
    retries: AtomicUsize,
}

/// How much had happened when the gateway of now was started.
struct Since {
    executed: usize,
    sent: usize,
}

/// A service that holds its answers back until it is told to give them.
struct Service {
    origin: Origin,
    gate: Arc<Mutex<Gate>>,
}

/// A gateway that is killed and comes back, and where it is.
struct Leader {
    gateway: Option<Gateway>,
    place: watch::Sender<SocketAddr>,
    kills: usize,
    most: u64,
}

// === impl Crowd ===

impl Crowd {
    fn gather(key: &str, size: usize, place: &watch::Sender<SocketAddr>) -> Self {
        let counts = Arc::new(Counts::default());
        let door = Arc::new(Semaphore::new(CONNECTING));
        let asked = Arc::new(pay(key));
        let mut callers = JoinSet::new();
        for _ in 0..size {
            let (counts, door) = (counts.clone(), door.clone());
            callers.spawn(insist(asked.clone(), place.subscribe(), door, counts));
        }
        Self {
            callers,
            counts,
            size,
        }
    }

    fn is_answered(&self) -> bool {
        self.unanswered() == 0
    }

    fn unanswered(&self) -> usize {
        self.size - self.counts.answered.load(Relaxed)
    }

    /// How much has happened by now, and `service` holds back what comes from now on.
    fn mark(&self, service: &Service) -> Since {
        Since {
            executed: service.hold(),
            sent: self.counts.sent.load(Relaxed),
        }
    }

    /// Waits until everybody is answered. Returns what they got, and how often, and how many were
    /// told to be the first.
    async fn answers(self) -> (BTreeMap<Fate, usize>, usize) {
        let all = tokio::time::timeout(PATIENCE, self.callers.join_all()).await;
        let all = all.expect("once nothing is killed, everybody is answered");
        let mut fates = BTreeMap::new();
        let firsts = all.iter().filter(|(_, first)| *first).count();
        for (fate, _) in all {
            *fates.entry(fate).or_default() += 1;
        }
        (fates, firsts)
    }
}

/// Asks until there is an answer that a retry would not change.
async fn insist(
    asked: Arc<Ask>,
    mut place: watch::Receiver<SocketAddr>,
    door: Arc<Semaphore>,
    counts: Arc<Counts>,
) -> (Fate, bool) {
    let bytes = asked.bytes();
    loop {
        let addr = *place.borrow_and_update();
        let sent = async {
            let _entering = door.acquire().await.expect("it is never closed");
            let mut wire = Wire::connect(addr).await?;
            wire.send(&bytes).await?;
            counts.sent.fetch_add(1, Relaxed);
            Ok::<_, std::io::Error>(wire)
        };
        let answer = match sent.await {
            Ok(mut wire) => wire.read().await,
            Err(error) => Err(error),
        };
        let pause = match &answer {
            Ok(answer) => match fate(answer) {
                Some(fate) => {
                    counts.answered.fetch_add(1, Relaxed);
                    let first = fate != Fate::Unknown && !answer.is_replay();
                    return (fate, first);
                }
                None => answer.retry_after().unwrap_or(PAUSE),
            },
            Err(_) => PAUSE,
        };
        counts.retries.fetch_add(1, Relaxed);
        // Whoever hears that the gateway is back does not wait any longer.
        let _ = tokio::time::timeout(pause, place.changed()).await;
    }
}

/// What an answer means for good, if it does.
fn fate(answer: &Received) -> Option<Fate> {
    if !answer.complete {
        return None;
    }
    match (answer.status, answer.problem().as_deref()) {
        (201, None) => {
            let text = format!("{:?} {}", answer.lasting(), answer.text());
            Some(Fate::Answered(text))
        }
        (409, Some("outcome-unknown")) if answer.retry_after().is_none() => Some(Fate::Unknown),
        (409, Some("outcome-unknown" | "in-progress")) | (503, Some("store-unavailable")) => None,
        _ => panic!("nobody should get {}: {}", answer.status, answer.text()),
    }
}

// === impl Service ===

impl Service {
    /// A service that does the work of a key once, and repeats its first answer, if it `dedups`.
    async fn start(dedups: bool) -> Self {
        let gate = Arc::new(Mutex::new(Gate::new()));
        let now = gate.clone();
        let done = Mutex::new(HashMap::new());
        let number = AtomicUsize::new(0);
        let origin = Origin::scripted(move |seen| {
            let mut next = || number.fetch_add(1, Relaxed);
            let number = match dedups {
                true => *done.lock().entry(seen.key()).or_insert_with(&mut next),
                false => next(),
            };
            Act::Answer(Answer::receipt(number).after(&now.lock()))
        })
        .await;
        Self { origin, gate }
    }

    /// Holds back what comes from now on. Returns how much came before.
    fn hold(&self) -> usize {
        *self.gate.lock() = Gate::new();
        self.origin.count()
    }

    fn release(&self) {
        self.gate.lock().open();
    }

    /// Checks the attempts of a key. Opaque work has one at the most; the others have one for
    /// each gateway at the most, and tell in which order they come.
    fn check(&self, key: &str, most: usize) {
        let seen = self.origin.seen();
        let attempts: Vec<_> = seen
            .iter()
            .filter(|seen| seen.key().as_deref() == Some(key))
            .map(|seen| (seen.attempt().unwrap(), seen.fence().unwrap().to_owned()))
            .collect();
        assert!(attempts.len() <= most, "{key}: {attempts:?}");
        let in_order = attempts.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1);
        assert!(in_order, "{key}: {attempts:?}");
    }
}

// === impl Leader ===

impl Leader {
    async fn start(origin: &Origin, effect: &str) -> Self {
        let config = format!(
            "[limits]\nconnections = 16000\nidle_timeout = \"300s\"\n\
             [defaults]\nwait = \"25s\"\nupstream_timeout = \"300s\"\neffect = \"{effect}\"\n"
        );
        let gateway = durable(origin).config(&config).start().await;
        Self {
            place: watch::Sender::new(gateway.addr()),
            gateway: Some(gateway),
            kills: 0,
            most: 0,
        }
    }

    fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("it is back")
    }

    fn measure(&mut self) {
        let (_, most) = self.gateway().memory();
        assert!(most <= MEMORY_MAX, "{} MiB", mib(most));
        self.most = self.most.max(most);
    }

    async fn kill(&mut self) {
        self.measure();
        let mut gateway = self.gateway.take().expect("it is back");
        gateway.kill9().await;
        let gateway = gateway.restart().await;
        self.place.send_replace(gateway.addr());
        self.gateway = Some(gateway);
        self.kills += 1;
    }
}

/// Waits for the moment, which may have passed for good.
async fn await_moment(moment: Moment, service: &Service, since: &Since, crowd: &Crowd) {
    let executing = || async {
        let over = crowd.counts.answered.load(Relaxed) > 0;
        (over || service.origin.count() > since.executed).then_some(())
    };
    if moment != Moment::Arriving {
        until("somebody executes", executing).await;
    }
    match moment {
        Moment::Arriving => {
            // Whoever has come once may wait at the gateway for long: nobody else can be hoped for
            // than who is not answered yet.
            let some = fastrand::usize(1..=crowd.size / 4);
            let there = || async {
                let came = crowd.counts.sent.load(Relaxed) - since.sent;
                (came >= some.min(crowd.unanswered())).then_some(())
            };
            until("callers come", there).await;
        }
        Moment::Executing => {}
        Moment::Storing => {
            service.release();
            let span = Duration::from_micros(fastrand::u64(0..4_000));
            tokio::time::sleep(span).await;
        }
        Moment::Answering => {
            service.release();
            let some = fastrand::usize(1..=crowd.size / 2);
            let there = || async {
                let answered = crowd.counts.answered.load(Relaxed);
                (answered >= some).then_some(())
            };
            until("callers are answered", there).await;
        }
    }
}

/// Waits until nearly as many wait as may, and returns how many that were. A machine that does much
/// else may take so long to let them in that the first leave again: then fewer must do.
async fn all_wait(leader: &Leader, crowd: &Crowd) -> usize {
    let full = crowd.size.min(WAITERS_MAX);
    let mut most = 0;
    let looked = async {
        while most < full * 9 / 10 {
            let waiting = number(leader.gateway(), "onceward_waiters ").await as usize;
            assert!(waiting <= WAITERS_MAX, "{waiting} wait for one slot");
            most = most.max(waiting);
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE / 6, looked).await;
    let came = crowd.counts.sent.load(Relaxed);
    assert!(most >= full / 20, "only {most} of {came} have waited");
    most
}

async fn storm(proof: &str, effect: &str, seconds: u64) {
    let _turn = turn().await;
    let files = usize::try_from(raise_file_limit()).unwrap();
    let size = CROWD.min(files.saturating_sub(500));
    assert!(size >= 1000, "only {files} files can be open");
    let keyed = effect == "keyed";
    let service = Service::start(keyed).await;
    let mut leader = Leader::start(&service.origin, effect).await;
    let budget = Budget::seconds(seconds);
    let mut fates = HashMap::new();
    let (mut callers, mut retries, mut unknown, mut waiting) = (0, 0, 0, 0);
    while leader.kills < KILLS || budget.lasts() {
        let number = fates.len();
        let key = format!("storm-{number}");
        let (size, moments) = match number {
            0 => (size, vec![Moment::Executing, Moment::Answering]),
            _ => (GROUP, moments(number)),
        };
        let mut since = Since {
            executed: service.hold(),
            sent: 0,
        };
        let crowd = Crowd::gather(&key, size, &leader.place);
        let counts = crowd.counts.clone();
        let mut kills = 0;
        for moment in moments {
            if crowd.is_answered() {
                break;
            }
            if moment == Moment::Executing && number == 0 {
                waiting = all_wait(&leader, &crowd).await;
            } else {
                await_moment(moment, &service, &since, &crowd).await;
            }
            since = crowd.mark(&service);
            leader.kill().await;
            kills += 1;
        }
        service.release();
        let (answers, firsts) = crowd.answers().await;
        retries += counts.retries.load(Relaxed);
        assert_eq!(answers.len(), 1, "{key}: more than one answer: {answers:?}");
        let (fate, count) = answers.into_iter().next().unwrap();
        assert_eq!(count, size);
        assert!(firsts <= 1, "{key}: {firsts} were told to be the first");
        assert!(!keyed || fate != Fate::Unknown, "{key}: nobody finds out");
        service.check(&key, if keyed { kills + 1 } else { 1 });
        unknown += usize::from(fate == Fate::Unknown);
        callers += size;
        fates.insert(key, fate);
    }
    // What everybody was told stays true.
    leader.kill().await;
    let executed = service.origin.count();
    for (key, told) in &fates {
        let again = ask(leader.gateway(), &pay(key)).await;
        assert_eq!(fate(&again).as_ref(), Some(told), "{key}: {again:?}");
    }
    assert_eq!(service.origin.count(), executed, "a retry was executed");
    assert!(unknown < fates.len(), "no key was ever answered");
    leader.measure();
    let note = format!(
        "{} keys, {} kills, {retries} retries, {unknown} keys unknown, {waiting} waited at once, \
         {} MiB at the most",
        fates.len(),
        leader.kills,
        mib(leader.most)
    );
    Tally::record(proof, callers as u64, None, 0, &note);
}

/// When the gateway is killed while a key is asked for: every order comes in turn.
fn moments(number: usize) -> Vec<Moment> {
    use Moment::{Answering, Arriving, Executing, Storing};
    match number % 5 {
        0 => vec![Arriving, Executing, Storing],
        1 => vec![Storing, Arriving],
        2 => vec![Answering, Arriving],
        3 => vec![Arriving, Storing, Answering],
        _ => vec![Arriving, Arriving, Executing],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_on_a_keyed_route_gets_one_answer_whoever_is_killed() {
    storm("retry storm, keyed", "keyed", 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_on_an_opaque_route_gets_one_answer_whoever_is_killed() {
    storm("retry storm, opaque", "opaque", 5).await;
}
