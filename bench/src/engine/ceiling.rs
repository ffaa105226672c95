//! The ceiling: raw fjall with the same batching, and nothing of ours.
//!
//! One writer thread takes whatever is waiting, commits it as one synced batch and answers. A
//! claim is a conditional insert with an entry in a due-time index; a completion overwrites it
//! and moves the entry. No protocol, no codec, no clock, no recovery.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy};
use fjall::{AbstractTree as _, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use tokio::sync::{mpsc, oneshot};

/// Bytes of a claim and of a completed record, as the embedded store writes them.
const CLAIM: usize = 170;
const COMPLETED: usize = 480;

/// A store without any of the things that make it one.
#[derive(Clone, Debug)]
pub(crate) struct Ceiling {
    queue: mpsc::Sender<Op>,
    _owner: Arc<Owner>,
}

#[derive(Debug)]
struct Owner(Option<thread::JoinHandle<()>>);

struct Op {
    key: [u8; 32],
    due: u64,
    kind: Kind,
    done: oneshot::Sender<()>,
}

enum Kind {
    Claim,
    Complete { claimed_due: u64 },
}

struct Tables {
    database: Database,
    records: Keyspace,
    due: Keyspace,
}

// === impl Ceiling ===

impl Ceiling {
    pub(crate) fn open(folder: &Path) -> fjall::Result<Self> {
        let tables = Tables::open(folder)?;
        let (queue, waiting) = mpsc::channel(4096);
        let writer = thread::spawn(move || tables.write(waiting));
        Ok(Self {
            queue,
            _owner: Arc::new(Owner(Some(writer))),
        })
    }

    /// Claims and completes one key.
    pub(crate) async fn claim_and_complete(&self, number: u64) {
        let key = key(number);
        let (claimed_due, due) = (number + 1_000, number + (1 << 40));
        self.send(key, claimed_due, Kind::Claim).await;
        self.send(key, due, Kind::Complete { claimed_due }).await;
    }

    async fn send(&self, key: [u8; 32], due: u64, kind: Kind) {
        let (done, answered) = oneshot::channel();
        let op = Op {
            key,
            due,
            kind,
            done,
        };
        assert!(self.queue.send(op).await.is_ok(), "the writer is there");
        answered.await.expect("the writer answers");
    }
}

// === impl Owner ===

impl Drop for Owner {
    fn drop(&mut self) {
        // The queue is closed by then, so the writer is on its way out.
        drop(self.0.take());
    }
}

// === impl Tables ===

impl Tables {
    fn open(folder: &Path) -> fjall::Result<Self> {
        let database = Database::builder(folder)
            .cache_size(64 << 20)
            .max_journaling_size(128 << 20)
            .worker_threads(1)
            .manual_journal_persist(true)
            .open()?;
        let options = || {
            KeyspaceCreateOptions::default()
                .manual_journal_persist(true)
                .max_memtable_size(u64::MAX)
                .data_block_size_policy(BlockSizePolicy::all(4096))
                .data_block_compression_policy(CompressionPolicy::disabled())
        };
        Ok(Self {
            records: database.keyspace("records", options)?,
            due: database.keyspace("due", || options().filter_policy(FilterPolicy::disabled()))?,
            database,
        })
    }

    fn write(&self, mut waiting: mpsc::Receiver<Op>) {
        let mut batch = Vec::new();
        while waiting.blocking_recv_many(&mut batch, 1024) > 0 {
            self.commit(&batch).expect("the disk takes it");
            for op in batch.drain(..) {
                let _ = op.done.send(());
            }
        }
    }

    fn commit(&self, ops: &[Op]) -> fjall::Result<()> {
        let mut batch = self
            .database
            .batch()
            .durability(Some(PersistMode::SyncData));
        for op in ops {
            let found = self.records.get(op.key)?.map(|record| record.len());
            match op.kind {
                Kind::Claim => {
                    assert_eq!(found, None, "a new key is not there yet");
                    batch.insert(&self.records, op.key, [7; CLAIM]);
                }
                Kind::Complete { claimed_due } => {
                    assert_eq!(found, Some(CLAIM), "a claim is there");
                    batch.insert(&self.records, op.key, [7; COMPLETED]);
                    batch.remove(&self.due, due_key(claimed_due, &op.key));
                }
            }
            batch.insert(&self.due, due_key(op.due, &op.key), []);
        }
        batch.commit()?;
        for (table, limit) in [(&self.records, 32 << 20), (&self.due, 16 << 20)] {
            if table.tree.active_memtable().size() > limit {
                table.rotate_memtable()?;
            }
        }
        Ok(())
    }
}

fn key(number: u64) -> [u8; 32] {
    let mut random = fastrand::Rng::with_seed(number);
    std::array::from_fn(|_| random.u8(..))
}

fn due_key(due: u64, key: &[u8; 32]) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&due.to_be_bytes());
    bytes[8..].copy_from_slice(key);
    bytes
}
