//! Transports over sockets: TCP, and shared memory beside Unix sockets.

mod direct;
mod shm;
mod sockets;
mod tcp;
mod wire;

pub use shm::Shm;
pub use sockets::Sockets;
pub use tcp::{Tcp, resolve};
