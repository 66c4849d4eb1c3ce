//! Times and intervals as the protocol has them in bytes: moments are counted from 2000 on.

use arrow_buffer::IntervalMonthDayNano;
use bytes::{BufMut, BytesMut};
use saki_base::Interval;

use super::{EPOCH_DAYS, EPOCH_MICROS};

/// An interval of Arrow's.
pub fn interval(of: IntervalMonthDayNano) -> Interval {
    Interval::of_nanos(of.months, of.days, of.nanoseconds)
}

/// Appends time, days and months.
pub fn put_interval(interval: Interval, out: &mut BytesMut) {
    out.put_i64(interval.micros);
    out.put_i32(interval.days);
    out.put_i32(interval.months);
}

/// Days since 2000; infinity stays.
pub fn since_epoch_days(days: i32) -> i32 {
    match days {
        infinite @ (i32::MAX | i32::MIN) => infinite,
        days => days.saturating_sub(EPOCH_DAYS),
    }
}

/// Microseconds since 2000; infinity stays.
pub fn since_epoch_micros(micros: i64) -> i64 {
    match micros {
        infinite @ (i64::MAX | i64::MIN) => infinite,
        micros => micros.saturating_sub(EPOCH_MICROS),
    }
}
