//! The devices of an open volume: which are there, and one thread's way to all of them.

pub mod admission;
pub mod gates;
mod lanes;
mod members;

pub(crate) use lanes::DeviceLanes;
pub(crate) use members::{Member, Members};
