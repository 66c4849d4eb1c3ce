//! Time: the calendar of people, and clocks.

pub mod civil;
pub mod clock;
