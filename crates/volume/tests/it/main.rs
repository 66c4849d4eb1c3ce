//! Stories about volumes, on simulated devices.

mod crash;
mod faults;
mod runs;
mod stories;
mod support;
