//! The payer: whoever claims, completes and replays on the store that is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onceward::{Engine, Fingerprint, Key, Outcome, Policy, Scope, Slot, Verdict};
use onceward_stores::{CacheUrl, StoreUrl};

use crate::Failed;
use crate::load::Load;
use crate::plan::Plan;

/// Claims slots that were never used before, completes them, and asks for them again.
#[derive(Clone, Debug)]
pub(crate) struct Payer {
    pub(crate) engine: Engine,
    next: Arc<AtomicU64>,
    /// The next slot that is only claimed.
    next_claim: Arc<AtomicU64>,
    outcome: Outcome,
}

/// The semantic result: what was acknowledged is there, and nothing else.
pub(crate) fn compare(what: &str, found: u64, acknowledged: u64) -> Result<(), Failed> {
    match found == acknowledged && found > 0 {
        true => Ok(()),
        false => Err(format!("{what} holds {found}, and {acknowledged} were acknowledged").into()),
    }
}

// === impl Payer ===

impl Payer {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            next: Arc::default(),
            next_claim: Arc::default(),
            outcome: Outcome::success(vec![7; 300]),
        }
    }

    /// Opens the store at `url`, and pays there.
    pub(crate) async fn open(url: &str) -> Result<Self, Failed> {
        Self::open_with(url, None).await
    }

    /// Opens the store at `url`, perhaps with a cache before it, and pays there.
    pub(crate) async fn open_with(url: &str, cache: Option<&str>) -> Result<Self, Failed> {
        let url: StoreUrl = url.parse()?;
        let cache: Option<CacheUrl> = cache.map(str::parse).transpose()?;
        let open = move || onceward_stores::open_with(&url, cache.as_ref());
        let opened = tokio::task::spawn_blocking(open).await?;
        let opened = opened.map_err(|error| format!("{error}; hint: {}", error.hint()))?;
        let engine = Engine::builder(opened.store)
            .policy(Policy::default())
            .build();
        engine.secret().await?;
        Ok(Self::new(engine))
    }

    /// Claims and completes the next slot.
    pub(crate) async fn pay(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        match self.begin(&key(number)).await {
            Verdict::Execute(claim) => {
                let kept = claim.complete(self.outcome.clone()).await;
                assert!(kept.expect("completed").body, "the answer is kept");
            }
            other => panic!("a new key executes, not {other:?}"),
        }
    }

    /// Claims the next slot of those that nobody completes.
    pub(crate) async fn claim(&self) {
        let number = self.next_claim.fetch_add(1, Ordering::Relaxed);
        match self.begin(&format!("claimed-{}", key(number))).await {
            Verdict::Execute(_) => {}
            other => panic!("a new key executes, not {other:?}"),
        }
    }

    /// Replays a slot that was paid for.
    pub(crate) async fn replay(&self, number: u64) {
        match self.begin(&key(number)).await {
            Verdict::Replay(replay) => assert_eq!(replay.outcome, self.outcome),
            other => panic!("a finished key replays, not {other:?}"),
        }
    }

    /// Replays some of what was paid for, from the first to the last: nothing is executed twice.
    pub(crate) async fn replay_some(&self) {
        let paid = self.paid();
        assert!(paid > 0, "something was measured");
        for number in (0..paid).step_by((paid as usize / 1_000).max(1)) {
            self.replay(number).await;
        }
    }

    /// Keeps `callers` busy paying with new keys.
    pub(crate) async fn keep_paying(&self, callers: usize, plan: Plan) -> Load {
        let payer = self.clone();
        let pay = move |_, _| {
            let payer = payer.clone();
            async move { payer.pay().await }
        };
        Load::run(callers, plan.span, pay).await
    }

    /// Keeps `callers` busy claiming new keys.
    pub(crate) async fn keep_claiming(&self, callers: usize, plan: Plan) -> Load {
        let payer = self.clone();
        let claim = move |_, _| {
            let payer = payer.clone();
            async move { payer.claim().await }
        };
        Load::run(callers, plan.span, claim).await
    }

    /// Keeps `callers` busy asking for the first `finished` slots, in no order.
    pub(crate) async fn keep_replaying(&self, callers: usize, finished: u64, plan: Plan) -> Load {
        let payer = self.clone();
        let replay = move |_, _| {
            let payer = payer.clone();
            let number = fastrand::u64(..finished);
            async move { payer.replay(number).await }
        };
        Load::run(callers, plan.span, replay).await
    }

    /// Pays until there are so many finished slots.
    pub(crate) async fn finish(&self, finished: u64, plan: Plan) {
        while self.paid() < finished {
            self.keep_paying(256, plan).await;
        }
    }

    /// How many slots were paid for.
    pub(crate) fn paid(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// How many slots were claimed and not completed.
    pub(crate) fn claimed(&self) -> u64 {
        self.next_claim.load(Ordering::Relaxed)
    }

    async fn begin(&self, key: &str) -> Verdict {
        let key = Key::parse(key).expect("printable");
        let slot = Slot::new(Scope::new("acct_42", "POST /payments"), key);
        let fingerprint = Fingerprint::of(b"{\"amount\":100}");
        let verdict = self.engine.begin(&slot, fingerprint).await;
        verdict.expect("the store answers")
    }
}

fn key(number: u64) -> String {
    format!("8e03978e-40d5-43e8-bc93-{number:012}")
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn store_must_hold_what_was_acknowledged_and_nothing_else() {
        assert!(compare("it", 7, 7).is_ok());
        assert!(compare("it", 6, 7).is_err());
        assert!(compare("it", 8, 7).is_err());
        assert!(compare("it", 0, 0).is_err());
    }
}
