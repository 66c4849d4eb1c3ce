//! Which chunks have copies on faster devices: what is known of each chunk, policies that choose by it, and a thread
//! that moves what they choose.
//!
//! ```text
//!   Volume ── chunks, parts, reads ──► Book ──► Policy: what a copy is worth ──► choose ──► Volume::promote, evict
//!   plans ── forecasts ─────────────────┘
//! ```
//!
//! # Words
//!
//! - **home**, **copy**, **part**: as in `saki_volume`. **Fast device**: one that takes copies.
//! - **seconds**: of a device's time, as measured: what a read keeps it from doing anything else.
//! - **heat**: seconds that a copy of a chunk would have saved, of late: it halves every five minutes.
//! - **forecast**: what a statement is about to read, as its plan says.
//! - **worth**: what a policy says a copy brings, in any unit of its own; only compared.
//!
//! # Invariants
//!
//! - The volume owns where chunks lie. What is known here of that may be old: a chunk that has gone, or moved, is left
//!   out by [`Volume::promote`](saki_volume::Volume::promote).
//! - One thread moves chunks.
//! - What a merge writes takes the place of what it frees: a part's new chunks have the heat of those that went.
//!
//! # Failure model
//!
//! A fast device that fails, or is full, costs nothing but its copies: moving pauses, and is tried again. Queries never
//! wait for anything here.

#![forbid(unsafe_code)]

mod book;
mod choose;
mod forecast;
mod inherit;
mod places;
mod policy;
mod speed;
mod tier;

pub use book::{Book, Chunk, Wish};
pub use forecast::{Assessment, Use};
pub use policy::{Policy, PolicyKind};
pub use speed::{Reads, Speed};
pub use tier::{Expected, Tier, TierStats};
