//! Another node's pages: over TCP, shared memory and a simulated network, with faults, and with peers that lie.

mod contract;
mod faults;
mod hostile;
mod pages;
mod runs;
mod world;
