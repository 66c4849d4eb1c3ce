//! RDMA: reliable connections of queue pairs. Messages are written into the peer's ring, which it polls; regions are
//! read by the device, without the peer's processor. TCP is the wire beside it.
//!
//! libibverbs is loaded when a port is opened, so that nothing of it is needed to build, or to run without it.

mod device;
mod direct;
mod library;
mod transport;

pub use transport::Verbs;
