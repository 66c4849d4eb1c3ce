//! What every layer shares.

pub mod buffer;
pub mod checksum;
pub mod ids;
pub mod key;
pub mod row;
pub mod types;

pub use buffer::{AlignedBuffer, Arena, ArenaSlot, BUFFER_ALIGNMENT, Buffer};
pub use checksum::checksum;
pub use ids::{
    CHUNK_BYTES, ChunkId, DeviceId, Generation, InvalidPageSize, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PageAddress, PageRef,
    PageSize, TableId, TreeId,
};
pub use key::{KeyColumn, KeyError, KeyLayout};
pub use row::{RowColumn, RowError, RowLayout, RowView};
pub use types::{Column, DataType, ValueRef};
