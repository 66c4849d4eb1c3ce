//! What a session's statements read and write times by.

mod clock;

use std::sync::Arc;

use saki_base::{DataType, Value};
use saki_catalog::Result;
use saki_catalog::convert::Conversions;

pub use self::clock::Clock;
use crate::input::{Interval, Unit};
use crate::style::TimeStyle;

/// How a session writes and reads times, and what time it is for it.
#[derive(Clone, Debug, Default)]
pub struct SessionTime {
    pub style: Arc<TimeStyle>,
    pub clock: Arc<Clock>,
}

impl SessionTime {
    /// `now()`: microseconds since 1970.
    pub fn now(&self) -> i64 {
        self.clock.transaction()
    }

    /// A text as a value of a column's type.
    ///
    /// # Errors
    /// As [`TimeStyle::read_value`].
    pub fn read_value(&self, data_type: DataType, text: &str) -> Result<Value> {
        self.style.read_value(data_type, text, self.now())
    }

    /// A text as an interval.
    ///
    /// # Errors
    /// As [`TimeStyle::read_interval`].
    pub fn read_interval(&self, text: &str) -> Result<Interval> {
        self.style.read_interval(text, Unit::Second)
    }
}

impl Conversions for SessionTime {
    fn read(&self, data_type: DataType, text: &str) -> Result<Value> {
        self.read_value(data_type, text)
    }

    fn instant(&self, local: i64) -> i64 {
        self.style.zone.instant(local)
    }

    fn local(&self, instant: i64) -> i64 {
        self.style.zone.local(instant)
    }
}
