//! What goes wrong outside, and what is promised then: an error that says what and where, nothing acknowledged lost,
//! reads that go on.

mod catalog;
mod damage;
mod devices;
mod limits;
mod procedures;
mod records;
