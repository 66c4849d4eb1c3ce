//! Logical chunks on device slots: what is where, and which of it counts.
//! (introduction follows)
#![forbid(unsafe_code)]

mod admission;
mod blocking;
mod bytes;
mod durable;
mod error;
mod journal;
mod lane;
mod map;
mod publication;
mod scratch;
mod slots;
mod snapshot;
mod space;
mod superblock;
mod volume;
mod writer;

pub use error::VolumeError;
pub use map::Location;
pub use publication::Publication;
pub use scratch::{
    SCRATCH_BLOCK_BYTES, SCRATCH_BLOCKS_PER_RUN, ScratchReader, ScratchRun, ScratchSpace, ScratchWriter,
};
pub use snapshot::SnapshotGuard;
pub use superblock::ROOT_BYTES_MAX;
pub use volume::{OpenOptions, PROFILE_BYTES_MAX, Volume, VolumeOptions, VolumeStats};
pub use writer::{PageRun, PageWriter};
