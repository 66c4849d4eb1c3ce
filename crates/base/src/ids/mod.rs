//! Identifiers and units. Each is a newtype, so that a page number, a chunk
//! number and a byte offset can never be mistaken for one another.

mod part;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::part::{Part, PartKind};

/// Bytes in a chunk: the unit of placement, heat and relocation.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Smallest page a database may be created with, in bytes.
pub const PAGE_BYTES_MIN: u32 = 4 << 10;
/// Largest page a database may be created with, in bytes.
pub const PAGE_BYTES_MAX: u32 = 128 << 10;
const _: () = assert!(PAGE_BYTES_MIN as usize >= crate::BUFFER_ALIGNMENT, "a page is a buffer that devices accept");
const _: () = assert!(CHUNK_BYTES.is_multiple_of(PAGE_BYTES_MAX as usize), "no page crosses a chunk's end");

/// A page's 64-bit logical position in the volume, counted in pages of the
/// database's page size. Never a device position, and never used twice:
/// a published page keeps its address and its bytes for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct PageAddress(pub u64);

/// A chunk of logical address space: `CHUNK_BYTES / page size` pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ChunkId(pub u64);

/// A volume among those whose pages are read together: the high bits of all its chunks, so that the address of a page
/// says whose it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct VolumeNumber(pub u16);

/// Chunks that a volume can ever have: 2^40, which is 2^60 bytes. With pages of 4 KiB, the smallest, an address has
/// 16 bits left for the volume.
pub const CHUNKS_PER_VOLUME: u64 = 1 << 40;
const _: () = assert!(
    (u16::MAX as u64 + 1) as u128 * CHUNKS_PER_VOLUME as u128 * (CHUNK_BYTES as u64 / PAGE_BYTES_MIN as u64) as u128
        <= 1 << 64,
    "every page of every volume has an address"
);

impl VolumeNumber {
    /// The chunk with which the volume begins.
    pub const fn first_chunk(self) -> ChunkId {
        ChunkId(self.0 as u64 * CHUNKS_PER_VOLUME)
    }
}

impl ChunkId {
    /// Whose it is; of an id that is no volume's, the last one.
    pub const fn volume(self) -> VolumeNumber {
        let number = self.0 / CHUNKS_PER_VOLUME;
        VolumeNumber(if number > u16::MAX as u64 { u16::MAX } else { number as u16 })
    }
}

/// A tree in this database (primary or secondary); printed in every fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct TreeId(pub u32);

/// A table in this database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct TableId(pub u32);

/// One published set of roots. Grows by one with every publish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct GenerationNumber(pub u64);

/// A device of a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct DeviceId(pub u16);

/// Where a page is and what it must contain, as a parent stores it. Reading
/// verifies the page against its parent, so bit rot and torn, lost,
/// misdirected or stale reads are all found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct PageRef {
    pub address: PageAddress,
    /// xxh3-64 of the page's bytes.
    pub checksum: u64,
}

const _: () = assert!(size_of::<PageRef>() == 16, "as long as in a page");

/// The size of every page of a database, in bytes: a power of two from
/// [`PAGE_BYTES_MIN`] to [`PAGE_BYTES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct PageSize(u32);

/// A page size that no database can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidPageSize(pub u32);

impl PageSize {
    /// Checks a size in bytes.
    pub const fn new(bytes: u32) -> Result<Self, InvalidPageSize> {
        if bytes.is_power_of_two() && bytes >= PAGE_BYTES_MIN && bytes <= PAGE_BYTES_MAX {
            Ok(Self(bytes))
        } else {
            Err(InvalidPageSize(bytes))
        }
    }

    #[inline]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub const fn pages_per_chunk(self) -> u64 {
        (CHUNK_BYTES / self.0 as usize) as u64
    }

    /// The chunk an address lies in.
    #[inline]
    pub const fn chunk_of(self, address: PageAddress) -> ChunkId {
        ChunkId(address.0 / self.pages_per_chunk())
    }

    /// Byte offset of a page inside its chunk.
    #[inline]
    pub const fn offset_in_chunk(self, address: PageAddress) -> usize {
        (address.0 % self.pages_per_chunk()) as usize * self.bytes()
    }

    /// Address of the `index`th page of a chunk.
    #[inline]
    pub const fn page_in_chunk(self, chunk: ChunkId, index: u64) -> PageAddress {
        assert!(index < self.pages_per_chunk(), "a page beyond its chunk's end");
        PageAddress(chunk.0 * self.pages_per_chunk() + index)
    }
}

impl TryFrom<u32> for PageSize {
    type Error = InvalidPageSize;
    fn try_from(bytes: u32) -> Result<Self, InvalidPageSize> {
        Self::new(bytes)
    }
}

impl From<PageSize> for u32 {
    fn from(size: PageSize) -> u32 {
        size.0
    }
}

impl fmt::Display for InvalidPageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "page size {} is not a power of two from {} to {} bytes; choose 4096, 8192, 16384, 32768, 65536 or 131072",
            self.0, PAGE_BYTES_MIN, PAGE_BYTES_MAX
        )
    }
}

impl std::error::Error for InvalidPageSize {}

impl fmt::Display for PageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

impl fmt::Display for VolumeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {}", self.0)
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {}", self.0)
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tree {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_page_says_whose_it_is() {
        for number in [0, 1, 255, u16::MAX].map(VolumeNumber) {
            let (first, last) = (number.first_chunk(), ChunkId(number.first_chunk().0 + CHUNKS_PER_VOLUME - 1));
            assert_eq!((first.volume(), last.volume()), (number, number));
            for bytes in [PAGE_BYTES_MIN, PAGE_BYTES_MAX] {
                let size = PageSize::new(bytes).expect("valid");
                for (chunk, page) in [(first, 0), (last, size.pages_per_chunk() - 1)] {
                    let address = size.page_in_chunk(chunk, page);
                    assert_eq!(size.chunk_of(address), chunk, "{address}");
                    assert_eq!(size.chunk_of(address).volume(), number);
                }
            }
        }
        assert_eq!(ChunkId(u64::MAX).volume(), VolumeNumber(u16::MAX));
    }
}
