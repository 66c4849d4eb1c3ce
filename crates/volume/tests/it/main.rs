//! Stories about volumes, on simulated devices.

mod crash;
mod faults;
mod images;
mod rot;
mod runs;
mod stories;
mod support;
