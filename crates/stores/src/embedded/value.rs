//! Values: a record as it lies in the folder, and where the index keeps it.

use bytes::Bytes;
use fjall::UserValue;
use onceward::codec;
use onceward::record::StateName;
use onceward::{Fence, Record, SlotId, Timestamp};

/// A record as it is kept: its bytes, then the stamp of its write.
///
/// The stamp stands last, so that callers encode and the writer only appends.
#[derive(Clone, Debug)]
pub(super) struct Value {
    kept: Bytes,
    head: codec::Head,
    written: Timestamp,
}

/// What has to be known of a value that is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trace {
    state: StateName,
    due: Timestamp,
}

/// A record that its caller has encoded and nobody has stamped yet.
#[derive(Debug)]
pub(super) struct Draft {
    bytes: Vec<u8>,
    head: codec::Head,
}

/// Where the index keeps a record: by when it is due, and claims by the batch that lists them. The
/// index can be rebuilt from the records: any list serves that a claim is on.
pub(super) type IndexKey = [u8; INDEX_LEN];

const INDEX_LEN: usize = 1 + 8 + SlotId::LEN;
const STAMP_LEN: usize = 8;

/// The first byte of an index key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Index {
    /// The claims of a batch, one slot after the other.
    Claims = 1,
    Expiry = 2,
    /// What is due and a matter for the protocol.
    Chores = 3,
}

// === impl Value ===

impl Value {
    /// Reads what a keyspace holds. The checksum is looked at when the record is decoded.
    pub(super) fn read(kept: UserValue) -> Result<Self, codec::Error> {
        let kept = Bytes::from_owner(kept);
        let (bytes, written) = split(&kept)?;
        let head = codec::head(bytes)?;
        Ok(Self {
            kept,
            head,
            written,
        })
    }

    /// Reads the record.
    pub(super) fn decode(&self) -> Result<Record, codec::Error> {
        let bytes = self.kept.slice(..self.kept.len() - STAMP_LEN);
        codec::decode(&bytes, self.written)
    }

    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn fence(&self) -> Fence {
        self.head.fence
    }

    pub(super) fn state(&self) -> StateName {
        self.head.state
    }

    pub(super) fn written(&self) -> Timestamp {
        self.written
    }

    pub(super) fn due(&self) -> Timestamp {
        self.written + self.head.due_after
    }

    pub(super) fn trace(&self) -> Trace {
        Trace {
            state: self.head.state,
            due: self.due(),
        }
    }

    /// Where the index keeps it by itself.
    pub(super) fn index_key(&self, slot: SlotId) -> Option<IndexKey> {
        self.trace().index_key(slot)
    }
}

// === impl Trace ===

impl Trace {
    pub(super) fn state(self) -> StateName {
        self.state
    }

    /// Where the index keeps it by itself: claims are listed together, and it keeps nothing of which
    /// nothing will ever have to be done.
    pub(super) fn index_key(self, slot: SlotId) -> Option<IndexKey> {
        let index = match self.state {
            StateName::Claimed => return None,
            StateName::Completed | StateName::Unknown | StateName::Open => Index::Expiry,
            StateName::Reserved | StateName::Shedding => Index::Chores,
        };
        match self.due {
            Timestamp::NEVER => None,
            due => Some(index_key(index, due, slot)),
        }
    }
}

// === impl Draft ===

impl Draft {
    /// Encodes `record`, with room for the stamp.
    pub(super) fn of(record: &Record) -> Self {
        let mut bytes = codec::encode(record);
        bytes.reserve_exact(STAMP_LEN);
        Self {
            bytes,
            head: codec::Head {
                state: record.state.name(),
                fence: record.fence,
                due_after: record.due_after(),
            },
        }
    }

    /// The value as it is written at `now`.
    pub(super) fn stamp(mut self, now: Timestamp) -> Value {
        self.bytes.extend_from_slice(&now.as_micros().to_le_bytes());
        Value {
            // Without room to spare it needs no second allocation.
            kept: self.bytes.into_boxed_slice().into(),
            head: self.head,
            written: now,
        }
    }
}

// === impl IndexKey ===

/// The key of a record in the index.
pub(super) fn index_key(index: Index, at: Timestamp, slot: SlotId) -> IndexKey {
    let mut key = [0; INDEX_LEN];
    key[0] = index as u8;
    key[1..9].copy_from_slice(&at.as_micros().to_be_bytes());
    key[9..].copy_from_slice(slot.as_bytes());
    key
}

/// The first key of `index` at or after a moment.
pub(super) fn index_from(index: Index, at: Timestamp) -> IndexKey {
    index_key(index, at, SlotId::RESERVED)
}

/// The moment and the slot of an index key, if it is one.
pub(super) fn read_index_key(key: &[u8]) -> Option<(Timestamp, SlotId)> {
    let key: &IndexKey = key.try_into().ok()?;
    let at = u64::from_be_bytes(key[1..9].try_into().ok()?);
    let slot = SlotId::from_bytes(key[9..].try_into().ok()?);
    Some((Timestamp::from_micros(at), slot))
}

fn split(kept: &[u8]) -> Result<(&[u8], Timestamp), codec::Error> {
    let (bytes, stamp) = kept
        .split_last_chunk::<STAMP_LEN>()
        .ok_or(codec::Error::Cut { at: kept.len() })?;
    Ok((bytes, Timestamp::from_micros(u64::from_le_bytes(*stamp))))
}
