//! One peer: connecting, showing who one is, messages, reading what it lends and lending to it; the same over every
//! transport. A link owns its connection and whatever is under way on it.

mod core;
mod drive;
mod handshake;
mod lending;
mod operations;
mod slots;

pub use core::{Link, Scene};
