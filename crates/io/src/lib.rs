//! x
#![deny(unsafe_op_in_unsafe_fn)]
#![deny(unsafe_code)]
pub mod contract;
pub mod device;
mod file;
mod inbox;
mod slab;
mod system;
mod threads;
mod uring;
pub use device::{Completion, Device, DeviceError, Lane, Operation, OperationKind, Wait, Waker};
pub use file::{Backend, DeviceOptions, open_device};
pub use threads::THREADS_DEFAULT;
