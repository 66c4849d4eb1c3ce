//! All threads of the process, one at a time, in an order of the seed's.
//!
//! The engine keeps its threads: reactors, logs, readers of segments, merges, queries. What makes a run repeat is that
//! they cannot tell: what they ask of the system for waiting, waking, starting, sleeping, time and random bytes comes
//! here instead (`system`), and exactly one of them is ever let go.
//!
//! ```text
//!   futex wait, join, sleep ──► blocked ─┐                      ┌─ the clock stands still while any thread can run,
//!   futex wake, spawn, yield, device ────┼──► who is next? ◄────┤  and jumps to the first deadline when none can
//!                                        │    (the seed says)   └─ the seed
//!                         one thread runs┘
//! ```
//!
//! - A thread gives way where it asks the system for something, at a [`switch_point`], and now and then where it
//!   allocates memory ([`Interrupting`]) or crosses a seam of the engine (`saki_base::seam`). Between two of these it
//!   runs alone: what lock-free code does under true parallelism is not tried here, but by loom and by `stress`.
//! - [`cut_power`] ends a world in the middle: its threads are never let go again. None of them is then in the middle
//!   of its own work ([`settle`]): what it had locked there, the next world might wait for.
//! - Memory lies where the seed says ([`memory`]), so that what a hash of an address decides is the seed's too.
//! - Time is virtual: ten seconds of patience cost nothing, and a wait without end is found by the clock.
//!
//! After Meta's Hermit and madsim, which put themselves below a program in the same way.

#[allow(unsafe_code)]
mod allocator;
#[allow(unsafe_code)]
mod core;
mod gate;
#[allow(unsafe_code)]
mod library;
#[allow(unsafe_code)]
mod memory;
mod scheduler;
#[allow(unsafe_code)]
mod system;

pub use self::core::{cores, stay, stay_on};
pub use allocator::Interrupting;
pub use scheduler::interruption::{Kept, held};
pub use scheduler::{Interruptions, Stuck, cut_power, in_world, note, now, run, settle, switch_point};
pub use system::{is_supported, prepare};
