//! The channel: how changed slots are named in notifications.
//!
//! A payload is a list of slots in hex with commas between them, as many as fit.

use onceward::SlotId;

/// The longest payload that PostgreSQL takes, with a little to spare.
pub(super) const PAYLOAD_MAX: usize = 7_900;

/// The channel of the tables in `schema` that begin with `prefix`.
pub(super) fn name(schema: &str, prefix: &str) -> String {
    let plain = |text: &str| -> String {
        let kept = text.chars().map(|it| match it.is_ascii_alphanumeric() {
            true => it.to_ascii_lowercase(),
            false => '_',
        });
        kept.collect()
    };
    let mut name = format!("onceward_{}_{}", plain(schema), plain(prefix));
    // As long as a name may be.
    name.truncate(63);
    name
}

/// Writes `slots` as payloads, none longer than [`PAYLOAD_MAX`].
pub(super) fn payloads(slots: &[SlotId]) -> Vec<String> {
    let per_payload = PAYLOAD_MAX / (2 * SlotId::LEN + 1);
    let payload = |slots: &[SlotId]| {
        let texts: Vec<_> = slots.iter().map(SlotId::to_string).collect();
        texts.join(",")
    };
    slots.chunks(per_payload).map(payload).collect()
}

/// Reads the slots of a payload. What is none is left out: hints are hints.
pub(super) fn slots(payload: &str) -> impl Iterator<Item = SlotId> + '_ {
    payload.split(',').filter_map(SlotId::from_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_from_their_payloads() {
        let all: Vec<_> = (0..300u16)
            .map(|at| {
                let mut bytes = [0xab; SlotId::LEN];
                bytes[..2].copy_from_slice(&at.to_be_bytes());
                SlotId::from_bytes(bytes)
            })
            .collect();
        let payloads = payloads(&all);
        assert!(payloads.iter().all(|it| it.len() <= PAYLOAD_MAX));
        let back: Vec<_> = payloads.iter().flat_map(|it| slots(it)).collect();
        assert_eq!(back, all);
        assert_eq!(slots("nonsense,").count(), 0);
    }

    #[test]
    fn a_channel_is_a_plain_name() {
        assert_eq!(name("Keys", "A_"), "onceward_keys_a_");
        assert!(name(&"s".repeat(40), &"p".repeat(40)).len() <= 63);
    }
}
