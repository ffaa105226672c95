//! Orders: business identities, for which callers make up a new key at every try.

use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;
use onceward::{Arrival, Fingerprint, Identity, Key, Scope, Secret, Slot, Then};
use parking_lot::Mutex;

use super::plan::{Job, Payload, Route};
use crate::history;
use crate::lab::Recorder;

/// Something that is to be done once, whatever the keys.
#[derive(Debug)]
pub(super) struct Order {
    name: String,
    /// One identity or two, in the order in which callers name them, or the other way round.
    identities: Vec<Identity>,
    /// What callers ask for, each under a key of its own.
    pub(super) jobs: Vec<Arc<Job>>,
    /// The same under a key that nobody uses until trouble is over.
    pub(super) spare: Arc<Job>,
    /// The answers to which callers were referred who were refused.
    referred: Mutex<Vec<Arc<str>>>,
}

// === impl Order ===

impl Order {
    /// Draws the orders of a run. Both tenants have some of the same name.
    pub(super) fn draw_all(rng: &mut Rng, secret: &Secret, recorder: &Recorder) -> Vec<Self> {
        let count = rng.usize(2..=6);
        let draw = |at| Self::draw(rng, (at, count), secret, recorder);
        (0..count).map(draw).collect()
    }

    fn draw(
        rng: &mut Rng,
        (at, count): (usize, usize),
        secret: &Secret,
        recorder: &Recorder,
    ) -> Self {
        // Work that may be repeated is not for anything that is to happen once.
        let routes = [Route::Opaque, Route::Keyed, Route::Probed, Route::Staged];
        let route = routes[rng.usize(..routes.len())];
        let scope = Scope::new(["ada", "bob"][at % 2], route.name());
        let then = [Then::Return, Then::Refuse][usize::from(rng.f64() < 0.3)];
        let number = (at / 2).to_string();
        let mut identities = vec![Identity::unique("paid-order", number.clone(), then)];
        if rng.f64() < 0.4 {
            identities.push(Identity::unique("invoice", number, then));
        }
        // Keys are used for another order of the same caller at times, with another payload.
        let other = Some((at + 2) % count).filter(|other| *other != at && other % 2 == at % 2);
        let job = |number: usize| {
            let key = Key::parse(&format!("try-{number} of {at}")).expect("the key is printable");
            let slot = Slot::new(scope.clone(), key);
            let id = slot.id(secret);
            let payload = |order: Option<usize>, bytes: &[u8]| {
                let fingerprint = Fingerprint::of(bytes);
                Payload {
                    name: recorder.payload(&fingerprint.seal(secret, id)),
                    fingerprint,
                    order,
                }
            };
            Arc::new(Job {
                route,
                payloads: [payload(Some(at), b"100"), payload(other, b"900")],
                slot,
                id,
            })
        };
        let keys = rng.usize(3..=6);
        Self {
            name: format!("{at}"),
            identities,
            jobs: (1..=keys).map(job).collect(),
            spare: job(0),
            referred: Mutex::default(),
        }
    }

    /// How many identities it has.
    pub(super) fn len(&self) -> usize {
        self.identities.len()
    }

    /// The arrival of work for it.
    pub(super) fn bind(&self, arrival: Arrival, secret: &Secret, backwards: bool) -> Arrival {
        let bind = |arrival: Arrival, it: &Identity| arrival.under(it.clone(), secret);
        match backwards {
            true => self.identities.iter().rev().fold(arrival, bind),
            false => self.identities.iter().fold(arrival, bind),
        }
    }

    /// Notes the answer to which a caller was referred.
    pub(super) fn refer(&self, answer: Arc<str>) {
        self.referred.lock().push(answer);
    }

    /// The order as the judge knows it: the work of all `jobs` that is for the order of this
    /// number.
    pub(super) fn judged<'a>(
        &self,
        number: usize,
        jobs: impl Iterator<Item = &'a Arc<Job>>,
    ) -> history::Order {
        let payloads = jobs.flat_map(|job| job.payloads.iter().map(move |it| (job, it)));
        let own = payloads.filter(|(_, payload)| payload.order == Some(number));
        let works = own.map(|(job, payload)| (job.id.to_string().into(), payload.name.clone()));
        history::Order {
            name: self.name.clone(),
            works: works.collect::<BTreeSet<_>>(),
            referred: self.referred.lock().clone(),
        }
    }
}
