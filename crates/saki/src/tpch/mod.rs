//! TPC-H: its tables, its data at any scale, its 22 queries.
//!
//! Data is generated, not read: the same rows for the same scale factor on
//! every machine, streamed so that any scale takes the same memory.
//!
//! - [`TABLES`]: columns with the specification's types, primary keys, and the
//!   indexes that its foreign keys suggest.
//! - [`batches`]: the rows of a table, from a thread of their own.
//! - [`load`]: both together.
//! - [`query`]: the queries with the specification's validation parameters.

mod generate;
mod load;
mod queries;
mod schema;

pub use generate::{Batches, SCALE_MAX, SCALE_MIN, batches, data_bytes};
pub use load::{Progress, TableLoaded, load};
pub use queries::{QUERIES, Query, query};
pub use schema::{TABLES, Table, table};
