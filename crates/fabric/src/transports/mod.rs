//! The transports.

mod sim;
mod socket;
#[allow(unsafe_code)]
mod verbs;

pub use sim::{Sim, SimNetwork, SimRates};
pub use socket::{Shm, Tcp};
pub use verbs::Verbs;
