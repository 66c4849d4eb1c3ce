//! Nodes in one thread over a network that obeys a seed: it delays, reorders, drops, doubles and damages what passes,
//! cuts connections, and lets nodes vanish. Time is virtual, and passes while ports wait.

mod direct;
mod network;
mod transport;

pub use network::{SimNetwork, SimRates};
pub use transport::Sim;
