//! What a table's document says of its values.

use saki_base::random::hash_integer;
use saki_base::value::Value;
use saki_base::{ValueRef, checksum};
use serde::{Deserialize, Deserializer, Serialize};

use crate::guesses;

/// Buckets of a histogram.
pub(crate) const BUCKETS: usize = 100;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TableStatistics {
    pub rows: u64,
    pub columns: Vec<ColumnStatistics>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ColumnStatistics {
    /// Distinct values, NULL not counted.
    pub distinct: f64,
    pub null_fraction: f64,
    /// Images of equally frequent steps of the non-NULL values; first and last are minimum and maximum. Finite: JSON
    /// has no other numbers. Databases of before have `null` for those.
    #[serde(deserialize_with = "finite")]
    pub bounds: Vec<f64>,
    /// Hash and share of all rows of values far more frequent than the average.
    pub common: Vec<(u64, f64)>,
}

/// The numbers of a list in which some may be `null`.
fn finite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().flatten().collect())
}

/// A number in the order of the values, as far as 53 bits carry.
pub fn image(value: ValueRef<'_>) -> f64 {
    let leading = |bytes: &[u8]| {
        let mut prefix = [0; 8];
        let n = bytes.len().min(6);
        prefix[2..2 + n].copy_from_slice(&bytes[..n]);
        u64::from_be_bytes(prefix) as f64
    };
    match value {
        ValueRef::Null => f64::NAN,
        ValueRef::Bool(v) => f64::from(u8::from(v)),
        ValueRef::Int2(v) => v.into(),
        ValueRef::Int4(v) | ValueRef::Date(v) => v.into(),
        ValueRef::Int8(v) | ValueRef::Timestamp(v) | ValueRef::Timestamptz(v) | ValueRef::Time(v) => v as f64,
        ValueRef::Interval(v) => v.length() as f64,
        ValueRef::Float4(v) => v.into(),
        ValueRef::Float8(v) => v,
        ValueRef::Decimal(v) => v as f64,
        ValueRef::Text(v) => leading(v.as_bytes()),
        ValueRef::Bytea(v) => leading(v),
        ValueRef::Uuid(v) => leading(&v),
    }
}

/// Of a value; equal values of one type have equal hashes.
pub fn hash(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Bool(v) => hash_integer(v.into()),
        ValueRef::Int2(v) => hash_integer(v as u64),
        ValueRef::Int4(v) | ValueRef::Date(v) => hash_integer(v as u64),
        ValueRef::Int8(v) | ValueRef::Timestamp(v) | ValueRef::Timestamptz(v) | ValueRef::Time(v) => {
            hash_integer(v as u64)
        }
        ValueRef::Interval(v) => hash_integer(v.length() as u64 ^ (v.length() >> 64) as u64),
        ValueRef::Float4(v) => hash_integer(f64::from(v).to_bits()),
        ValueRef::Float8(v) => hash_integer(v.to_bits()),
        ValueRef::Decimal(v) => hash_integer(v as u64 ^ (v >> 64) as u64),
        ValueRef::Text(v) => checksum(v.as_bytes()),
        ValueRef::Bytea(v) => checksum(v),
        ValueRef::Uuid(v) => checksum(&v),
    }
}

impl ColumnStatistics {
    /// Of a column that is the same in all rows.
    pub(crate) fn of_one(value: &Value) -> Self {
        if value.is_null() {
            return Self { null_fraction: 1.0, ..Self::default() };
        }
        let bounds = Some(image(value.as_ref())).filter(|image| image.is_finite());
        Self { distinct: 1.0, bounds: bounds.map_or_else(Vec::new, |image| vec![image; 2]), ..Self::default() }
    }

    /// Share of rows whose value is `value`.
    pub(crate) fn equal(&self, value: &Value) -> f64 {
        if let Some(share) = self.common_share(value) {
            return share;
        }
        if let (Some(low), Some(high)) = (self.bounds.first(), self.bounds.last()) {
            let at = image(value.as_ref());
            // A sample does not know the extremes exactly: allow a bucket's width beyond.
            let slack = (high - low) / BUCKETS as f64;
            if at < low - slack || at > high + slack {
                return 0.0;
            }
        }
        self.uncommon()
    }

    /// Share of rows whose value is `value`, if that is a common one.
    pub(crate) fn common_share(&self, value: &Value) -> Option<f64> {
        let wanted = hash(value.as_ref());
        self.common.iter().find(|(hash, _)| *hash == wanted).map(|(_, share)| *share)
    }

    /// Share of rows with a value that is not among the common ones.
    pub(crate) fn uncommon(&self) -> f64 {
        let common: f64 = self.common.iter().map(|(_, share)| share).sum();
        let others = (self.distinct - self.common.len() as f64).max(1.0);
        ((1.0 - self.null_fraction - common) / others).clamp(0.0, 1.0)
    }

    /// Share of the non-NULL values below `at`.
    pub(crate) fn below(&self, at: f64) -> f64 {
        let steps = self.bounds.len().saturating_sub(1);
        if steps == 0 {
            return guesses::OPEN_RANGE;
        }
        let bucket = self.bounds.partition_point(|bound| *bound < at);
        if bucket == 0 {
            return 0.0;
        }
        if bucket > steps {
            return 1.0;
        }
        let (low, high) = (self.bounds[bucket - 1], self.bounds[bucket]);
        let inside = if high > low { (at - low) / (high - low) } else { guesses::WITHIN_BUCKET };
        ((bucket - 1) as f64 + inside) / steps as f64
    }
}
