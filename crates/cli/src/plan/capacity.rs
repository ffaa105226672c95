//! The arithmetic: from a load to what it needs.

use std::time::Duration;

use serde::Serialize;

use onceward_gateway::units::{Decimal, Percent};

use crate::figures::Figure;

/// How late the last retry of a piece of work can arrive, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) deadline: Duration,
    pub(super) retry_horizon: Duration,
    pub(super) network: Duration,
    pub(super) clock: Duration,
}

/// What callers ask for, at the peak.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) rate: Decimal,
    pub(super) window: Window,
    /// How long a record is kept. Above zero, and not always as long as the window asks for.
    pub(super) retention: Duration,
    /// How long bodies are kept, if not as long as that.
    pub(super) keep_body: Option<Duration>,
    pub(super) margin: Percent,
    pub(super) duplicates: Percent,
    pub(super) key_bits: u16,
    /// Bytes of an answer that is kept for replay.
    pub(super) answer: u64,
}

/// What a load needs.
#[derive(Debug, Serialize)]
pub(super) struct Capacity {
    pub(super) retention_s: Figure,
    /// The retention that the window asks for.
    pub(super) retention_needed_s: Figure,
    /// Records to have room for: margin included.
    pub(super) records: u128,
    /// Records in the store while the peak lasts: without the margin.
    pub(super) records_steady: u128,
    pub(super) originals_per_s: Figure,
    pub(super) duplicates_per_s: Figure,
    pub(super) duplicates_in_10_min: Figure,
    pub(super) key_bits: u16,
    pub(super) collision_probability: Figure,
    pub(super) answer_bytes: u64,
    /// Whether the bytes were measured, so that no reader takes them for more than they are.
    pub(super) bytes_are: &'static str,
    pub(super) bytes: Bytes,
    /// What it is about if bodies go first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bodies: Option<Bodies>,
}

/// What becomes of bodies that go before their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bodies {
    pub(super) kept_s: u64,
    /// Records that still have theirs: margin included.
    pub(super) records: u128,
    /// What all records would take if bodies stayed.
    pub(super) bytes_if_they_stayed: Bytes,
}

/// Bytes for all records, by store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bytes {
    pub(super) memory: u128,
    pub(super) embedded: u128,
    pub(super) postgres: u128,
    pub(super) redis: u128,
    pub(super) dynamodb: u128,
}

/// What each store spends on a record beside the answer, in bytes.
///
/// All keep a slot name of 32 bytes, a fingerprint of 32, fences, stamps and a due time: about
/// 150 bytes. The rest is the store's own.
pub(super) const OVERHEAD: Bytes = Bytes {
    // Two map places (slot and due time) at half load, and the allocator's rounding.
    memory: 400,
    // Slot and due-time index, each with a sequence number; shared prefixes are compressed.
    embedded: 220,
    // Row header and line pointer, tenant and operation, the primary key and the due-time index.
    postgres: 350,
    // Two table places (value and expiry), the key's and the value's headers, and rounding.
    redis: 600,
    // Attribute names are short; the service adds 100 bytes to each item that it bills.
    dynamodb: 150,
};

const TEN_MINUTES_S: u128 = 600;

/// The bytes of an answer that stay when its body goes: status and headers, of which few are long.
pub(super) const HEAD: u64 = 256;

// === impl Window ===

impl Window {
    /// Returns the retention under which no retry finds its record expired.
    pub(super) fn retention(&self) -> Duration {
        // Each is at most 100 years, so the sum is far from its limit.
        self.deadline + self.retry_horizon + self.network + self.clock
    }
}

// === impl Capacity ===

impl Capacity {
    /// Works out what `load` needs.
    pub(super) fn of(load: &Load) -> Self {
        let records = records(load, load.margin);
        let all = Bytes::of(records, load.answer);
        let bodies = load.keep_body.map(|keep| Bodies {
            kept_s: keep.as_secs(),
            records: self::records(
                &Load {
                    retention: keep,
                    ..*load
                },
                load.margin,
            ),
            bytes_if_they_stayed: all,
        });
        let duplicates = share(load.rate, load.duplicates.millionths());
        let originals = share(
            load.rate,
            Percent::WHOLE.millionths() - load.duplicates.millionths(),
        );
        Self {
            retention_s: Figure(load.retention.as_secs_f64()),
            retention_needed_s: Figure(load.window.retention().as_secs_f64()),
            records,
            records_steady: self::records(load, Percent::of(0)),
            originals_per_s: per_second(originals),
            duplicates_per_s: per_second(duplicates),
            duplicates_in_10_min: per_second(duplicates * TEN_MINUTES_S),
            key_bits: load.key_bits,
            collision_probability: collision(records, load.key_bits),
            answer_bytes: load.answer,
            bytes_are: "estimate",
            bytes: bodies.map_or(all, |bodies| {
                let head = load.answer.min(HEAD);
                let gone = (records - bodies.records.min(records)) * u128::from(load.answer - head);
                all.less(gone)
            }),
            bodies,
        }
    }
}

/// Returns the records that live at once, rounded up.
///
/// The arithmetic is on whole numbers: at the limits of all inputs the product is 1.4e37, well
/// below what a `u128` holds.
fn records(load: &Load, margin: Percent) -> u128 {
    const MILLIS_PER_SECOND: u128 = 1_000;
    let whole = u128::from(Percent::WHOLE.millionths());
    let product = u128::from(load.rate.millionths())
        * load.retention.as_millis()
        * (whole + u128::from(margin.millionths()));
    product.div_ceil(u128::from(Decimal::ONE) * MILLIS_PER_SECOND * whole)
}

/// Returns the product of a rate and a share, in the unit that [`per_second`] takes.
fn share(rate: Decimal, percent_millionths: u64) -> u128 {
    u128::from(rate.millionths()) * u128::from(percent_millionths)
}

/// Returns a product of [`share`] as a rate.
fn per_second(product: u128) -> Figure {
    let one = u128::from(Decimal::ONE) * u128::from(Percent::WHOLE.millionths());
    Figure(product as f64 / one as f64)
}

/// Returns the chance that any two of `records` random keys are equal.
///
/// Three digits: more would claim a precision that the inputs do not have.
fn collision(records: u128, key_bits: u16) -> Figure {
    let pairs = records as f64 * records.saturating_sub(1) as f64 / 2.0;
    let expected = pairs / 2_f64.powi(i32::from(key_bits));
    // The bound itself passes 1 when keys are short; `exp_m1` keeps the digits of tiny numbers.
    Figure(-(-expected).exp_m1()).rounded()
}

// === impl Bytes ===

impl Bytes {
    /// Returns what `records` take, each with an answer of `answer` bytes.
    fn of(records: u128, answer: u64) -> Self {
        let total = |overhead| records * (overhead + u128::from(answer));
        Self {
            memory: total(OVERHEAD.memory),
            embedded: total(OVERHEAD.embedded),
            postgres: total(OVERHEAD.postgres),
            redis: total(OVERHEAD.redis),
            dynamodb: total(OVERHEAD.dynamodb),
        }
    }

    /// Returns what is left where each store keeps so many bytes less.
    fn less(self, bytes: u128) -> Self {
        Self {
            memory: self.memory - bytes,
            embedded: self.embedded - bytes,
            postgres: self.postgres - bytes,
            redis: self.redis - bytes,
            dynamodb: self.dynamodb - bytes,
        }
    }

    /// Returns the stores by name, as `--store` spells them.
    pub(super) fn by_store(self) -> [(&'static str, u128); 5] {
        [
            ("memory", self.memory),
            ("embedded", self.embedded),
            ("postgres", self.postgres),
            ("redis", self.redis),
            ("dynamodb", self.dynamodb),
        ]
    }
}
