//! Completion-based devices. (Introduction is written by the owner of this crate.)

pub mod device;
pub use device::{Completion, Device, DeviceError, Lane, Operation, OperationKind, Wait, Waker};
