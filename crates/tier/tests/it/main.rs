//! Policies over a real volume, on simulated devices: what is read comes to have copies.

mod bench;
mod moves;
