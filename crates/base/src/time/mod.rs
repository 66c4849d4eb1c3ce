//! Time: the calendar of people, spans of time, and clocks.

pub mod civil;
pub mod clock;
pub mod interval;
