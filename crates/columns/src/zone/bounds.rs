//! Zones as bounds of integers: what arithmetic and the keys of joins want to know.

use saki_base::value::Value;
use saki_vector::Bounds;

use super::Zone;

impl Zone {
    /// What the values lie between, if they are integers, dates, times, timestamps or decimals of up to 8 bytes, and
    /// that is known.
    pub fn bounds(&self) -> Option<Bounds> {
        Some(Bounds { min: integer(&self.min)?, max: integer(&self.max)? })
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int2(value) => Some(i64::from(*value)),
        Value::Int4(value) | Value::Date(value) => Some(i64::from(*value)),
        Value::Int8(value) | Value::Timestamp(value) | Value::Timestamptz(value) | Value::Time(value) => Some(*value),
        Value::Decimal(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}
