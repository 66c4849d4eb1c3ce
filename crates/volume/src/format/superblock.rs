//! The superblock: the one place that says which generation is published.
//!
//! ```text
//!      0  magic "SAKIGAKE"        8 bytes
//!      8  format version          4
//!     12  page size, bytes        4
//!     16  database id            16
//!     32  generation              8
//!     40  next chunk id           8
//!     48  journal length, bytes   8
//!     56  journal sequence        8   of its first block
//!     64  journal slots, count    4
//!     68  root length, bytes      4
//!     72  open tails, count       4
//!     76  device table, bytes     4
//!     80  open tails             56 x (chunk 8, next page 4, zero 4)
//!    976  root                  256
//!   1232  journal slots         712 x 4
//!   4080  checksum of the table   8   xxh3-64
//!   4088  checksum                8   xxh3-64 of bytes 0..4088
//!   4096  device table              zeros up to a multiple of 4096
//! ```
//!
//! All numbers are little-endian. The journal's slots are those of the device that the superblock lies on. Where
//! superblocks lie, and which of them counts, is for `places`.

use saki_base::bytes::{put_u32, put_u64, put_u128, u32_at, u64_at, u128_at};
use saki_base::{ChunkId, GenerationNumber, PageSize, checksum};

use super::table::{self, DeviceEntry, TABLE_BYTES_MAX};

/// Bytes of a superblock before its device table.
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
/// Bytes that a superblock has at most, table and all: what is kept for it in each place.
pub(crate) const SUPERBLOCK_BYTES_MAX: usize = SUPERBLOCK_BYTES + TABLE_BYTES_MAX;
/// Version of everything this crate writes.
pub(crate) const FORMAT_VERSION: u32 = 6;
/// The same bytes, of a database whose rows have no columns that their table has lost: read. Programs that know no
/// later version would misread the rows of others.
#[cfg(test)]
const FORMAT_VERSION_NOTHING_DROPPED: u32 = 5;
/// The same bytes, of a database whose rows have all columns of their table besides, and whose tables hide none: read.
#[cfg(test)]
const FORMAT_VERSION_WHOLE_ROWS: u32 = 4;
/// Eight open tails before a root at byte 208, and no parts in the journal: read.
pub(crate) const FORMAT_VERSION_FEW_TAILS: u32 = 3;
/// One device, and so no table: read.
pub(crate) const FORMAT_VERSION_ONE_DEVICE: u32 = 2;
/// The same bytes, but with one copy of each superblock: read, and given its copies when it is opened for writing.
pub(crate) const FORMAT_VERSION_ONE_COPY: u32 = 1;
/// Largest opaque root, in bytes.
pub const ROOT_BYTES_MAX: usize = 256;
/// Most slots the journal can occupy.
pub(crate) const JOURNAL_SLOTS_MAX: usize = 712;
/// The same before there was a device table.
const JOURNAL_SLOTS_MAX_ONE_DEVICE: usize = 714;
/// Most chunks that stay open for the next publish: enough that each part of some tables may have one.
pub(crate) const TAILS_MAX: usize = 56;
/// The same in earlier versions.
const TAILS_MAX_FEW: usize = 8;

const MAGIC: &[u8; 8] = b"SAKIGAKE";
const OFFSET_TAILS: usize = 80;
const TAIL_BYTES: usize = 16;
const OFFSET_ROOT: usize = OFFSET_TAILS + TAILS_MAX * TAIL_BYTES;
const OFFSET_JOURNAL_SLOTS: usize = OFFSET_ROOT + ROOT_BYTES_MAX;
const OFFSET_TABLE_BYTES: usize = 76;
const OFFSET_TABLE_CHECKSUM: usize = SUPERBLOCK_BYTES - 16;
const OFFSET_CHECKSUM: usize = SUPERBLOCK_BYTES - 8;
const OFFSET_ROOT_FEW_TAILS: usize = OFFSET_TAILS + TAILS_MAX_FEW * TAIL_BYTES;
const _: () = assert!(OFFSET_ROOT == 976 && OFFSET_ROOT_FEW_TAILS == 208);
const _: () = assert!(OFFSET_JOURNAL_SLOTS + JOURNAL_SLOTS_MAX * 4 == OFFSET_TABLE_CHECKSUM);
const _: () = assert!(OFFSET_JOURNAL_SLOTS + JOURNAL_SLOTS_MAX_ONE_DEVICE * 4 == OFFSET_CHECKSUM);

/// A chunk whose pages from `next_page` on have never been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tail {
    pub chunk: ChunkId,
    pub next_page: u32,
}

/// A checked superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    /// The version it was read in; it is always written in [`FORMAT_VERSION`].
    pub version: u32,
    pub page_size: PageSize,
    pub database_id: u128,
    pub generation: GenerationNumber,
    /// Chunk ids from here on have never been published.
    pub next_chunk: ChunkId,
    pub journal_length: u64,
    pub journal_sequence: u64,
    pub journal_slots: Vec<u32>,
    pub tails: Vec<Tail>,
    pub root: Vec<u8>,
    /// The volume's devices; one without a label where the format had no table.
    pub devices: Vec<DeviceEntry>,
}

/// Why bytes are no superblock, the least telling reason first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SuperblockFault {
    Magic,
    Checksum,
    Field(&'static str),
    /// A page size no database can have.
    PageSize(u32),
    /// `whole`: the checksum is right, so the version is no accident.
    Version {
        found: u32,
        whole: bool,
    },
}

impl Superblock {
    /// Asserts what holds of every superblock that is published.
    pub fn assert_sound(&self) {
        let journal_bytes_max = (self.journal_slots.len() as u64) << 20;
        assert!(self.journal_length <= journal_bytes_max, "a journal of {} bytes in its slots", self.journal_length);
        let full = self.page_size.pages_per_chunk();
        let within = |tail: &Tail| u64::from(tail.next_page) <= full && tail.chunk < self.next_chunk;
        assert!(self.tails.iter().all(within), "an open tail lies beyond its chunk, or beyond all chunks");
    }

    pub fn encode(&self) -> Vec<u8> {
        assert!(self.root.len() <= ROOT_BYTES_MAX, "a root of {} bytes", self.root.len());
        assert!(self.tails.len() <= TAILS_MAX, "{} open tails", self.tails.len());
        assert!(self.journal_slots.len() <= JOURNAL_SLOTS_MAX, "a journal of {} slots", self.journal_slots.len());
        let table = table::encode(&self.devices);
        let mut bytes = vec![0; SUPERBLOCK_BYTES + table.len().next_multiple_of(4096)];
        bytes[SUPERBLOCK_BYTES..SUPERBLOCK_BYTES + table.len()].copy_from_slice(&table);
        bytes[..8].copy_from_slice(MAGIC);
        put_u32(&mut bytes, 8, FORMAT_VERSION);
        put_u32(&mut bytes, 12, self.page_size.into());
        put_u128(&mut bytes, 16, self.database_id);
        put_u64(&mut bytes, 32, self.generation.0);
        put_u64(&mut bytes, 40, self.next_chunk.0);
        put_u64(&mut bytes, 48, self.journal_length);
        put_u64(&mut bytes, 56, self.journal_sequence);
        put_u32(&mut bytes, 64, self.journal_slots.len() as u32);
        put_u32(&mut bytes, 68, self.root.len() as u32);
        put_u32(&mut bytes, 72, self.tails.len() as u32);
        put_u32(&mut bytes, OFFSET_TABLE_BYTES, table.len() as u32);
        put_u64(&mut bytes, OFFSET_TABLE_CHECKSUM, checksum(&table));
        for (index, tail) in self.tails.iter().enumerate() {
            let at = OFFSET_TAILS + index * TAIL_BYTES;
            put_u64(&mut bytes, at, tail.chunk.0);
            put_u32(&mut bytes, at + 8, tail.next_page);
        }
        bytes[OFFSET_ROOT..OFFSET_ROOT + self.root.len()].copy_from_slice(&self.root);
        for (index, slot) in self.journal_slots.iter().enumerate() {
            put_u32(&mut bytes, OFFSET_JOURNAL_SLOTS + index * 4, *slot);
        }
        let sum = checksum(&bytes[..OFFSET_CHECKSUM]);
        put_u64(&mut bytes, OFFSET_CHECKSUM, sum);
        bytes
    }

    /// Checks and reads a superblock. Every version of the format keeps the places of magic,
    /// version and checksum, so that an older program can tell a newer one's from a damaged one.
    pub fn decode(bytes: &[u8]) -> Result<Self, SuperblockFault> {
        if bytes.len() < SUPERBLOCK_BYTES || &bytes[..8] != MAGIC {
            return Err(SuperblockFault::Magic);
        }
        let small = |at| u32_at(bytes, at).ok_or(SuperblockFault::Magic);
        let version = small(8)?;
        let whole = u64_at(bytes, OFFSET_CHECKSUM) == Some(checksum(&bytes[..OFFSET_CHECKSUM]));
        if !(FORMAT_VERSION_ONE_COPY..=FORMAT_VERSION).contains(&version) {
            return Err(SuperblockFault::Version { found: version, whole });
        }
        if !whole {
            return Err(SuperblockFault::Checksum);
        }
        let large = |at| u64_at(bytes, at).ok_or(SuperblockFault::Magic);
        let page_size = PageSize::new(small(12)?).map_err(|error| SuperblockFault::PageSize(error.0))?;
        let counted = |at: usize, max: usize, what| {
            let count = small(at)? as usize;
            if count <= max { Ok(count) } else { Err(SuperblockFault::Field(what)) }
        };
        let has_table = version > FORMAT_VERSION_ONE_DEVICE;
        let slots_max = if has_table { JOURNAL_SLOTS_MAX } else { JOURNAL_SLOTS_MAX_ONE_DEVICE };
        let slot_count = counted(64, slots_max, "too many journal slots")?;
        let root_length = counted(68, ROOT_BYTES_MAX, "the root is too long")?;
        let (tails_max, root_at) = match version > FORMAT_VERSION_FEW_TAILS {
            true => (TAILS_MAX, OFFSET_ROOT),
            false => (TAILS_MAX_FEW, OFFSET_ROOT_FEW_TAILS),
        };
        let tail_count = counted(72, tails_max, "too many open tails")?;
        let journal_length = large(48)?;
        if journal_length > (slot_count as u64) << 20 {
            return Err(SuperblockFault::Field("the journal is longer than its slots"));
        }
        let tail = |index: usize| {
            let at = OFFSET_TAILS + index * TAIL_BYTES;
            Ok(Tail { chunk: ChunkId(large(at)?), next_page: small(at + 8)? })
        };
        let tails: Vec<Tail> = (0..tail_count).map(tail).collect::<Result<_, _>>()?;
        if tails.iter().any(|tail| u64::from(tail.next_page) > page_size.pages_per_chunk()) {
            return Err(SuperblockFault::Field("an open tail lies beyond its chunk"));
        }
        let slots = (0..slot_count).map(|index| small(OFFSET_JOURNAL_SLOTS + index * 4));
        let journal_slots = slots.collect::<Result<Vec<_>, _>>()?;
        let mut sorted = journal_slots.clone();
        sorted.sort_unstable();
        if sorted.first() == Some(&0) || sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(SuperblockFault::Field("a journal slot is used twice"));
        }
        let devices = if has_table { decode_table(bytes)? } else { vec![DeviceEntry::only(String::new())] };
        Ok(Self {
            version,
            page_size,
            database_id: u128_at(bytes, 16).ok_or(SuperblockFault::Magic)?,
            generation: GenerationNumber(large(32)?),
            next_chunk: ChunkId(large(40)?),
            journal_length,
            journal_sequence: large(56)?,
            journal_slots,
            tails,
            root: bytes[root_at..root_at + root_length].to_vec(),
            devices,
        })
    }
}

/// The device table of a superblock whose first part is whole. One that was torn off passes for a torn superblock.
fn decode_table(bytes: &[u8]) -> Result<Vec<DeviceEntry>, SuperblockFault> {
    let length = u32_at(bytes, OFFSET_TABLE_BYTES).ok_or(SuperblockFault::Magic)? as usize;
    if length > TABLE_BYTES_MAX {
        return Err(SuperblockFault::Field("the device table is too long"));
    }
    let table = bytes.get(SUPERBLOCK_BYTES..SUPERBLOCK_BYTES + length).ok_or(SuperblockFault::Checksum)?;
    if u64_at(bytes, OFFSET_TABLE_CHECKSUM) != Some(checksum(table)) {
        return Err(SuperblockFault::Checksum);
    }
    table::decode(table).map_err(SuperblockFault::Field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Superblock {
        Superblock {
            version: FORMAT_VERSION,
            page_size: PageSize::new(8192).expect("valid"),
            database_id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
            generation: GenerationNumber(7),
            next_chunk: ChunkId(99),
            journal_length: 8192,
            journal_sequence: 3,
            journal_slots: vec![4, 9],
            tails: vec![Tail { chunk: ChunkId(98), next_page: 17 }],
            root: b"the catalog".to_vec(),
            devices: vec![DeviceEntry::only("/x".to_owned())],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Superblock::decode(&example().encode()), Ok(example()));
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let mut expected = Vec::new();
        expected.extend_from_slice(b"SAKIGAKE");
        expected.extend_from_slice(&[6, 0, 0, 0, 0, 0x20, 0, 0]);
        expected.extend_from_slice(&[
            0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 1,
        ]);
        for number in [7u64, 99, 8192, 3] {
            expected.extend_from_slice(&number.to_le_bytes());
        }
        for number in [2u32, 11, 1, 32] {
            expected.extend_from_slice(&number.to_le_bytes());
        }
        expected.extend_from_slice(&[98, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0]);
        expected.resize(976, 0);
        expected.extend_from_slice(b"the catalog");
        expected.resize(1232, 0);
        expected.extend_from_slice(&[4, 0, 0, 0, 9, 0, 0, 0]);
        expected.resize(4080, 0);
        let table = table::encode(&example().devices);
        expected.extend_from_slice(&checksum(&table).to_le_bytes());
        let sum = checksum(&expected);
        expected.extend_from_slice(&sum.to_le_bytes());
        expected.extend_from_slice(&table);
        expected.resize(8192, 0);
        assert_eq!(example().encode().as_slice(), expected);
    }

    /// The example as an earlier version wrote it, without its table's checksum if that had none.
    fn earlier(version: u32) -> Vec<u8> {
        let mut bytes = example().encode();
        put_u32(&mut bytes, 8, version);
        bytes.copy_within(OFFSET_ROOT..OFFSET_ROOT + ROOT_BYTES_MAX, OFFSET_ROOT_FEW_TAILS);
        bytes[OFFSET_ROOT..OFFSET_ROOT + ROOT_BYTES_MAX].fill(0);
        if version <= FORMAT_VERSION_ONE_DEVICE {
            put_u32(&mut bytes, 76, 0);
            put_u64(&mut bytes, OFFSET_TABLE_CHECKSUM, 0);
        }
        let sum = checksum(&bytes[..OFFSET_CHECKSUM]);
        put_u64(&mut bytes, OFFSET_CHECKSUM, sum);
        bytes
    }

    #[test]
    fn a_version_of_few_tails_has_its_root_behind_them() {
        let expected = Superblock { version: FORMAT_VERSION_FEW_TAILS, ..example() };
        assert_eq!(Superblock::decode(&earlier(FORMAT_VERSION_FEW_TAILS)), Ok(expected));
    }

    #[test]
    fn versions_of_other_rows_have_the_same_bytes() {
        for version in [FORMAT_VERSION_WHOLE_ROWS, FORMAT_VERSION_NOTHING_DROPPED] {
            let mut bytes = example().encode();
            put_u32(&mut bytes, 8, version);
            let sum = checksum(&bytes[..OFFSET_CHECKSUM]);
            put_u64(&mut bytes, OFFSET_CHECKSUM, sum);
            assert_eq!(Superblock::decode(&bytes), Ok(Superblock { version, ..example() }));
        }
    }

    #[test]
    fn versions_without_a_table_have_one_device() {
        for version in [FORMAT_VERSION_ONE_COPY, FORMAT_VERSION_ONE_DEVICE] {
            let bytes = earlier(version);
            let expected = Superblock { version, devices: vec![DeviceEntry::only(String::new())], ..example() };
            assert_eq!(Superblock::decode(&bytes[..SUPERBLOCK_BYTES]), Ok(expected));
        }
    }

    #[test]
    fn each_fault_has_its_own_answer() {
        let good = example().encode();
        assert_eq!(Superblock::decode(&good[..100]), Err(SuperblockFault::Magic));
        assert_eq!(Superblock::decode(&[0; SUPERBLOCK_BYTES]), Err(SuperblockFault::Magic));
        let mut other_version = good.clone();
        other_version[8] = 9;
        assert_eq!(Superblock::decode(&other_version), Err(SuperblockFault::Version { found: 9, whole: false }));
        let mut page_size = good;
        put_u32(&mut page_size, 12, 5000);
        assert_eq!(Superblock::decode(&page_size), Err(SuperblockFault::Checksum));
        let sum = checksum(&page_size[..OFFSET_CHECKSUM]);
        put_u64(&mut page_size, OFFSET_CHECKSUM, sum);
        assert_eq!(Superblock::decode(&page_size), Err(SuperblockFault::PageSize(5000)));
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_never_accepted(bit in 0..(SUPERBLOCK_BYTES + 26) * 8) {
            let mut bytes = example().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Superblock::decode(&bytes).is_err());
        }

        /// Hostile fields behind a right checksum: an error or a superblock, never a panic.
        #[test]
        fn hostile_fields_do_not_panic(
            edits in proptest::collection::vec((12usize..OFFSET_CHECKSUM, any::<u8>()), 1..40),
        ) {
            let mut bytes = example().encode();
            for (at, value) in edits {
                bytes[at] = value;
            }
            let sum = checksum(&bytes[..OFFSET_CHECKSUM]);
            put_u64(&mut bytes, OFFSET_CHECKSUM, sum);
            if let Ok(superblock) = Superblock::decode(&bytes) {
                superblock.encode();
            }
        }
    }
}
