//! Finding the deployment's secret: given, or kept in the store's reserved slot.

use std::time::Duration;

use subtle::ConstantTimeEq as _;

use super::{Error, Shared};
use crate::protocol::Arrival;
use crate::store::Insert;
use crate::{
    Fingerprint, Key, Outcome, Policy, Record, Scope, Secret, Slot, SlotId, State, Timestamp,
};

/// What the reserved slot says about the secret: its first byte, before thirty-two others.
const SECRET: u8 = 1;
const CHECK_VALUE: u8 = 2;

impl Shared {
    /// The secret, found or made the first time.
    pub(super) async fn secret(&self) -> Result<&Secret, Error> {
        if let Some(secret) = self.secret.get() {
            return Ok(secret);
        }
        self.secret.get_or_try_init(|| self.find_secret()).await
    }

    async fn find_secret(&self) -> Result<Secret, Error> {
        let store = &self.reach.store;
        // The first reply also tells the store's time, which every claim needs.
        let found = self.reach.ask(store.get(SlotId::RESERVED)).await?.value;
        if let Some(record) = found {
            return self.agree(&record);
        }
        let secret = self.given.clone().unwrap_or_else(Secret::random);
        let record = self.reserved_record(&secret);
        // Whichever node writes first has made the secret for all.
        let call = store.insert(SlotId::RESERVED, &record, Timestamp::NEVER);
        match self.reach.ask(call).await?.value {
            Insert::Done => Ok(secret),
            Insert::Taken(record) => self.agree(&record),
            Insert::Late => unreachable!("a write that is never too late was called late"),
        }
    }

    /// Returns the secret that fits the reserved record.
    fn agree(&self, record: &Record) -> Result<Secret, Error> {
        let body = record.outcome().and_then(Outcome::body);
        let (kind, bytes) = body
            .and_then(|body| body.split_first_chunk::<1>())
            .and_then(|([kind], rest)| Some((*kind, <[u8; Secret::LEN]>::try_from(rest).ok()?)))
            .ok_or(Error::WrongSecret)?;
        let (kept, check) = match kind {
            SECRET => {
                let kept = Secret::from_bytes(bytes);
                let check = kept.check_value();
                (Some(kept), check)
            }
            _ => (None, bytes),
        };
        match (&self.given, kept) {
            (Some(given), _) if bool::from(given.check_value().ct_eq(&check)) => Ok(given.clone()),
            (Some(_), _) => Err(Error::WrongSecret),
            (None, Some(kept)) => Ok(kept),
            (None, None) => Err(Error::NoSecret),
        }
    }

    /// A record that never expires: the secret itself if we made it, or only its check value.
    fn reserved_record(&self, secret: &Secret) -> Record {
        let (kind, bytes) = match self.given {
            None => (SECRET, *secret.expose()),
            Some(_) => (CHECK_VALUE, secret.check_value()),
        };
        let body: Vec<u8> = std::iter::once(kind).chain(bytes).collect();
        let slot = Slot::new(
            Scope::new("onceward", "secret"),
            Key::parse("secret").expect("the word is printable"),
        );
        let policy = Policy::default().retention(Duration::MAX);
        let arrival = Arrival::new(slot, &Fingerprint::of(b""), policy, secret);
        Record {
            state: State::Completed(Outcome::success(body)),
            ..Record::claimed(&arrival, self.reach.fence(None))
        }
    }
}
