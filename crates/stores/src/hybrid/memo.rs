//! Memos: what the cache remembers of a record, and until when that counts.

use std::sync::Arc;
use std::time::Duration;

use onceward::{Record, State, Timestamp};

/// A completed record as it was when the truth acknowledged or showed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memo {
    /// The record.
    pub record: Arc<Record>,
    /// Until when it counts, by the clock of the truth.
    pub until: Timestamp,
    /// Whether the truth was found to lack it.
    pub is_evidence: bool,
}

// === impl Memo ===

impl Memo {
    /// How much earlier than its record a memo ends at the least: more than the clocks of two nodes
    /// differ.
    pub const MARGIN_MIN: Duration = Duration::from_secs(60);

    /// The share of a retention that is left out at the end, where that is more.
    const MARGIN_SHARE: u32 = 100;

    /// The longest that a memo counts, whatever its record's retention.
    pub const LIFE_MAX: Duration = Duration::from_secs(30 * 86_400);

    /// The largest answer that is remembered, in bytes: what is larger is read from the truth.
    pub const LEN_MAX: usize = 1 << 20;

    /// Returns what to remember of a record that the truth has at `now`, if that is worth it.
    ///
    /// A body that goes before its record does is not remembered for longer than it is kept.
    pub fn of(record: &Arc<Record>, now: Timestamp) -> Option<Self> {
        let State::Completed(outcome) = &record.state else {
            return None;
        };
        if outcome.kept_len() > Self::LEN_MAX {
            return None;
        }
        let share = record.due_after() / Self::MARGIN_SHARE;
        let margin = share.clamp(Self::MARGIN_MIN, Self::LIFE_MAX);
        let until = record.due().before(margin).min(now + Self::LIFE_MAX);
        (until > now).then(|| Self {
            record: record.clone(),
            until,
            is_evidence: false,
        })
    }

    /// Whether the memo is an answer at `now`.
    pub fn counts_at(&self, now: Timestamp) -> bool {
        now < self.until && matches!(self.record.state, State::Completed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward::Outcome;
    use onceward::testing::records;

    const NOW: Timestamp = Timestamp::from_micros(1_777_777_777_000_000);
    const DAY: Duration = Duration::from_secs(86_400);

    fn written(record: &Record) -> Arc<Record> {
        Arc::new(record.stamped(NOW))
    }

    #[test]
    fn only_completed_records_are_remembered() {
        for record in records::of_every_state() {
            let is_completed = record.outcome().is_some();
            assert_eq!(Memo::of(&written(&record), NOW).is_some(), is_completed);
        }
    }

    #[test]
    fn a_memo_ends_a_margin_before_its_record() {
        let until = |retention| {
            let memo = Memo::of(&written(&records::completed(retention)), NOW);
            memo.map(|memo| memo.until.since(NOW))
        };
        assert_eq!(until(DAY), Some(DAY - DAY / 100));
        let minute = Memo::MARGIN_MIN;
        assert_eq!(until(10 * minute), Some(9 * minute));
        assert_eq!(until(minute), None);
        assert_eq!(until(Duration::MAX), Some(Memo::LIFE_MAX));
    }

    #[test]
    fn a_memo_does_not_outlive_the_body_of_its_answer() {
        let keep = Duration::from_secs(600);
        let memo = Memo::of(&written(&records::shedding(keep)), NOW).unwrap();
        assert_eq!(memo.until, NOW + (keep - Memo::MARGIN_MIN));
        assert!(memo.counts_at(NOW));
        assert!(!memo.counts_at(memo.until));
    }

    #[test]
    fn a_record_seen_late_is_remembered_for_what_is_left() {
        let record = written(&records::completed(DAY));
        let late = NOW + DAY.mul_f32(0.995);
        assert_eq!(Memo::of(&record, late), None);
        let memo = Memo::of(&record, NOW + DAY / 2).unwrap();
        assert_eq!(memo.until, NOW + (DAY - DAY / 100));
    }

    #[test]
    fn what_is_too_large_is_left_to_the_truth() {
        let mut record = records::completed(DAY);
        record.state = State::Completed(Outcome::success(vec![0; Memo::LEN_MAX + 1]));
        assert_eq!(Memo::of(&written(&record), NOW), None);
    }
}
