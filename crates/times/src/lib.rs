//! Functions over dates, times and intervals as PostgreSQL has them, by a session's zone, styles and clock.
//!
//! ```text
//!   TimeOption ─► options of a plan ─► a function's body, row by row over Datum
//! ```
//!
//! # Words
//! - *local*: what clocks show, in microseconds since 1970 by them; *instant*: a moment, in microseconds since 1970 in
//!   Greenwich. A `timestamp` is local, a `timestamptz` an instant.
//!
//! # Invariants
//! - What depends on the session is read when a value is worked out: a plan belongs to the zone and the styles that it
//!   was made under, and to a clock that goes on.
//! - Functions that read nothing but their arguments, the zone and the styles are immutable to the planner: whoever
//!   keeps plans keeps them by zone and styles.
//!
//! # Failure model
//! What is no time is refused with PostgreSQL's condition: 22007 for a form, 22008 for a field or a range, 22023 for a
//! zone or a unit.
#![forbid(unsafe_code)]

mod arithmetic;
mod clock;
mod conversion;
mod datum;
mod fields;
mod function;
mod make;
pub mod names;
mod scaled;
mod session;
mod template;
mod to_char;
mod truncate;

use datafusion::logical_expr::ScalarUDF;

pub use self::arithmetic::{OVERLAPS, difference, moved, series};
pub use self::conversion::{ROUND, cast_function, rounded};
pub use self::datum::{INTERVAL, TIME, TIMESTAMP, nanoseconds, timestamptz};
pub use self::fields::{EXTRACT, PART, extract, of_calendar};
use self::function::TimeFunction;
pub use self::function::no_function;
pub use self::make::INTERVAL_PARTS;
pub use self::scaled::{length, lengths, over, quotient, times};
pub use self::session::{TimeOption, session_time};

/// All that can be called by name.
pub fn all() -> impl Iterator<Item = ScalarUDF> {
    clock::FUNCTIONS
        .iter()
        .chain(arithmetic::FUNCTIONS)
        .chain(conversion::FUNCTIONS)
        .chain(fields::FUNCTIONS)
        .chain(make::FUNCTIONS)
        .chain(truncate::FUNCTIONS)
        .map(TimeFunction::of)
        .chain([to_char::function()])
}
