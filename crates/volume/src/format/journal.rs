//! The journal: what happened to chunks, as records in checksummed blocks.
//!
//! A journal is one stream of bytes over the slots that the superblock lists. It
//! *starts* with the whole chunk map as of its creation (that is the checkpoint)
//! and goes on with one or more blocks per publish. There is no second format for
//! checkpoints: when a journal has grown too long, a fresh one is begun elsewhere.
//!
//! ```text
//! block   0  checksum        8      record   0  kind       1
//!         8  magic "SKJB"    4               1  part kind  1   (0 in other records)
//!        12  records, count  4               2  device     2   (of a part: its column)
//!        16  sequence        8               4  count      4
//!        24  generation      8               8  chunk      8
//!        32  records        24 each         16  place      8   (of a part: its tree)
//!            zeros up to a multiple of 4096
//! ```
//!
//! The checksum covers everything behind it up to the last record. Only the bytes below the length
//! that the superblock names are ever read, so anything behind them is of no account.

use saki_base::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use saki_base::{ChunkId, DeviceId, GenerationNumber, Part, PartKind, TreeId, checksum};

use crate::map::Location;

/// Every block is a multiple of this, so that a publish never rewrites published journal bytes.
pub(crate) const BLOCK_ALIGNMENT: usize = 4096;
const MAGIC: u32 = u32::from_le_bytes(*b"SKJB");
const HEADER_BYTES: usize = 32;
const RECORD_BYTES: usize = 24;
/// Most records of a block, so that its size has a bound (64 KiB).
const BLOCK_RECORDS_MAX: usize = (65536 - HEADER_BYTES) / RECORD_BYTES;
const _: () = assert!(HEADER_BYTES + BLOCK_RECORDS_MAX * RECORD_BYTES <= 65536);

/// One fact about chunks. Runs of neighbours share a record: a bulk load of a
/// hundred thousand chunks is a handful of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    /// Chunks `chunk..chunk + count` lie in the slots from `location` on, with no live page yet.
    Assign { chunk: ChunkId, count: u32, location: Location },
    /// Chunks `chunk..chunk + chunks` have `pages` live pages each.
    Live { chunk: ChunkId, chunks: u64, pages: u32 },
    /// The chunk has no live page; its slot is free.
    Free { chunk: ChunkId },
    /// Chunks `chunk..chunk + count` lie in the slots from `location` on now; their old ones are free.
    Move { chunk: ChunkId, count: u32, location: Location },
    /// Chunks `chunk..chunk + count` have pages of this part.
    Part { chunk: ChunkId, count: u32, part: Part },
}

const KIND_ASSIGN: u8 = 1;
const KIND_LIVE: u8 = 2;
const KIND_FREE: u8 = 3;
const KIND_MOVE: u8 = 4;
const KIND_PART: u8 = 5;

impl Record {
    fn encode(self, bytes: &mut [u8]) {
        let (kind, detail, count, chunk, place) = match self {
            Self::Assign { chunk, count, location } => {
                (KIND_ASSIGN, (0, location.device.0), count, chunk, location.slot)
            }
            Self::Live { chunk, chunks, pages } => (KIND_LIVE, (0, 0), pages, chunk, chunks),
            Self::Free { chunk } => (KIND_FREE, (0, 0), 0, chunk, 0),
            Self::Move { chunk, count, location } => (KIND_MOVE, (0, location.device.0), count, chunk, location.slot),
            Self::Part { chunk, count, part } => (KIND_PART, part.kind.code(), count, chunk, u64::from(part.tree.0)),
        };
        (bytes[0], bytes[1]) = (kind, detail.0);
        put_u16(bytes, 2, detail.1);
        put_u32(bytes, 4, count);
        put_u64(bytes, 8, chunk.0);
        put_u64(bytes, 16, place);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let device = DeviceId(u16_at(bytes, 2)?);
        let (count, chunk, place) = (u32_at(bytes, 4)?, ChunkId(u64_at(bytes, 8)?), u64_at(bytes, 16)?);
        match *bytes.first()? {
            KIND_ASSIGN => Some(Self::Assign { chunk, count, location: Location { device, slot: place } }),
            KIND_LIVE => Some(Self::Live { chunk, chunks: place, pages: count }),
            KIND_FREE => Some(Self::Free { chunk }),
            KIND_MOVE => Some(Self::Move { chunk, count, location: Location { device, slot: place } }),
            KIND_PART => {
                let tree = TreeId(u32::try_from(place).ok()?);
                let kind = PartKind::from_code(*bytes.get(1)?, device.0)?;
                Some(Self::Part { chunk, count, part: Part::new(tree, kind) })
            }
            _ => None,
        }
    }
}

/// Gathers records, joining neighbours into runs.
#[derive(Default)]
pub(crate) struct Records(Vec<Record>);

impl Records {
    /// Ascending chunk order gives the longest runs.
    pub fn assign(&mut self, chunk: ChunkId, location: Location) {
        if let Some(Record::Assign { chunk: first, count, location: start }) = self.0.last_mut()
            && first.0 + u64::from(*count) == chunk.0
            && start.device == location.device
            && start.slot + u64::from(*count) == location.slot
            && *count < u32::MAX
        {
            *count += 1;
            return;
        }
        self.0.push(Record::Assign { chunk, count: 1, location });
    }

    pub fn live(&mut self, chunk: ChunkId, pages: u32) {
        if let Some(Record::Live { chunk: first, chunks, pages: same }) = self.0.last_mut()
            && first.0 + *chunks == chunk.0
            && *same == pages
        {
            *chunks += 1;
            return;
        }
        self.0.push(Record::Live { chunk, chunks: 1, pages });
    }

    /// One part's chunks after another's, each in ascending order, gives the longest runs.
    pub fn part(&mut self, chunk: ChunkId, part: Part) {
        if let Some(Record::Part { chunk: first, count, part: same }) = self.0.last_mut()
            && first.0 + u64::from(*count) == chunk.0
            && *same == part
            && *count < u32::MAX
        {
            *count += 1;
            return;
        }
        self.0.push(Record::Part { chunk, count: 1, part });
    }

    pub fn free(&mut self, chunk: ChunkId) {
        self.0.push(Record::Free { chunk });
    }

    /// Ascending chunk order gives the longest runs.
    pub fn moved(&mut self, chunk: ChunkId, location: Location) {
        if let Some(Record::Move { chunk: first, count, location: start }) = self.0.last_mut()
            && first.0 + u64::from(*count) == chunk.0
            && start.device == location.device
            && start.slot + u64::from(*count) == location.slot
        {
            *count += 1;
            return;
        }
        self.0.push(Record::Move { chunk, count: 1, location });
    }

    /// Blocks for these records, the first with `sequence`; returns the next sequence number.
    pub fn encode(&self, generation: GenerationNumber, mut sequence: u64, out: &mut Vec<u8>) -> u64 {
        for records in self.0.chunks(BLOCK_RECORDS_MAX) {
            let start = out.len();
            assert!(start.is_multiple_of(BLOCK_ALIGNMENT), "a journal block would begin at byte {start}");
            let used = HEADER_BYTES + records.len() * RECORD_BYTES;
            out.resize(start + used.next_multiple_of(BLOCK_ALIGNMENT), 0);
            let block = &mut out[start..];
            put_u32(block, 8, MAGIC);
            put_u32(block, 12, records.len() as u32);
            put_u64(block, 16, sequence);
            put_u64(block, 24, generation.0);
            for (record, place) in records.iter().zip(block[HEADER_BYTES..].chunks_exact_mut(RECORD_BYTES)) {
                record.encode(place);
            }
            let sum = checksum(&block[8..used]);
            put_u64(block, 0, sum);
            sequence += 1;
        }
        sequence
    }
}

/// What is wrong with a journal, and at which byte of its stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JournalFault {
    pub position: usize,
    pub what: String,
}

/// Reads a whole stream, giving each record and its block's generation to `apply` in order. Returns the sequence number
/// of the next block.
pub(crate) fn replay(
    stream: &[u8],
    mut sequence: u64,
    generation: GenerationNumber,
    mut apply: impl FnMut(Record, GenerationNumber) -> Result<(), String>,
) -> Result<u64, JournalFault> {
    let mut position = 0;
    while position < stream.len() {
        let fault = |what: &str| JournalFault { position, what: what.to_owned() };
        let block = &stream[position..];
        if block.len() < BLOCK_ALIGNMENT {
            return Err(fault("the journal ends within a block"));
        }
        if u32_at(block, 8) != Some(MAGIC) {
            return Err(fault("no journal block where one must start"));
        }
        let (Some(count), Some(of)) = (u32_at(block, 12), u64_at(block, 24).map(GenerationNumber)) else {
            return Err(fault("the journal ends within a block"));
        };
        let count = count as usize;
        let used = HEADER_BYTES + count.min(BLOCK_RECORDS_MAX) * RECORD_BYTES;
        if count == 0 || count > BLOCK_RECORDS_MAX || used > block.len() {
            return Err(fault("a journal block has an impossible length"));
        }
        if u64_at(block, 0) != Some(checksum(&block[8..used])) {
            return Err(fault("a journal block's checksum is wrong"));
        }
        if u64_at(block, 16) != Some(sequence) || of > generation {
            return Err(fault("a journal block is out of sequence"));
        }
        for bytes in block[HEADER_BYTES..used].chunks_exact(RECORD_BYTES) {
            let record = Record::decode(bytes).ok_or_else(|| fault("a journal record is of unknown kind"))?;
            apply(record, of).map_err(|what| fault(&what))?;
        }
        sequence += 1;
        position += used.next_multiple_of(BLOCK_ALIGNMENT);
    }
    Ok(sequence)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn location(slot: u64) -> Location {
        Location { device: DeviceId(0), slot }
    }

    #[test]
    fn neighbours_become_runs() {
        let mut records = Records::default();
        for chunk in 0..1000 {
            records.assign(ChunkId(chunk), location(chunk + 2));
        }
        for chunk in 0..1000 {
            records.live(ChunkId(chunk), 128);
        }
        for part in [Part::column(TreeId(1), 0), Part::column(TreeId(1), 1)] {
            (0..1000).for_each(|chunk| records.part(ChunkId(chunk), part));
        }
        assert_eq!(records.0.len(), 4);
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let mut records = Records::default();
        records.assign(ChunkId(5), location(9));
        records.assign(ChunkId(6), location(10));
        records.live(ChunkId(5), 128);
        records.free(ChunkId(1));
        records.moved(ChunkId(5), location(12));
        records.part(ChunkId(5), Part::column(TreeId(77), 3));
        let mut stream = Vec::new();
        assert_eq!(records.encode(GenerationNumber(3), 2, &mut stream), 3);
        let mut expected = Vec::new();
        expected.extend_from_slice(b"SKJB");
        expected.extend_from_slice(&5u32.to_le_bytes());
        expected.extend_from_slice(&2u64.to_le_bytes());
        expected.extend_from_slice(&3u64.to_le_bytes());
        let records = [(1u32, 2u32, 5u64, 9u64), (2, 128, 5, 1), (3, 0, 1, 0), (4, 1, 5, 12), (0x0003_0405, 1, 5, 77)];
        for (kind, count, chunk, place) in records {
            expected.extend_from_slice(&kind.to_le_bytes());
            expected.extend_from_slice(&count.to_le_bytes());
            expected.extend_from_slice(&chunk.to_le_bytes());
            expected.extend_from_slice(&place.to_le_bytes());
        }
        assert_eq!(stream[..8], checksum(&expected).to_le_bytes());
        assert_eq!(stream[8..8 + expected.len()], expected);
        assert!(stream.len() == 4096 && stream[8 + expected.len()..].iter().all(|byte| *byte == 0));
    }

    fn replayed(stream: &[u8], sequence: u64) -> Result<Vec<Record>, JournalFault> {
        let mut records = Vec::new();
        replay(stream, sequence, GenerationNumber(5), |record, _| {
            records.push(record);
            Ok(())
        })?;
        Ok(records)
    }

    fn example(count: u64) -> (Records, Vec<u8>) {
        let mut records = Records::default();
        for chunk in 0..count {
            records.assign(ChunkId(chunk * 2), location(chunk + 2));
            records.live(ChunkId(chunk * 2), chunk as u32);
            records.part(ChunkId(chunk * 2), Part::new(TreeId(chunk as u32), PartKind::Leaves));
            records.free(ChunkId(chunk * 2));
        }
        let mut stream = Vec::new();
        records.encode(GenerationNumber(5), 11, &mut stream);
        (records, stream)
    }

    #[test]
    fn what_is_written_is_read_over_many_blocks() {
        let (records, stream) = example(5000);
        assert!(stream.len() > 65536 && stream.len().is_multiple_of(BLOCK_ALIGNMENT));
        assert_eq!(replayed(&stream, 11).expect("whole"), records.0);
        assert!(replayed(&stream, 12).is_err(), "a stream with another first sequence is refused");
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..9000),
            with_magic: bool,
        ) {
            let mut bytes = bytes;
            if with_magic && bytes.len() >= 12 {
                put_u32(&mut bytes, 8, MAGIC);
            }
            prop_assert!(bytes.is_empty() || replayed(&bytes, 11).is_err());
        }

        #[test]
        fn a_changed_record_is_never_accepted(at in 0usize..HEADER_BYTES + 90 * RECORD_BYTES, flip in 1u8..) {
            let (_, mut stream) = example(30);
            stream[at] ^= flip;
            prop_assert!(replayed(&stream, 11).is_err());
        }
    }
}
