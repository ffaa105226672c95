//! Prefixes: as many digits of a slot's name as it takes to find it.

use onceward::{Engine, Found, SlotId, store::Filter};

use onceward_gateway::units::Invalid;

use crate::{exit::Failure, trouble, walk};

/// The first hex digits of a slot's name, or all of them.
///
/// Logs show eight, `onceward list` sixteen; any of these is enough to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(String);

// === impl Prefix ===

impl Prefix {
    /// The fewest digits: as many as logs show.
    const LEN_MIN: usize = 8;

    /// The digits of a whole name.
    pub(crate) const LEN_MAX: usize = 2 * SlotId::LEN;

    /// Returns the prefix that `text` is, or why it is none.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        let problem = match text.len() {
            _ if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) => "is not made of hex digits",
            0..Self::LEN_MIN => "is too short to name a slot",
            Self::LEN_MIN..=Self::LEN_MAX => return Ok(Self(text.to_ascii_lowercase())),
            _ => "is too long to name a slot",
        };
        Err(Invalid::new(
            problem,
            format!(
                "give the first {} to {} hex digits of a slot, as onceward list shows them",
                Self::LEN_MIN,
                Self::LEN_MAX
            ),
        ))
    }

    /// Returns the record whose slot begins like this, if there is exactly one.
    pub(crate) async fn find(&self, engine: &Engine) -> Result<Option<Found>, Failure> {
        if let Some(slot) = self.whole() {
            let found = engine.inspect(slot).await;
            return found.map_err(|error| trouble::of(&error));
        }
        let mut found = Vec::new();
        // Slots come in their order, so the first two from here on tell all there is to know.
        walk::each(engine, &Filter::default(), self.before(), 2, |record| {
            found.push(record);
            Ok(())
        })
        .await?;
        found.retain(|record| self.begins(record.slot));
        if found.len() > 1 {
            return Err(Failure::new(
                format!("more than one slot begins with {}", self.0),
                format!(
                    "give more of its {} digits: list --json shows them",
                    Self::LEN_MAX
                ),
            ));
        }
        Ok(found.pop())
    }

    /// Returns the slot if all its digits are here. The reserved one holds a secret, no record.
    fn whole(&self) -> Option<SlotId> {
        SlotId::from_hex(&self.0).filter(|slot| *slot != SlotId::RESERVED)
    }

    /// Whether the name of `slot` begins like this.
    fn begins(&self, slot: SlotId) -> bool {
        slot.to_string().starts_with(&self.0)
    }

    /// Returns the last slot before all that begin like this; `None` if these are the first.
    fn before(&self) -> Option<SlotId> {
        let first = format!("{:0<width$}", self.0, width = Self::LEN_MAX);
        let first = SlotId::from_hex(&first).expect("a prefix and zeros are hex digits");
        let mut bytes = *first.as_bytes();
        // Subtracts one: zeros at the end become the largest digits, and the byte before is less.
        let last = bytes.iter().rposition(|byte| *byte > 0)?;
        bytes[last] -= 1;
        bytes[last + 1..].fill(u8::MAX);
        Some(SlotId::from_bytes(bytes))
    }
}

/// Returns the slot that all 64 digits of `text` name.
pub(crate) fn whole(text: &str) -> Result<SlotId, Invalid> {
    SlotId::from_hex(text).ok_or_else(|| {
        Invalid::new(
            "is not a slot",
            format!("give all {} hex digits of a slot", Prefix::LEN_MAX),
        )
    })
}

#[cfg(test)]
mod tests {
    use onceward::{Store as _, Timestamp, testing::World, testing::records};

    use super::*;

    fn slot(digits: &str) -> SlotId {
        SlotId::from_hex(&format!("{digits:0<64}")).unwrap()
    }

    async fn world(slots: &[&str]) -> World {
        let world = World::new();
        for digits in slots {
            let record = records::unknown(None);
            let done = world.store.insert(slot(digits), &record, Timestamp::NEVER);
            done.await.unwrap();
        }
        world
    }

    #[test]
    fn digits_are_checked() {
        for (text, problem) in [
            ("", "too short"),
            ("0123456", "too short"),
            ("0123456g", "hex digits"),
            ("caf\u{e9}cafe", "hex digits"),
            (&"0".repeat(65), "too long"),
        ] {
            let refused = Prefix::parse(text).unwrap_err();
            assert!(refused.to_string().contains(problem), "{text:?}: {refused}");
        }
        assert_eq!(Prefix::parse("ABCDEF01"), Prefix::parse("abcdef01"));
        assert!(whole(&"0".repeat(64)).is_ok());
        assert!(whole(&"0".repeat(16)).is_err());
    }

    #[test]
    fn search_begins_just_before_the_first_match() {
        let before = |text| Prefix::parse(text).unwrap().before();
        assert_eq!(before("00000000"), None);
        let last = format!("000000ff{}", "f".repeat(56));
        assert_eq!(before("00000100").unwrap().to_string(), last);
        let whole = format!("{}1", "0".repeat(63));
        assert_eq!(before(&whole), Some(SlotId::RESERVED));
    }

    #[tokio::test]
    async fn one_match_is_found_wherever_it_stands() {
        let slots = ["00000000a", "abcdef01", "abcdef02", "ffffffff"];
        let world = world(&slots).await;
        for digits in slots {
            let prefix = Prefix::parse(&digits[..8]).unwrap();
            let found = prefix.find(&world.engine).await.unwrap().unwrap();
            assert_eq!(found.slot, slot(digits));
        }
    }

    #[tokio::test]
    async fn secret_is_not_found() {
        let world = world(&[]).await;
        world.engine.secret().await.unwrap();
        for zeros in [8, 16, 64] {
            let prefix = Prefix::parse(&"0".repeat(zeros)).unwrap();
            assert!(prefix.find(&world.engine).await.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn no_match_is_nothing_and_two_are_refused() {
        let world = world(&["abcdef0100", "abcdef0101"]).await;
        let find = async |text| Prefix::parse(text).unwrap().find(&world.engine).await;
        assert!(find("abcdef00").await.unwrap().is_none());
        assert!(find("abcdef02").await.unwrap().is_none());
        assert!(find("abcdef01").await.is_err());
        assert!(find("abcdef0101").await.unwrap().is_some());
    }
}
