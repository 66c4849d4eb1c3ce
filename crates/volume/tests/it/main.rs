//! Stories about volumes, on simulated devices.

mod crash;
mod faults;
mod stories;
mod support;
