//! Journals of the embedded store: what was promised is found or its loss is named, and never
//! silently less.

use onceward_stores::embedded::inside::{self, Found};
use xxhash_rust::xxh3::xxh3_64;

use super::Choices;

/// Takes one byte of how: bytes that are no journal, or whole batches with damage done to them.
///
/// # Panics
///
/// Panics if a scan succeeds without a batch that was promised, tells a batch that was never
/// written, or comes to another end when it is made once more.
pub fn check(bytes: &[u8]) {
    let mut from = Choices(bytes);
    match from.flag() {
        false => {
            let promise = from.flag().then(|| (0, from.any_number(), from.flag()));
            consistent(&[from.rest()], promise);
        }
        true => damaged(&mut from),
    }
}

/// A scan that succeeds is a fixed point: with what is torn cut off it finds the same.
fn consistent(journals: &[&[u8]], promise: Option<(u64, u64, bool)>) -> Option<inside::Scanned> {
    let scanned = inside::scan(journals, promise).ok()?;
    let (last, older) = journals.split_last()?;
    let end = scanned.end as usize;
    assert!(end + scanned.torn as usize <= last.len());
    assert!(
        last[end + scanned.torn as usize..]
            .iter()
            .all(|byte| *byte == 0)
    );
    if let Some((journal, length, _)) = promise.filter(|it| it.0 == scanned.journal) {
        assert!(scanned.end >= length, "journal {journal} is cut short");
    }
    let numbers: Vec<u64> = scanned.batches.iter().map(|it| it.sequence).collect();
    let rising = numbers
        .windows(2)
        .all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    assert!(rising, "{numbers:?} have gaps");
    let mut cut = older.to_vec();
    cut.push(&last[..end]);
    let again = inside::scan(&cut, promise).expect("what was found is found again");
    assert_eq!((again.end, again.torn), (scanned.end, 0));
    assert_eq!(again.batches, scanned.batches);
    Some(scanned)
}

/// Writes whole batches, damages the file, and looks at what is left.
fn damaged(from: &mut Choices<'_>) {
    let (mut file, mut ends, mut written) = (Vec::new(), vec![0], Vec::new());
    let (first, mut seqno) = (from.any_number(), from.any_number() >> 1);
    for at in 0..1 + from.below(6) as u64 {
        let batch = Found {
            sequence: first.wrapping_add(at),
            items: items(from, first.wrapping_add(at)),
        };
        file.extend(spelled(&batch, seqno));
        seqno += 1 + u64::from(from.byte());
        ends.push(file.len());
        written.push(batch);
    }
    let wraps = written.iter().any(|it| it.sequence < first);
    let acknowledged = from.below(ends.len());
    let (promised, synced) = (ends[acknowledged], from.flag());
    let promise = Some((0, promised as u64, synced));
    if !wraps {
        let whole = consistent(&[&file], promise).expect("whole batches are whole");
        assert_eq!((whole.torn, whole.end), (0, file.len() as u64));
        assert_eq!(whole.batches, written);
    }
    if from.flag() {
        file.resize(file.len() + 4096, 0);
    }
    let harm = harm(from, &mut file);
    if let Some(left) = consistent(&[&file], promise) {
        let found = left.batches.len();
        assert!(found >= acknowledged, "{found} of {acknowledged} batches");
        // The head of a batch is not summed, and nothing but what was written can be found.
        let same = left
            .batches
            .iter()
            .zip(&written)
            .all(|(found, was)| found == was);
        assert!(found <= written.len() && same, "{:?}", left.batches);
        if synced && matches!(harm, Harm::Flipped) && found < written.len() {
            // A flipped bit is no torn write: all bytes of the batch are there.
            let is_last = found + 1 == written.len();
            assert!(is_last, "{found} of {} batches", written.len());
        }
    }
}

/// What was done to a file.
enum Harm {
    None,
    Flipped,
    Cut,
    Zeroed,
}

fn harm(from: &mut Choices<'_>, file: &mut Vec<u8>) -> Harm {
    let at = from.number() as usize % (file.len() + 1);
    match from.below(4) {
        0 => Harm::None,
        1 => {
            if let Some(byte) = file.get_mut(at) {
                *byte ^= 1 << from.below(8);
            }
            Harm::Flipped
        }
        2 => {
            file.truncate(at);
            Harm::Cut
        }
        _ => {
            let start = at / 512 * 512;
            let end = (start + 512 * (1 + from.below(4))).min(file.len());
            file[start.min(end)..end].fill(0);
            Harm::Zeroed
        }
    }
}

/// Some writes, with the mark that every batch has in both keyspaces.
fn items(from: &mut Choices<'_>, sequence: u64) -> Vec<(u64, Vec<u8>, Option<Vec<u8>>)> {
    let mut items = Vec::new();
    for _ in 0..from.below(4) {
        let key = [&[7; 5], from.bytes(40)].concat();
        let long = from.below(5) * 200;
        let value = from
            .flag()
            .then(|| [from.bytes(60), &vec![0; long]].concat());
        items.push((1 + u64::from(from.flag()), key, value));
    }
    let mark = [sequence.to_be_bytes(), from.any_number().to_be_bytes()].concat();
    for keyspace in [1, 2] {
        items.push((keyspace, b"\0seq".to_vec(), Some(mark.clone())));
    }
    items
}

/// A batch as the database writes it.
fn spelled(batch: &Found, seqno: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for (keyspace, key, value) in &batch.items {
        body.extend([2, u8::from(value.is_none()), 0]);
        body.extend(keyspace.to_le_bytes());
        let value = value.as_deref().unwrap_or_default();
        body.extend((key.len() as u16).to_le_bytes());
        for len in [value.len() as u32; 2] {
            body.extend(len.to_le_bytes());
        }
        body.extend_from_slice(key);
        body.extend_from_slice(value);
    }
    let mut out = vec![1];
    out.extend((batch.items.len() as u32).to_le_bytes());
    out.extend(seqno.to_le_bytes());
    out.extend_from_slice(&body);
    out.push(3);
    out.extend(xxh3_64(&body).to_le_bytes());
    out.extend(b"FJL\x03");
    out
}
