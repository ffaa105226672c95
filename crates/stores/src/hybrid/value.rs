//! Values: how memos and tombstones look as bytes in Redis.
//!
//! ```text
//! memo        A | fence 16 | evidence 1 | until 8 | written 8 | the codec's bytes
//! tombstone   T | fence 16
//! ```
//!
//! Fences are big-endian, so that scripts compare them byte by byte; times are microseconds,
//! big-endian as well. A value that cannot be read is no memo: the truth is asked.

use std::sync::Arc;

use bytes::Bytes;
use onceward::{BoxError, Fence, Timestamp, codec};

use super::Memo;

/// What begins a memo.
pub(super) const MEMO: u8 = b'A';
/// What begins a tombstone.
pub(super) const TOMBSTONE: u8 = b'T';
/// Where a memo says whether it is evidence.
pub(super) const EVIDENCE_AT: usize = 17;
/// What stands before the codec's bytes.
const HEAD: usize = EVIDENCE_AT + 1 + 8 + 8;

/// Why bytes are not a memo.
#[derive(Debug, thiserror::Error)]
#[error("the cache holds something that is neither a memo nor a tombstone")]
struct Strange;

/// Returns a memo as bytes.
pub(super) fn encode(memo: &Memo) -> Vec<u8> {
    let record = codec::encode(&memo.record);
    let mut bytes = Vec::with_capacity(HEAD + record.len());
    bytes.push(MEMO);
    bytes.extend(fence(memo.record.fence));
    bytes.push(u8::from(memo.is_evidence));
    bytes.extend(memo.until.as_micros().to_be_bytes());
    bytes.extend(memo.record.written.as_micros().to_be_bytes());
    bytes.extend(record);
    bytes
}

/// Returns the memo in `bytes`, or `None` for a tombstone.
pub(super) fn decode(bytes: &Bytes) -> Result<Option<Memo>, BoxError> {
    let time = |at: usize| {
        let eight = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
        eight.map(|part| Timestamp::from_micros(u64::from_be_bytes(part)))
    };
    match bytes.first() {
        Some(&TOMBSTONE) => Ok(None),
        Some(&MEMO) => {
            let until = time(EVIDENCE_AT + 1).ok_or(Strange)?;
            let written = time(EVIDENCE_AT + 9).ok_or(Strange)?;
            let record = codec::decode(&bytes.slice(HEAD..), written)?;
            Ok(Some(Memo {
                record: Arc::new(record),
                until,
                is_evidence: bytes[EVIDENCE_AT] != 0,
            }))
        }
        _ => Err(Strange.into()),
    }
}

/// Returns a fence as scripts compare it.
pub(super) fn fence(fence: Fence) -> [u8; 16] {
    fence.bits().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use onceward::testing::records::{self, LONG};

    use super::*;

    fn memo() -> Memo {
        let written = Timestamp::from_micros(1_777_777_777_000_000);
        let record = Arc::new(records::completed(LONG).stamped(written));
        let memo = Memo::of(&record, written).unwrap();
        Memo {
            is_evidence: true,
            ..memo
        }
    }

    #[test]
    fn a_memo_comes_back_as_it_was() {
        let memo = memo();
        let bytes = encode(&memo);
        assert_eq!(bytes[1..17], memo.record.fence.bits().to_be_bytes());
        assert_eq!(bytes[EVIDENCE_AT], 1);
        assert_eq!(decode(&bytes.into()).unwrap(), Some(memo));
    }

    #[test]
    fn a_tombstone_is_no_memo() {
        let mut bytes = vec![TOMBSTONE];
        bytes.extend([7; 16]);
        assert_eq!(decode(&bytes.into()).unwrap(), None);
    }

    #[test]
    fn nothing_else_is_taken_for_a_memo() {
        let whole = encode(&memo());
        for len in 0..whole.len() {
            let cut = Bytes::copy_from_slice(&whole[..len]);
            assert!(decode(&cut).is_err(), "cut after {len}");
        }
        for at in HEAD..whole.len() {
            let mut bent = whole.clone();
            bent[at] ^= 1;
            assert!(decode(&bent.into()).is_err(), "bent at {at}");
        }
        assert!(decode(&Bytes::from_static(b"hello")).is_err());
    }
}
