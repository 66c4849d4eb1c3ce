//! What every layer shares: identifiers, units, types, the row format, the key
//! encoding, checksums, buffers, time and randomness. No I/O.
//!
//! # Words
//! - **page address**, **chunk**, **page reference**: `ids`. Each identifier is a
//!   type of its own, so that none is taken for another.
//! - **part**: what a page is part of, and lies with: `ids/part.rs`.
//! - **value**: [`ValueRef`] borrows one from wherever it lies, [`Value`] owns one.
//! - **row**: the bytes of a row's columns, the same in memory, in the log, on
//!   pages and between nodes (`row.rs`).
//! - **key**: bytes whose order is the order of the values in them (`key.rs`).
//! - **layout**: what a schema says about the bytes of a row or key, worked out once.
//!
//! ```text
//!   text ──Value::parse──► Value ──as_ref──► ValueRef ──RowLayout::encode──► row bytes
//!        ◄────display─────                   │     ▲                            │
//!                                            │     └────── RowRef::value ──────┘
//!                           KeyLayout::encode│     ▲
//!                                            ▼     │ KeyLayout::decode
//!                                           key bytes
//! ```
//!
//! # Invariants
//! - Comparing two keys of a layout as bytes compares their values.
//! - A key holds its values in full: a tree entry stores key columns in its key
//!   only, and all others in its row.
//! - A row and a key have exactly one encoding for equal values, but for intervals of other parts and one length.
//! - Formats are little-endian (keys big-endian, for their order) and do not
//!   depend on the machine; `docs/file-format.md` has them byte by byte.
//!
//! # Failure model
//! Bytes may be hostile: reading them gives an error or a wrong value, never a
//! panic, and never touches memory outside the slice. Errors name the column,
//! what was expected and what was found. A broken invariant of our own panics;
//! where that would leave broken what others share, it ends the process ([`Critical`]).
//!
//! `unsafe` is confined to `buffer.rs`.

#![deny(unsafe_op_in_unsafe_fn)]
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod buffer;
pub mod bytes;
pub mod ids;
pub mod json;
pub mod key;
mod limits;
mod parse;
pub mod random;
pub mod row;
mod tester;
mod time;
pub mod types;
pub mod value;

pub use buffer::{AlignedBuffer, Arena, ArenaFrame, BUFFER_ALIGNMENT, Buffer};
pub use bytes::checksum;
pub use ids::{
    CHUNK_BYTES, CHUNKS_PER_VOLUME, ChunkId, DeviceId, GenerationNumber, InvalidPageSize, PAGE_BYTES_MAX,
    PAGE_BYTES_MIN, PageAddress, PageRef, PageSize, Part, PartKind, TableId, TreeId, VolumeNumber,
};
pub use key::{KeyColumn, KeyError, KeyLayout};
pub use limits::critical::{self, Critical};
pub use limits::{memory, stack};
pub use parse::{ParseError, ParseReason, array_elements};
pub use random::Random;
pub use row::{EarlierColumn, RowColumn, RowError, RowLayout, RowRef};
pub use tester::{panics, planted, seam};
pub use time::clock::{Clock, SystemClock, VirtualClock, wall_micros};
pub use time::interval::{INTERVAL_BYTES, Interval};
pub use time::{civil, clock, interval};
pub use types::{Column, DataType, Element, Enumeration, ValueRef};
pub use value::array;
pub use value::compare_op::CompareOp;
pub use value::display::display;
pub use value::pattern::{self, Pattern};
pub use value::{Value, compare};
