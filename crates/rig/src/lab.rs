//! The lab: engines on a recorded store, with a service behind that keeps a ledger.
//!
//! Whatever happens in a lab is written down from where nothing is hidden: under the faults, at
//! the store, and in the ledger of the service. [`Lab::history`] is what the judge reads.

use std::sync::Arc;
use std::time::Duration;

use onceward::testing::ManualClock;
use onceward::{
    Answer, Arrival, Claim, Done, Effect, Engine, Error, Fingerprint, Key, OnBusy, Policy,
    RunError, Scope, Slot, SlotId, Store, Verdict,
};

use crate::history::{self, History};

mod record;
mod recorder;
mod service;

pub use record::RecordedStore;
pub use recorder::Recorder;
pub(crate) use recorder::{Asked, Passing};
pub use service::Service;

/// A store, some engines, a service, and everything that was seen of them.
#[derive(Debug)]
pub struct Lab {
    /// The clock of the store and of every engine.
    pub clock: Arc<ManualClock>,
    /// The service behind, which really counts.
    pub service: Arc<Service>,
    /// The rules of the work.
    pub policy: Policy,
    recorder: Arc<Recorder>,
    store: Arc<dyn Store>,
    tenant: String,
}

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
        let recorder = Arc::new(Recorder::new(clock.clone()));
        Arc::new(Self {
            service: Arc::new(Service::new(recorder.clone(), service)),
            policy: Policy::default()
                .effect(effect)
                .lease(Self::LEASE)
                .retention(Self::RETENTION)
                .on_busy(OnBusy::Wait(Duration::from_secs(10))),
            tenant: tenant.to_owned(),
            clock,
            recorder,
            store,
        })
    }

    /// Returns the store as process `number` sees it, with everything written down.
    pub fn recorded(&self, number: u32) -> Arc<dyn Store> {
        let recorder = self.recorder.clone();
        Arc::new(RecordedStore::new(self.store.clone(), recorder, number))
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

    /// The payload that every caller sends, unless it cheats.
    pub fn payload() -> Fingerprint {
        Fingerprint::of(b"100")
    }

    /// Pays once under `key`, as a caller of [`Engine::run`] does.
    pub async fn pay(&self, engine: &Engine, key: &str) -> Result<Answer, RunError> {
        let asked = self.recorder.now();
        let slot = self.slot(key);
        let service = self.service.clone();
        let id = engine.id_of(&slot).await?;
        let payload = self.sealed(engine, id, &Self::payload()).await?;
        let brought = payload.clone();
        let answer = engine
            .run(&slot, Self::payload(), move |attempt| async move {
                let receipt = service.charge(id, attempt.fence(), Some(brought));
                receipt.map_or_else(Done::unknown, Done::outcome)
            })
            .await;
        self.recorder.told(self.asked(asked, id, &payload), &answer);
        answer
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
        match self.begin(engine, key, Self::payload()).await {
            Some(Verdict::Execute(claim)) => Some(claim),
            _ => None,
        }
    }

    /// Begins under `key` with a payload of the caller's choice.
    pub async fn begin(&self, engine: &Engine, key: &str, with: Fingerprint) -> Option<Verdict> {
        let asked = self.recorder.now();
        let arrival: Arrival = engine.prepare(&self.slot(key), &with).await.ok()?;
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

    /// Lets every lease lapse that is not renewed meanwhile.
    pub fn lapse(&self) {
        self.clock.advance(Self::LEASE + Duration::from_millis(1));
    }

    /// Reads every slot that was touched, and returns everything that is known.
    pub async fn history(&self) -> History {
        let mut history = self.recorder.history();
        for id in self.recorder.slots() {
            let reply = self
                .store
                .get(id)
                .await
                .expect("the store answers after the run");
            let read = self.recorder.last_read(&self.tenant, id, &reply);
            history.finals.push(read);
        }
        history.expectations = history::Expectations {
            retention_ns: Some(Self::RETENTION.as_nanos() as u64),
            slack_ns: 1_000_000,
            ..history::Expectations::default()
        };
        history
    }
}
