//! Tests of the queue.

use super::*;

fn slot(at: u8) -> SlotId {
    SlotId::from_bytes([at; SlotId::LEN])
}

fn job(kind: Kind, at: u8) -> Job {
    Job {
        kind,
        slot: slot(at),
        seen: None,
        draft: None,
        not_after: i64::MAX,
        deadline: Duration::from_secs(u64::from(at)),
        tries: 0,
        reply: Mutex::default(),
        followers: Vec::new(),
    }
}

fn queue(jobs: &[(Kind, u8)]) -> Queue {
    let mut queue = Queue::default();
    for (kind, at) in jobs {
        queue.push(job(*kind, *at)).unwrap();
    }
    queue
}

fn slots(batch: &Batch) -> Vec<u8> {
    let first = |job: &Job| job.slot.as_bytes()[0];
    batch.jobs.iter().map(first).collect()
}

#[test]
fn all_that_wait_go_together_in_the_order_of_slots() {
    let mut queue = queue(&[(Kind::Get, 3), (Kind::Get, 1), (Kind::Get, 2)]);
    assert_eq!(slots(&queue.take().unwrap()), [1, 2, 3]);
    assert!(queue.take().is_none());
    assert_eq!((queue.figures.batches, queue.figures.calls), (1, 3));
}

#[test]
fn every_kind_has_its_turn() {
    let mut queue = queue(&[(Kind::Get, 1), (Kind::Replace, 2), (Kind::Insert, 3)]);
    let mut kinds = Vec::new();
    while let Some(batch) = queue.take() {
        kinds.push(batch.kind);
        queue
            .push(job(Kind::Insert, 100 + kinds.len() as u8))
            .unwrap();
        if kinds.len() == 3 {
            break;
        }
    }
    assert_eq!(kinds, [Kind::Insert, Kind::Replace, Kind::Get]);
}

#[test]
fn a_slot_that_is_being_written_waits_and_the_others_go() {
    let mut queue = queue(&[(Kind::Replace, 1)]);
    let first = queue.take().unwrap();
    queue.push(job(Kind::Remove, 1)).unwrap();
    queue.push(job(Kind::Remove, 2)).unwrap();
    assert_eq!(slots(&queue.take().unwrap()), [2]);
    assert!(queue.take().is_none());
    queue.release(first.kind, [slot(1)]);
    assert_eq!(slots(&queue.take().unwrap()), [1]);
}

#[test]
fn a_slot_is_read_while_it_is_written() {
    let mut queue = queue(&[(Kind::Replace, 1)]);
    queue.take().unwrap();
    queue.push(job(Kind::Get, 1)).unwrap();
    assert_eq!(slots(&queue.take().unwrap()), [1]);
}

#[test]
fn a_second_write_to_a_slot_waits_for_the_next_batch() {
    let mut queue = queue(&[(Kind::Replace, 1), (Kind::Replace, 1), (Kind::Replace, 2)]);
    assert_eq!(slots(&queue.take().unwrap()), [1, 2]);
    queue.release(Kind::Replace, [slot(1), slot(2)]);
    assert_eq!(slots(&queue.take().unwrap()), [1]);
}

#[test]
fn those_who_want_the_same_slot_share_a_row() {
    for kind in [Kind::Insert, Kind::Get] {
        let mut queue = queue(&[(kind, 1), (kind, 1), (kind, 1)]);
        let batch = queue.take().unwrap();
        assert_eq!((slots(&batch), batch.callers()), (vec![1], 3));
    }
}

#[test]
fn a_batch_has_a_limit_and_the_rest_keeps_its_order() {
    let mut queue = Queue::default();
    for at in 0..=Queue::BATCH_MAX {
        let mut job = job(Kind::Get, 0);
        let mut bytes = [0; SlotId::LEN];
        bytes[..8].copy_from_slice(&at.to_be_bytes());
        job.slot = SlotId::from_bytes(bytes);
        queue.push(job).unwrap();
    }
    assert_eq!(queue.take().unwrap().jobs.len(), Queue::BATCH_MAX);
    assert_eq!(queue.take().unwrap().jobs.len(), 1);
}

#[test]
fn large_records_make_small_batches() {
    let mut queue = Queue::default();
    for at in 0..3 {
        let mut job = job(Kind::Insert, at);
        job.draft = Some(Draft {
            fence: Fence::from_bits(1),
            state: 1,
            due_after: 0,
            scope: Scope::new("t", "o"),
            record: vec![0; Queue::BATCH_BYTES],
        });
        queue.push(job).unwrap();
    }
    assert_eq!(slots(&queue.take().unwrap()), [0]);
    assert_eq!(slots(&queue.take().unwrap()), [1]);
}

#[test]
fn halves_of_a_batch_keep_their_slots_busy() {
    let jobs: Vec<_> = (0..5).map(|at| (Kind::Replace, at)).collect();
    let mut queue = queue(&jobs);
    let batch = queue.take().unwrap();
    queue.split(batch);
    queue.push(job(Kind::Replace, 0)).unwrap();
    assert_eq!(slots(&queue.take().unwrap()), [0, 1]);
    assert_eq!(slots(&queue.take().unwrap()), [2, 3, 4]);
    assert!(queue.take().is_none());
}

#[test]
fn nothing_is_taken_while_there_is_no_server() {
    let mut queue = queue(&[(Kind::Get, 1), (Kind::Replace, 2)]);
    assert_eq!(queue.refuse("down").len(), 2);
    let refused = queue.push(job(Kind::Get, 1)).unwrap_err();
    assert_eq!(refused.why, "down");
    queue.accept();
    assert!(queue.push(job(Kind::Get, 1)).is_ok());
    assert_eq!(queue.close().len(), 1);
    queue.accept();
    assert!(queue.push(job(Kind::Get, 1)).is_err());
}

#[test]
fn what_waited_for_too_long_is_given_back() {
    let mut queue = queue(&[(Kind::Get, 1), (Kind::Get, 2), (Kind::Replace, 1)]);
    let overdue = queue.overdue(Duration::from_secs(1));
    assert_eq!(overdue.len(), 2);
    assert_eq!(queue.len(), 1);
}
