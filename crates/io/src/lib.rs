//! Completion-based storage: thousands of reads and writes in flight, completed
//! in any order, and no thread waiting for any one of them.
//!
//! ```text
//!    reactor thread                 reactor thread                 (one lane each)
//!   ┌───────────────┐              ┌───────────────┐
//!   │ submit … poll │              │ submit … poll │      Share ──try_acquire──► Governor
//!   └───────┬───────┘              └───────┬───────┘                 (how many at once)
//!         Lane                           Lane                             ▲ starts from
//!           └──────────────┬───────────────┘                       DeviceProfile ◄── calibrate
//!                        Device
//!     ┌────────────┬───────┴──────┬──────────────┐
//!   uring       threads        modeled          sim
//!   io_uring    a pool of      another device   in memory: faults,
//!               pread threads  at stated times  crashes, a seed
//! ```
//!
//! # Words
//!
//! - **device**: something that completes reads and writes asynchronously.
//! - **lane**: one thread's private path to it. Operations go in by `submit`, completions come out by `poll`.
//! - **lanes**: one thread's ways to several devices, with one wait for all of them; files share one ring.
//! - **operation**: a read, a write or a flush with a token of the caller's; a **completion** is its end.
//! - **depth**: requests in flight at once. **knee**: the depth from which more brings no more throughput.
//! - **share**: one query's claim on a device's depth.
//!
//! # Invariants
//!
//! - Every operation completes exactly once, with its token and its buffer, success or not.
//! - Memory in flight belongs to the lane: a buffer *moves* into the operation
//!   and back out of the completion, and dropping a lane waits for the rest.
//! - Success means the whole transfer; short ones are continued inside.
//! - A write never makes a device longer: `ensure_length` does, ahead.
//! - A completed write is durable after a flush submitted later; one that is
//!   still in flight when the flush is submitted may or may not be covered.
//!   No order holds between operations in flight at once, not even on the same bytes.
//!
//! # Failure model
//!
//! A failing device gives errors, sorted by what one may do about them
//! ([`DeviceError`]), and never panics or hangs the caller. This layer detects
//! no corruption: lost, torn or misdirected writes look like success here and
//! are found above, by checksums in parents. [`SimDevice`] commits each of
//! them on demand. What is a mistake of the caller's code (a lane used from
//! two threads) panics.
//!
//! # Where the proofs are
//!
//! [`contract`] is run against every backend; the governor against models in
//! virtual time; each fault of the simulated device has a test.
//! `unsafe` is confined to `uring` and `system`.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

pub mod contract;
pub mod device;
mod file;
mod governor;
mod in_flight;
mod lanes;
mod modeled;
mod open;
mod profile;
mod sim;
mod system;
mod threads;
mod uring;

pub use device::{Completion, Device, DeviceError, Lane, Operation, OperationKind, Partner, Wait, Waker};
pub use file::{Backend, DeviceOptions};
pub use governor::{DEPTH_MAX, Governor, Share, Traffic};
pub use lanes::Lanes;
pub use modeled::{MERGED_BYTES_MAX, Model, ModelError, ModelOptions, ModeledDevice};
pub use open::open_device;
pub use profile::{
    CalibrateOptions, CalibrateProgress, DeviceProfile, LatencySummary, Measurement, ProfilePoint, calibrate,
    random_reads, random_reads_into,
};
pub use sim::{FaultRates, Faults, ObservedDevice, Observer, SimDevice, SimOptions, SimTiming, Survival};
pub use system::give_way;
pub use threads::THREADS_DEFAULT;
