//! Columns of every type, encoded and read again.

mod golden;
mod model;
mod round_trip;
mod select;
