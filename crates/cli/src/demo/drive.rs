//! `onceward demo --drive`: the same noise twice, without and with the gateway.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;

use onceward_gateway::config::AdminListen;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::client::{Answer, Client};
use self::report::{Report, Run};
use self::schedule::{Attempt, Operation, Round};
use super::front::Front;
use super::ledger::Ledger;
use super::start_service;
use crate::console::Console;
use crate::exit::Failure;
use crate::serve::told_to_end;

mod client;
mod report;
mod schedule;

/// With fewer operations chance could hide what is to be shown.
pub(super) const OPERATIONS_MIN: i64 = 50;

/// How many operations are under way at a time.
const AT_ONCE: usize = 16;

/// After how many operations progress is told.
const PROGRESS_EVERY: usize = 20;

/// After so many rounds without an answer something is broken, and not merely noisy.
const ROUNDS_MAX: usize = 30;

/// How an operation ended for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    Charged,
    /// It was told that nobody knows, and stopped.
    Unknown,
    /// It gave up.
    Unanswered,
}

/// What a client saw of an operation.
#[derive(Debug)]
struct Seen {
    ended: Ended,
    attempts: usize,
    answers: Vec<Answer>,
    in_parallel: usize,
    changed: usize,
}

/// Runs the schedule twice, and reports what the ledgers say.
pub(super) async fn run(operations: u32, seed: u64, console: &Console) -> Result<Report, Failure> {
    let schedule = schedule::draw(operations, seed);
    let mut told = pin!(told_to_end());

    console.say("without the gateway:");
    let service = start_service().await?;
    let all = perform_all(&schedule, service.addr, console);
    let seen = unless(told.as_mut(), all).await?;
    let without = tally(&seen, &service.ledger)?;

    console.say("with the gateway:");
    let service = start_service().await?;
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let front = Front::start(&service, anywhere, AdminListen::Off).await?;
    let all = perform_all(&schedule, front.addr, console);
    let seen = unless(told, all).await;
    // Ended in any case, for it has a folder to remove.
    let waits = front.end().await?.waits;
    let with = tally(&seen?, &service.ledger)?;

    let report = Report {
        seed,
        operations: schedule.len(),
        keyed: schedule.iter().filter(|operation| operation.keyed).count(),
        without,
        with,
        waits,
    };
    report.check()?;
    Ok(report)
}

/// Does `work`, unless somebody does not want to wait for its end.
async fn unless<T>(
    told: Pin<&mut impl Future<Output = ()>>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = told => {
            let hint = "let it run to its end for a report, or use fewer --operations";
            Err(Failure::new("told to end before everything was tried", hint))
        }
        done = work => done,
    }
}

/// Performs all operations, some at a time, each until it is answered.
async fn perform_all(
    schedule: &[Operation],
    to: SocketAddr,
    console: &Console,
) -> Result<Vec<Seen>, Failure> {
    let seats = Arc::new(Semaphore::new(AT_ONCE));
    let mut under_way = JoinSet::new();
    for operation in schedule {
        let (operation, seats) = (operation.clone(), Arc::clone(&seats));
        under_way.spawn(async move {
            let _seat = seats.acquire().await.expect("nobody closes it");
            perform(&operation, to).await
        });
    }
    let mut all = Vec::with_capacity(schedule.len());
    while let Some(seen) = under_way.join_next().await {
        all.push(seen.map_err(|error| {
            Failure::new(
                format!("the client broke: {error}"),
                "this is a mistake of ours",
            )
        })?);
        if all.len().is_multiple_of(PROGRESS_EVERY) || all.len() == schedule.len() {
            let attempts: usize = all.iter().map(|seen| seen.attempts).sum();
            let (ended, of) = (all.len(), schedule.len());
            console.say(format_args!(
                "  {ended} of {of} operations after {attempts} attempts"
            ));
        }
    }
    Ok(all)
}

/// Performs one operation: the rounds of its schedule, and then plain ones, until it is answered.
async fn perform(operation: &Operation, to: SocketAddr) -> Seen {
    let mut seen = Seen {
        ended: Ended::Unanswered,
        attempts: 0,
        answers: Vec::new(),
        in_parallel: 0,
        changed: 0,
    };
    let plain = Round::plain(operation.amount);
    let rounds = operation.rounds.iter().chain(std::iter::repeat(&plain));
    for round in rounds.take(ROUNDS_MAX) {
        seen.note(operation, round);
        let answers = attempt_all(operation, &round.at_once, to).await;
        let ended = ended(&answers, operation.keyed);
        seen.answers.extend(answers);
        if let Some(ended) = ended {
            seen.ended = ended;
            break;
        }
        tokio::time::sleep(round.pause).await;
    }
    seen
}

/// Makes the attempts of one round at once, and waits for them all.
async fn attempt_all(operation: &Operation, attempts: &[Attempt], to: SocketAddr) -> Vec<Answer> {
    let mut at_once = JoinSet::new();
    for &attempt in attempts {
        let client = Client::new(to, operation, attempt);
        at_once.spawn(async move { client.attempt().await });
    }
    at_once.join_all().await
}

/// Decides whether a client is done with its operation.
///
/// Where the service knows keys, a client that is told that nobody knows may ask again: that is
/// what makes it known.
fn ended(answers: &[Answer], keyed: bool) -> Option<Ended> {
    let charged = |answer: &Answer| matches!(answer, Answer::Charged { .. });
    if answers.iter().any(charged) {
        return Some(Ended::Charged);
    }
    let told = answers.contains(&Answer::Unknown);
    (told && !keyed).then_some(Ended::Unknown)
}

/// Counts what the clients saw beside what the ledger says.
fn tally(seen: &[Seen], ledger: &Ledger) -> Result<Run, Failure> {
    let unanswered = seen.iter().filter(|seen| seen.ended == Ended::Unanswered);
    match unanswered.count() {
        0 => {}
        count => {
            return Err(Failure::new(
                format!("{count} operations had no answer after {ROUNDS_MAX} rounds"),
                "try again when the machine is less busy",
            ));
        }
    }
    let answered = |wanted: fn(&Answer) -> bool| {
        let answers = seen.iter().flat_map(|seen| &seen.answers);
        answers.filter(|answer| wanted(answer)).count()
    };
    let told_unknown = |seen: &&Seen| seen.ended == Ended::Unknown;
    Ok(Run {
        attempts: seen.iter().map(|seen| seen.attempts).sum(),
        balance: ledger.balance(),
        replays: answered(|answer| matches!(answer, Answer::Charged { replayed: true })),
        refusals: answered(|answer| matches!(answer, Answer::Refused)),
        cut: answered(|answer| matches!(answer, Answer::None)),
        unknown: seen.iter().filter(told_unknown).count(),
        answers_lost: ledger.answers_lost(),
        in_parallel: seen.iter().map(|seen| seen.in_parallel).sum(),
        changed: seen.iter().map(|seen| seen.changed).sum(),
    })
}

// === impl Seen ===

impl Seen {
    fn note(&mut self, operation: &Operation, round: &Round) {
        self.attempts += round.at_once.len();
        self.in_parallel += round.at_once.len() - 1;
        let changed = |attempt: &&Attempt| attempt.amount != operation.amount;
        self.changed += round.at_once.iter().filter(changed).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_charge_ends_an_operation() {
        let charged = Answer::Charged { replayed: false };
        let answers = [Answer::Unknown, Answer::None, charged];
        assert_eq!(ended(&answers, false), Some(Ended::Charged));
    }

    #[test]
    fn nobody_knows_ends_an_operation_unless_the_service_knows_keys() {
        let answers = [Answer::Again, Answer::Unknown];
        assert_eq!(ended(&answers, false), Some(Ended::Unknown));
        assert_eq!(ended(&answers, true), None);
    }

    #[test]
    fn silence_and_refusals_of_a_changed_payload_go_on() {
        assert_eq!(ended(&[Answer::None, Answer::Again], false), None);
        assert_eq!(ended(&[Answer::Refused], false), None);
    }
}
