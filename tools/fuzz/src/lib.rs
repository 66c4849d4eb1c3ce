//! What hostile bytes must never do, format by format.
//!
//! A *body* is a function of bytes that panics when a promise is broken. Bodies are
//! driven in two ways: by `cargo fuzz` from the targets in `fuzz/`, guided by
//! coverage for as long as one likes, and by `tests/mutations.rs` with every test
//! run, from valid *seeds* with seeded mutations, so that neither rots.
//!
//! | body | bytes | promise |
//! |---|---|---|
//! | [`pages::leaf`], [`pages::inner`], [`pages::overflow`] | a page | no panic; a page that verifies keeps its order |
//! | [`volumes::volume`] | edits of a device | it opens as it was, or is refused by name |
//! | [`values::row`], [`values::key`] | layout and row or key | no panic; what verifies has one encoding |
//! | [`columns::column`] | type, number of rows, and an encoded column | no panic; as many rows as stated |
//! | [`segments::entry`] | columns, and an entry of a directory | no panic; written and read again it is the same |
//! | [`logs::log`] | edits of a log's device | no record comes out that was not put in, and there is no gap |
//! | [`logs::record`] | a transaction's record | no panic; what is read, written and read again is the same |
//! | [`messages::frontend`] | what a client of the server sends | no panic; no message reaches beyond its bytes |
//! | [`fabric::wire`], [`fabric::frames`] | what a peer sends | no panic; the link is down at the end |
//! | [`fabric::ring`] | edits of a ring of messages | no panic, no message longer than may be |
//! | [`remote::message`] | what readers and owners of pages say | no panic; what is heard has one encoding |
//! | [`values::texts::records`] | a format of COPY, and a file | no panic; records are the same however it is cut |
//! | [`values::texts::shape`] | a statement's text | no panic; each literal has its place |
//! | [`values::text`] | a value as text | no panic; what is read is printed and read again |
//!
//! Nothing here allocates or runs without a bound: a target that only grows slow hides its faults.

#![forbid(unsafe_code)]

pub mod columns;
mod damage;
pub mod fabric;
mod input;
pub mod logs;
pub mod messages;
pub mod mutate;
pub mod pages;
pub mod remote;
pub mod segments;
pub mod values;
pub mod volumes;

/// A body with the bytes to begin from.
pub struct Target {
    pub name: &'static str,
    pub body: fn(&[u8]),
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets; `fuzz/fuzz_targets` has a file for each.
pub const TARGETS: [Target; 18] = [
    Target { name: "leaf", body: pages::leaf, seeds: pages::leaf_seeds },
    Target { name: "inner", body: pages::inner, seeds: pages::inner_seeds },
    Target { name: "overflow", body: pages::overflow, seeds: pages::overflow_seeds },
    Target { name: "volume", body: volumes::volume, seeds: volumes::seeds },
    Target { name: "row", body: values::row, seeds: values::row_seeds },
    Target { name: "key", body: values::key, seeds: values::key_seeds },
    Target { name: "column", body: columns::column, seeds: columns::seeds },
    Target { name: "segment", body: segments::entry, seeds: segments::entry_seeds },
    Target { name: "log", body: logs::log, seeds: logs::log_seeds },
    Target { name: "record", body: logs::record, seeds: logs::record_seeds },
    Target { name: "frontend", body: messages::frontend, seeds: messages::frontend_seeds },
    Target { name: "fabric_wire", body: fabric::wire, seeds: fabric::wire_seeds },
    Target { name: "fabric_frames", body: fabric::frames, seeds: fabric::frames_seeds },
    Target { name: "fabric_ring", body: fabric::ring, seeds: fabric::ring_seeds },
    Target { name: "remote", body: remote::message, seeds: remote::seeds },
    Target { name: "text", body: values::text, seeds: values::text_seeds },
    Target { name: "records", body: values::texts::records, seeds: values::texts::records_seeds },
    Target { name: "shape", body: values::texts::shape, seeds: values::texts::shape_seeds },
];
