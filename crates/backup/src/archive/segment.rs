//! What an object of an archive has, as bytes: records of the logs, and when they were durable.
//!
//! ```text
//!      0  magic "SAKIARCH"     8        24  last timestamp  8
//!      8  version              4        32  samples, count  4
//!     12  zero                 4        36  sequences, count 4
//!     16  first timestamp      8
//!     40  samples, each:    when, micros 8, through 8, unlogged 8
//!      …  sequences, each:  table 4, is called 4, last value 8
//!      …  records, each:    bytes 4 (2^32 - 1: void), payload
//!      …  BLAKE3 of all before  32
//! ```
//!
//! All numbers are little-endian. Records follow one another by their timestamps, from the first to the last.

use saki_base::TableId;
use saki_base::bytes::ByteReader;
use saki_catalog::SequencePosition;
use saki_store::LogRecord;

use crate::sealed::{HASH_BYTES, open, seal};

const MAGIC: &[u8; 8] = b"SAKIARCH";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
/// Instead of a length.
const VOID: u32 = u32::MAX;

/// What was durable when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Microseconds since 1970, by the clock of the machine that served the database.
    pub micros: i64,
    /// Everything up to this timestamp was durable then.
    pub through: u64,
    /// How much had been published that is not in the logs ([`saki_store::Moment::unlogged`]).
    pub unlogged: u64,
}

/// See the module's introduction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// The timestamp of the first record, or of the next one if there is none.
    pub first: u64,
    pub samples: Vec<Sample>,
    /// Up to where values may have been given out to what the records have.
    pub sequences: Vec<(TableId, SequencePosition)>,
    pub records: Vec<LogRecord>,
}

impl Segment {
    /// The timestamp of the last record.
    pub fn last(&self) -> u64 {
        self.first + self.records.len() as u64 - 1
    }

    pub fn encode(&self) -> Vec<u8> {
        let payloads = self.records.iter().map(|record| 4 + record.payload.as_ref().map_or(0, Vec::len)).sum::<usize>();
        let fixed = HEADER_BYTES + self.samples.len() * 24 + self.sequences.len() * 16 + HASH_BYTES;
        let mut out = Vec::with_capacity(fixed + payloads);
        out.extend_from_slice(MAGIC);
        [VERSION, 0].into_iter().for_each(|it| out.extend(it.to_le_bytes()));
        [self.first, self.last()].into_iter().for_each(|it| out.extend(it.to_le_bytes()));
        let counts = [self.samples.len() as u32, self.sequences.len() as u32];
        counts.into_iter().for_each(|it| out.extend(it.to_le_bytes()));
        for Sample { micros, through, unlogged } in &self.samples {
            out.extend(micros.to_le_bytes());
            [*through, *unlogged].into_iter().for_each(|it| out.extend(it.to_le_bytes()));
        }
        for (id, SequencePosition { last_value, is_called }) in &self.sequences {
            [id.0, u32::from(*is_called)].into_iter().for_each(|it| out.extend(it.to_le_bytes()));
            out.extend(last_value.to_le_bytes());
        }
        for record in &self.records {
            // No record of the logs is as long as that.
            let length = record.payload.as_ref().map_or(VOID, |payload| payload.len() as u32);
            out.extend(length.to_le_bytes());
            out.extend_from_slice(record.payload.as_deref().unwrap_or_default());
        }
        seal(out)
    }

    /// Reads a segment; says what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let body = open(bytes, (MAGIC, "part of an archive"), VERSION..=VERSION, HEADER_BYTES)?;
        Self::fields(&mut ByteReader::new(&body[16..])).ok_or_else(|| "contradicts itself".to_owned())
    }

    fn fields(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (first, last) = (reader.u64()?, reader.u64()?);
        let (samples, sequences) = (reader.u32()?, reader.u32()?);
        let sample = |reader: &mut ByteReader<'_>| {
            Some(Sample { micros: reader.u64()? as i64, through: reader.u64()?, unlogged: reader.u64()? })
        };
        let samples = (0..samples).map(|_| sample(reader)).collect::<Option<Vec<_>>>()?;
        let sequence = |reader: &mut ByteReader<'_>| {
            let (id, is_called) = (TableId(reader.u32()?), reader.u32()? != 0);
            Some((id, SequencePosition { last_value: reader.u64()? as i64, is_called }))
        };
        let sequences = (0..sequences).map(|_| sequence(reader)).collect::<Option<Vec<_>>>()?;
        let mut records = Vec::new();
        let mut timestamp = first;
        while !reader.rest().is_empty() {
            let payload = match reader.u32()? {
                VOID => None,
                bytes => Some(reader.take(bytes as usize)?.to_vec()),
            };
            records.push(LogRecord { timestamp, payload });
            timestamp = timestamp.checked_add(1)?;
        }
        (first > 0 && timestamp == last.checked_add(1)?).then_some(Self { first, samples, sequences, records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> Segment {
        let record = |timestamp, payload: Option<&[u8]>| LogRecord { timestamp, payload: payload.map(<[u8]>::to_vec) };
        Segment {
            first: 7,
            samples: vec![
                Sample { micros: 1_700_000_000_000_000, through: 7, unlogged: 2 },
                Sample { micros: -1, through: 9, unlogged: 3 },
            ],
            sequences: vec![(TableId(5), SequencePosition { last_value: -3, is_called: true })],
            records: vec![record(7, Some(b"abc")), record(8, None), record(9, Some(b""))],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let none = Segment { first: 4, ..Segment::default() };
        for segment in [segment(), none] {
            assert_eq!(Segment::decode(&segment.encode()), Ok(segment));
        }
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let bytes = segment().encode();
        assert_eq!(&bytes[..40], b"SAKIARCH\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0");
        assert_eq!(&bytes[88..104], b"\x05\0\0\0\x01\0\0\0\xfd\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(&bytes[104..119], b"\x03\0\0\0abc\xff\xff\xff\xff\0\0\0\0");
        assert_eq!(bytes.len(), 119 + HASH_BYTES);
    }

    #[test]
    fn no_changed_byte_passes_and_none_is_too_few() {
        let bytes = segment().encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Segment::decode(&changed).is_err(), "byte {at}");
            assert!(Segment::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        // With a checksum that is right, too.
        for at in 12..bytes.len() - HASH_BYTES {
            let mut body = bytes[..bytes.len() - HASH_BYTES].to_vec();
            body[at] ^= 0xff;
            let hash = blake3::hash(&body);
            body.extend_from_slice(hash.as_bytes());
            let _ = Segment::decode(&body);
        }
    }
}
