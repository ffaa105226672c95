//! The judge: what must hold, whatever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use onceward::testing::ManualClock;
use onceward::{Key, Scope, Slot};
use onceward_rig::history::{self, Answer, Event, History, Judgement, Kind, Verb};
use onceward_rig::lab::Lab;

use crate::caller::{Said, Seen, Street};
use crate::notes::Notes;
use crate::plan::Class;
use crate::run::Ran;
use crate::service::{Account, Service};

/// Callers are processes, too; they have the numbers from here on.
const CALLERS: u32 = 2_000;

/// Judges a run that is over.
pub(crate) fn judge(
    notes: &Notes,
    service: &Service,
    street: &Street,
    lab: &Lab,
    clock: &ManualClock,
) -> Ran {
    let answers = street.answers.borrow();
    let accounts = service.accounts.borrow();
    let mut by_key = BTreeMap::<&str, Vec<&Seen>>::new();
    for seen in answers.iter() {
        by_key.entry(&seen.key).or_default().push(seen);
    }
    let mut ran = Ran::default();
    let nothing = Account::default();
    for (key, account) in accounts.iter() {
        if account.effects.len() > 1 {
            notes.broken(format!("{key} has {} effects", account.effects.len()));
        }
    }
    for (key, seen) in &by_key {
        let account = accounts.get(*key).unwrap_or(&nothing);
        check_finals(key, seen, account, notes);
        check_cheats(key, seen, notes);
        check_doubts(key, seen, notes);
        let finals = seen.iter().any(|it| matches!(it.said, Said::Final { .. }));
        let unknown = seen.iter().any(|it| it.said == Said::Unknown);
        ran.settled += u64::from(finals);
        ran.unknown += u64::from(unknown && !finals);
        let replays = seen.iter().filter(|it| is_replay(it));
        ran.replays += replays.count() as u64;
    }
    // Later than everything that was seen.
    clock.advance(Duration::from_millis(10));
    let mut history = lab
        .history()
        .now_or_never()
        .expect("the store is in memory and answers at once");
    add_callers(&mut history, &answers, service);
    let report = history::check(&history);
    if report.judgement != Judgement::Pass {
        notes.broken(report.to_string());
    }
    (ran.trace, ran.faults, ran.broken) = notes.take();
    ran
}

fn is_replay(seen: &Seen) -> bool {
    matches!(seen.said, Said::Final { replayed: true, .. })
}

/// All final answers are one, it is the one that the service gave, and all but the first are
/// marked as replays.
fn check_finals(key: &str, seen: &[&Seen], account: &Account, notes: &Notes) {
    let finals: Vec<_> = seen
        .iter()
        .filter_map(|it| match &it.said {
            Said::Final {
                status,
                body,
                replayed,
            } => Some((it, *status, body.as_str(), *replayed)),
            _ => None,
        })
        .collect();
    let told: BTreeSet<_> = finals
        .iter()
        .map(|(_, status, body, _)| (status, body))
        .collect();
    if told.len() > 1 {
        notes.broken(format!("{key} has several answers: {told:?}"));
    }
    let payloads: BTreeSet<_> = finals.iter().map(|(it, ..)| &it.payload).collect();
    if payloads.len() > 1 {
        notes.broken(format!(
            "{key} is answered for several payloads: {payloads:?}"
        ));
    }
    if finals.iter().filter(|(.., replayed)| !replayed).count() > 1 {
        notes.broken(format!(
            "{key} has several answers that are not called replays"
        ));
    }
    let Some((first, status, body, _)) = finals.first() else {
        return;
    };
    let effect = account.effects.first();
    match (*status, effect) {
        (201, Some(effect)) if effect.receipt == *body && effect.payload == first.payload => {}
        (201, effect) => {
            notes.broken(format!(
                "{key} is answered {body:?}, and has the effect {effect:?}"
            ));
        }
        (402 | 500, None) => {}
        (status, effect) => {
            notes.broken(format!(
                "{key} is answered {status}, and has the effect {effect:?}"
            ));
        }
    }
}

/// Another payload under a key that is settled is a mismatch, always.
fn check_cheats(key: &str, seen: &[&Seen], notes: &Notes) {
    for it in seen.iter().filter(|it| it.cheats) {
        if !matches!(it.said, Said::Mismatch | Said::Later(_)) {
            notes.broken(format!(
                "{key} with another payload is answered {:?}",
                it.said
            ));
        }
    }
    // And without another payload nothing mismatches.
    let payloads: BTreeSet<_> = seen
        .iter()
        .filter(|it| !it.cheats)
        .map(|it| &it.payload)
        .collect();
    let groundless = seen
        .iter()
        .any(|it| !it.cheats && it.said == Said::Mismatch);
    if groundless && payloads.len() == 1 && seen.iter().all(|it| !it.cheats) {
        notes.broken(format!("{key} mismatches, and there is one payload only"));
    }
}

/// Nobody is told that the outcome is unknown where nothing left it in doubt.
fn check_doubts(key: &str, seen: &[&Seen], notes: &Notes) {
    for it in seen.iter().filter(|it| it.said == Said::Unknown) {
        if !notes.may_doubt(key, it.at) {
            notes.broken(format!(
                "{key} is called unknown at {:?} for no reason",
                it.at
            ));
        }
    }
}

/// Adds what callers were told to what was seen at the store.
fn add_callers(history: &mut History, answers: &[Seen], service: &Service) {
    let tenant: Arc<str> = "shared".into();
    for (seen, op_id) in answers.iter().zip(0..) {
        let (answer, body) = match &seen.said {
            Said::Final { body, .. } => (Answer::Replayed, Some(body.as_str().into())),
            Said::Unknown => (Answer::Unknown, None),
            Said::Mismatch | Said::Later(_) => continue,
        };
        let invoke = Event {
            mono_ns: seen.from,
            proc: CALLERS + seen.caller as u32,
            op_id,
            ..Event::invoke(Verb::Claim, &tenant, &name(&seen.key, seen.class, service))
        };
        let told = Event {
            answer: Some(answer),
            body_hash: body,
            ..invoke.ended(Kind::Ok, seen.to)
        };
        history.events.extend([invoke, told]);
    }
    history.events.sort_by_key(|event| event.mono_ns);
}

/// The name of a slot in histories.
fn name(key: &str, class: Class, service: &Service) -> Arc<str> {
    let scope = Scope::new("shared", &format!("POST {}", class.path()));
    let key = Key::parse(key).expect("keys of plans are printable");
    Slot::new(scope, key).id(&service.secret).to_string().into()
}
