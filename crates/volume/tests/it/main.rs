//! Stories about volumes, on simulated devices.

mod crash;
mod devices;
mod faults;
mod fleet;
mod history;
mod images;
mod parts;
mod restore;
mod rot;
mod runs;
mod stories;
mod support;
