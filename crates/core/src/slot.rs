//! Slots: where the record of one piece of work lives.

use std::fmt;
use std::sync::Arc;

use crate::bugs::{Bug, seeded};
use crate::{Key, Secret};

/// Who asks, and for what: the part of a slot's name that the caller does not choose.
///
/// A scope is mandatory: a key alone would let one tenant read another's answers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scope(Arc<Names>);

#[derive(PartialEq, Eq, Hash, Debug)]
struct Names {
    tenant: Box<str>,
    operation: Box<str>,
}

/// A place for one [`Record`](crate::Record): a [`Scope`] and a [`Key`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    scope: Scope,
    key: Key,
}

/// The name under which a store files a slot.
///
/// A keyed digest of scope and key, so that a dump of a store gives no key away and no caller
/// can make two slots collide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId([u8; Self::LEN]);

/// Why a text cannot be a scope's tenant or operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {part} has 1 to {} bytes and no control characters", Scope::LEN_MAX)]
pub struct InvalidScope {
    part: &'static str,
}

// === impl Scope ===

impl Scope {
    /// The longest tenant or operation, in bytes.
    pub const LEN_MAX: usize = 2048;

    /// Returns the scope of `tenant`, the caller as it was authenticated, and `operation`, the
    /// name of what it asks for.
    ///
    /// # Panics
    ///
    /// If either is empty, longer than [`Scope::LEN_MAX`] or has a control character; see
    /// [`Scope::parse`] for texts that come from outside.
    pub fn new(tenant: &str, operation: &str) -> Self {
        Self::parse(tenant, operation).expect("tenant and operation are names")
    }

    /// Returns the scope, or says which part of it is not a name: not every store can hold a
    /// control character.
    pub fn parse(tenant: &str, operation: &str) -> Result<Self, InvalidScope> {
        for (part, text) in [("tenant", tenant), ("operation", operation)] {
            let fits = (1..=Self::LEN_MAX).contains(&text.len());
            if !fits || has_control(text) {
                return Err(InvalidScope { part });
            }
        }
        Ok(Self(Arc::new(Names {
            tenant: tenant.into(),
            operation: operation.into(),
        })))
    }

    /// Who asks.
    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// What is asked for.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }
}

/// Whether a text has a control character. Most names are ASCII, where bytes tell.
fn has_control(text: &str) -> bool {
    match text.is_ascii() {
        true => text.bytes().any(|byte| byte.is_ascii_control()),
        false => text.contains(char::is_control),
    }
}

// === impl Slot ===

impl Slot {
    /// Returns the slot for `key` within `scope`.
    pub fn new(scope: Scope, key: Key) -> Self {
        Self { scope, key }
    }

    /// Who asks, and for what.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The caller's name for the work.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the name under which stores file this slot.
    pub fn id(&self, secret: &Secret) -> SlotId {
        let tenant = match seeded(Bug::TenantMissing) {
            true => "",
            false => self.scope.tenant(),
        };
        SlotId(secret.name([
            tenant.as_bytes(),
            self.scope.operation().as_bytes(),
            self.key.as_str().as_bytes(),
        ]))
    }
}

// === impl SlotId ===

impl SlotId {
    /// The length of an id, in bytes.
    pub const LEN: usize = 32;

    /// The slot that holds the deployment's secret. No digest can be proven never to hit it, but
    /// none will.
    pub const RESERVED: Self = Self([0; Self::LEN]);

    /// Returns the id with these bytes, as a store kept them.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Reads an id from the 64 hex digits that its `Display` prints.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text)
            .ok()
            .map(|hash| Self(hash.into()))
    }

    /// Eight bytes of the id: evenly spread already, so maps need not hash them again.
    pub fn spread(&self) -> u64 {
        let (head, _) = self.0.split_at(8);
        u64::from_le_bytes(head.try_into().expect("eight bytes were split off"))
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The first eight hex digits: enough to find a slot in a log.
impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(tenant: &str, operation: &str, key: &str) -> Slot {
        Slot::new(Scope::new(tenant, operation), Key::parse(key).unwrap())
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let secret = Secret::from_bytes([1; 32]);
        let a = slot("ab", "c", "d").id(&secret);
        assert_ne!(a, slot("a", "bc", "d").id(&secret));
        assert_ne!(a, slot("ab", "cd", "d").id(&secret));
        assert_eq!(a, slot("ab", "c", "d").id(&secret));
    }

    #[test]
    fn another_secret_files_the_slot_elsewhere() {
        let slot = slot("t", "o", "k");
        let (one, two) = (Secret::from_bytes([1; 32]), Secret::from_bytes([2; 32]));
        assert_ne!(slot.id(&one), slot.id(&two));
    }

    #[test]
    fn an_id_reads_back_from_its_display() {
        let id = slot("t", "o", "k").id(&Secret::from_bytes([1; 32]));
        assert_eq!(SlotId::from_hex(&id.to_string()), Some(id));
        assert_eq!(SlotId::from_hex("nonsense"), None);
    }

    #[test]
    fn what_is_no_name_is_no_scope() {
        assert!(Scope::parse("", "pay").is_err());
        assert!(Scope::parse("t", &"p".repeat(Scope::LEN_MAX + 1)).is_err());
        assert!(Scope::parse("t\0", "pay").is_err());
    }
}
