//! Joins: in which order, and which of them become look-ups in an index.

mod candidate;
mod fuse;
mod graph;
pub mod implied;
pub mod index_join;
mod lookup;
pub mod merge_filters;
pub mod order;
mod relation;
mod sides;
