//! Cases about contents: a record comes back as it was written, whatever is in it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::ask::{self, ANSWERS, assert_same};
use crate::outcome::Body;
use crate::record::{Deed, Note, Point};
use crate::store::{Filter, Insert, Swap};
use crate::testing::records::{self, LONG};
use crate::{Effect, Outcome, Reason, Record, Scope, State, Store, Timestamp};

/// Records of every state come back equal, early and late in their lives.
pub async fn every_state_comes_back(store: &Arc<dyn Store>) {
    for record in records::of_every_state() {
        comes_back(store, &record).await;
        let late = Record {
            generation: records::fence(),
            mark: record.mark.map(|_| records::fence()),
            attempt: u32::MAX,
            began: Some(Timestamp::from_micros(1_700_000_000_000_001)),
            unknown_retention: Some(Duration::from_micros(7)),
            ..records::rewritten(&record)
        };
        comes_back(store, &late).await;
    }
}

/// Records of every class of effect come back equal.
pub async fn every_class_of_effect_comes_back(store: &Arc<dyn Store>) {
    use Effect::{Keyed, Opaque, Probed, Repeatable, Transactional};
    for effect in [Repeatable, Transactional, Keyed, Probed, Opaque] {
        let record = Record {
            effect,
            ..records::claimed(LONG)
        };
        comes_back(store, &record).await;
    }
}

/// "No body" is a body.
pub async fn an_empty_body_comes_back(store: &Arc<dyn Store>) {
    for outcome in [Outcome::success(""), Outcome::failure("")] {
        comes_back(store, &completed(outcome.clone())).await;
        comes_back(store, &completed(outcome.with_head("204"))).await;
    }
}

/// A body of 1 MiB comes back, of which no byte can be left out.
pub async fn a_large_body_comes_back(store: &Arc<dyn Store>) {
    let outcome = Outcome::success(records::bytes(1 << 20)).with_head(records::bytes(16 << 10));
    comes_back(store, &completed(outcome)).await;
}

/// Bytes come back whatever their value, alone and in a row.
pub async fn every_byte_comes_back(store: &Arc<dyn Store>) {
    let every: Bytes = (0..=u8::MAX).collect();
    comes_back(store, &completed(Outcome::success(every.clone()))).await;
    comes_back(store, &completed(Outcome::failure("").with_head(every))).await;
    for byte in [0, b'\n', b'"', b'%', b'\\', 0xff] {
        comes_back(store, &completed(Outcome::success(vec![byte; 3]))).await;
    }
}

/// A record says of a body that was too large to keep how long it was.
pub async fn a_body_that_was_not_kept_comes_back_as_such(store: &Arc<dyn Store>) {
    for len in [0, 1 << 40, u64::MAX] {
        let outcome = Outcome {
            body: Body::NotKept {
                len,
                digest: [0xd1; 32],
            },
            ..Outcome::success("").with_head("200")
        };
        comes_back(store, &completed(outcome)).await;
    }
}

/// A recovery point comes back, with as much data as one may have and with none.
pub async fn a_recovery_point_comes_back(store: &Arc<dyn Store>) {
    for len in [0, 1, Point::DATA_MAX] {
        let point = Point {
            name: records::text(Point::NAME_MAX).into(),
            data: records::bytes(len),
        };
        for record in [records::claimed(LONG), records::unknown(None)] {
            let record = Record {
                point: Some(Box::new(point.clone())),
                ..record
            };
            comes_back(store, &record).await;
        }
    }
}

/// As many notes as a record keeps come back in their order, each as long as one may be.
pub async fn the_audit_trail_comes_back(store: &Arc<dyn Store>) {
    let deeds = [Deed::Completed, Deed::NotExecuted, Deed::Extended];
    let notes = (0..Note::COUNT_MAX).map(|at| Note {
        deed: deeds[at % deeds.len()],
        who: records::text(Note::WHO_MAX).into(),
        why: records::text(Note::WHY_MAX - at).into(),
        at: Timestamp::from_micros(at as u64),
    });
    let record = Record {
        audit: notes.collect(),
        ..records::open(LONG)
    };
    comes_back(store, &record).await;
}

/// Names of tenants and operations come back, as long as they may be and in any script.
pub async fn long_and_strange_scopes_come_back(store: &Arc<dyn Store>) {
    let long = records::text(Scope::LEN_MAX);
    let names = [
        "a",
        "'; --",
        "%_\\",
        "{\"a\":1}",
        "zo\u{eb} \u{1f980}",
        &long,
    ];
    for tenant in names {
        for operation in ["POST /payments/{id}", &long] {
            let record = Record {
                scope: Scope::new(tenant, operation),
                ..records::claimed(LONG)
            };
            comes_back(store, &record).await;
        }
    }
}

/// The reason of an unknown record comes back, as long as one may be and with no words at all.
pub async fn a_reason_comes_back(store: &Arc<dyn Store>) {
    for words in [String::new(), records::text(Reason::LEN_MAX)] {
        let record = Record {
            state: State::Unknown(Reason::new(words)),
            ..records::unknown(None)
        };
        comes_back(store, &record).await;
    }
}

/// Spans come back to the microsecond, and one too long to ever end stays endless.
pub async fn every_span_comes_back(store: &Arc<dyn Store>) {
    let longest_kept = Duration::from_micros(u64::MAX - 1);
    let half = Duration::from_micros(u64::MAX / 2 + 1);
    let exact = Duration::from_micros((1 << 53) + 1);
    for span in [Duration::ZERO, exact, half, longest_kept, Duration::MAX] {
        comes_back(store, &records::completed(span)).await;
        comes_back(store, &records::claimed(span)).await;
        comes_back(store, &records::open(span)).await;
    }
    comes_back(store, &records::unknown(Some(longest_kept))).await;
}

/// Writes `record` in both ways there are, and reads it in all the ways there are.
async fn comes_back(store: &Arc<dyn Store>, record: &Record) {
    let slot = records::slot("contents");
    ask::put(store, slot, record).await;
    ask::holds(store, slot, record).await;

    let first = records::claimed(LONG);
    ask::swap(store, slot, record.fence, &first).await;
    ask::swap(store, slot, first.fence, record).await;
    let found = ask::found(store, slot).await;
    assert_same(&found, record);

    let insert = store.insert(slot, &first, Timestamp::NEVER);
    let taken = insert.await.expect(ANSWERS).value;
    assert!(taken == Insert::Taken(found.clone()), "{taken:?}");
    let remove = store.remove(slot, first.fence, Timestamp::NEVER);
    let moved = remove.await.expect(ANSWERS).value;
    assert!(moved == Swap::Moved(Some(found.clone())), "{moved:?}");
    let listed = ask::list(store, &Filter::default(), 10).await;
    assert!(listed == [(slot, found)], "{listed:?}");
    ask::clear(store, slot, record.fence).await;
}

fn completed(outcome: Outcome) -> Record {
    Record {
        state: State::Completed(outcome),
        ..records::completed(LONG)
    }
}
