//! The lab: engines on a recorded store, with a service behind that keeps a ledger.
//!
//! Whatever happens in a lab is written down from where nothing is hidden: under the faults, at
//! the store, and in the ledger of the service. [`Lab::history`] is what the judge reads.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use onceward::testing::ManualClock;
use onceward::{
    Answer, Arrival, Claim, Done, Effect, Engine, Error, Fingerprint, Identity, Key, OnBusy,
    Policy, RunError, Scope, Slot, SlotId, Store, Verdict,
};

use crate::history::{self, History};

mod orders;
mod record;
mod recorder;
mod service;

pub use orders::{TWINS, pay_all, race};
pub use record::RecordedStore;
pub(crate) use recorder::Asked;
pub use recorder::{Passing, Recorder};
pub use service::Service;

/// A store, some engines, a service, and everything that was seen of them.
///
/// Its time is moved by hand, unless it is on a store whose server has a clock of its own: a
/// `Lab<SystemClock>` lives in real time.
#[derive(Debug)]
pub struct Lab<C = ManualClock> {
    /// The clock of the store and of every engine.
    pub clock: Arc<C>,
    /// The service behind, which really counts.
    pub service: Arc<Service>,
    /// The rules of the work.
    pub policy: Policy,
    /// The business identities that all work bears, whatever its key.
    pub identities: Vec<Identity>,
    recorder: Arc<Recorder>,
    store: Arc<dyn Store>,
    tenant: String,
}

/// How many slots are read at once in the end.
const READS: usize = 64;

// === impl Lab ===

impl Lab {
    /// How long a claim lives in a lab.
    pub const LEASE: Duration = Duration::from_secs(30);
    /// How long an outcome is kept in a lab.
    pub const RETENTION: Duration = Duration::from_secs(3600);

    /// Returns a lab on `store`, which has to use `clock`, for work that is declared to have one
    /// class and a service behind that has another.
    ///
    /// Labs with different tenants may share a store.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<ManualClock>,
        (effect, service): (Effect, Effect),
        tenant: &str,
    ) -> Arc<Self> {
        let policy = Policy::default()
            .effect(effect)
            .lease(Self::LEASE)
            .retention(Self::RETENTION)
            .on_busy(OnBusy::Wait(Duration::from_secs(10)));
        Self::under(policy, (store, clock), service, tenant)
    }

    /// The payload that every caller sends, unless it cheats.
    pub fn payload() -> Fingerprint {
        Fingerprint::of(b"100")
    }

    /// Lets every lease lapse that is not renewed meanwhile.
    pub fn lapse(&self) {
        self.clock.advance(Self::LEASE + Duration::from_millis(1));
    }
}

impl<C: Passing> Lab<C> {
    /// Returns a lab under rules of its own, with a service behind of the class `service`.
    pub fn under(
        policy: Policy,
        (store, clock): (Arc<dyn Store>, Arc<C>),
        service: Effect,
        tenant: &str,
    ) -> Arc<Self> {
        let recorder = Arc::new(Recorder::new(clock.clone()));
        Arc::new(Self {
            service: Arc::new(Service::new(recorder.clone(), service)),
            policy,
            identities: Vec::new(),
            tenant: tenant.to_owned(),
            clock,
            recorder,
            store,
        })
    }

    /// Returns the store as process `number` sees it, with everything written down.
    pub fn recorded(&self, number: u32) -> Arc<dyn Store> {
        self.record(self.store.clone(), number)
    }

    /// Returns `store`, another way to the records of this lab, as process `number` sees it.
    pub fn record(&self, store: Arc<dyn Store>, number: u32) -> Arc<dyn Store> {
        Arc::new(RecordedStore::new(store, self.recorder.clone(), number))
    }

    /// Returns an engine of a process of its own on `store`.
    pub fn engine(&self, store: Arc<dyn Store>) -> Engine {
        Engine::builder(store)
            .policy(self.policy.clone())
            .clock(self.clock.clone())
            .build()
    }

    /// The slot of `key`.
    pub fn slot(&self, key: &str) -> Slot {
        let key = Key::parse(key).expect("keys of scenarios are printable");
        Slot::new(Scope::new(&self.tenant, "pay"), key)
    }

    /// Pays once under `key`, as a caller of [`Engine::run`] does.
    pub async fn pay(&self, engine: &Engine, key: &str) -> Result<Answer, RunError> {
        let asked = self.recorder.now();
        let slot = self.slot(key);
        let service = self.service.clone();
        let id = engine.id_of(&slot).await?;
        let payload = self.sealed(engine, id, &Lab::payload()).await?;
        let brought = payload.clone();
        let arrival = self.arrival(engine, &slot, &Lab::payload()).await?;
        let answer = engine
            .run_for(&arrival, move |attempt| async move {
                let receipt = service.charge(id, attempt.fence(), Some(brought));
                receipt.map_or_else(Done::unknown, Done::outcome)
            })
            .await;
        self.recorder.told(self.asked(asked, id, &payload), &answer);
        answer
    }

    /// Returns the arrival of `payload` at `slot`, under every identity of the lab.
    async fn arrival(
        &self,
        engine: &Engine,
        slot: &Slot,
        payload: &Fingerprint,
    ) -> Result<Arrival, Error> {
        let mut arrival = engine.prepare(slot, payload).await?;
        for identity in &self.identities {
            arrival = arrival.under(identity.clone(), engine.secret().await?);
        }
        Ok(arrival)
    }

    /// Returns `payload` as histories name it under the slot of `id`.
    pub async fn sealed(
        &self,
        engine: &Engine,
        id: SlotId,
        payload: &Fingerprint,
    ) -> Result<Arc<str>, Error> {
        Ok(self
            .recorder
            .payload(&payload.seal(engine.secret().await?, id)))
    }

    fn asked<'a>(&'a self, at: u64, slot: SlotId, payload: &'a Arc<str>) -> Asked<'a> {
        let tenant = &self.tenant;
        Asked {
            at,
            tenant,
            slot,
            payload,
        }
    }

    /// Begins under `key`, and returns the claim if there is one.
    pub async fn claim(&self, engine: &Engine, key: &str) -> Option<Claim> {
        match self.begin(engine, key, Lab::payload()).await {
            Some(Verdict::Execute(claim)) => Some(claim),
            _ => None,
        }
    }

    /// Begins under `key` with a payload of the caller's choice.
    pub async fn begin(&self, engine: &Engine, key: &str, with: Fingerprint) -> Option<Verdict> {
        let asked = self.recorder.now();
        let arrival = self.arrival(engine, &self.slot(key), &with).await.ok()?;
        let id = arrival.id();
        let payload = self.sealed(engine, id, &with).await.ok()?;
        let verdict = engine.admit(&arrival).await.ok()?;
        self.recorder
            .judged(self.asked(asked, id, &payload), &verdict);
        Some(verdict)
    }

    /// Does the work of a claim: the service charges, or refuses an older fence.
    pub fn execute(&self, claim: &Claim) -> Option<String> {
        let payload = self.recorder.brought(claim.fence());
        self.service.charge(claim.id(), claim.fence(), payload).ok()
    }

    /// Reads every slot that was touched, and returns everything that is known.
    pub async fn history(&self) -> History {
        let mut history = self.recorder.history();
        let slots = self.recorder.slots();
        let reads = stream::iter(slots.clone()).map(|id| self.store.get(id));
        let replies: Vec<_> = reads.buffered(READS).collect().await;
        for (id, reply) in slots.into_iter().zip(replies) {
            let reply = reply.expect("the store answers after the run");
            let read = self.recorder.last_read(&self.tenant, id, &reply);
            history.finals.push(read);
        }
        history.expectations = history::Expectations {
            retention_ns: Some(self.policy.retention.as_nanos() as u64),
            slack_ns: 1_000_000,
            ..history::Expectations::default()
        };
        history
    }
}
