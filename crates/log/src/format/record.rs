//! Records: what a transaction leaves in the stream of a log.
//!
//! ```text
//! +-----------+--------+------+------+---------+
//! | timestamp | length | kind | zero | payload |
//! +-----------+--------+------+------+---------+
//! 0           8        12     13     16
//! ```

use saki_base::bytes::{put_u32, put_u64, u32_at, u64_at};

/// Bytes before the payload.
pub const RECORD_HEADER_BYTES: usize = 16;

/// What became of the timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// Its transaction committed; the payload says what it did.
    Commit,
    /// Its transaction failed after it had taken the timestamp. No payload.
    Void,
}

/// The fixed part of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    pub timestamp: u64,
    pub kind: RecordKind,
    /// Bytes of the payload.
    pub length: u32,
}

impl RecordHeader {
    pub fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        assert!(self.timestamp != 0 && self.timestamp != u64::MAX, "a record of timestamp {}", self.timestamp);
        assert!(self.kind == RecordKind::Commit || self.length == 0, "a void record of {} bytes", self.length);
        let mut bytes = [0; RECORD_HEADER_BYTES];
        put_u64(&mut bytes, 0, self.timestamp);
        put_u32(&mut bytes, 8, self.length);
        bytes[12] = match self.kind {
            RecordKind::Commit => 1,
            RecordKind::Void => 2,
        };
        bytes
    }

    /// Reads a header; says what is wrong with it.
    pub fn decode(bytes: &[u8; RECORD_HEADER_BYTES]) -> Result<Self, String> {
        let (Some(timestamp), Some(length)) = (u64_at(bytes, 0), u32_at(bytes, 8)) else {
            return Err("a record header that ends too soon".into());
        };
        let kind = match bytes[12] {
            1 => RecordKind::Commit,
            2 if length == 0 => RecordKind::Void,
            2 => return Err(format!("a void record of {length} bytes")),
            kind => return Err(format!("a record of kind {kind}")),
        };
        if timestamp == 0 || timestamp == u64::MAX {
            return Err(format!("a record of timestamp {timestamp}"));
        }
        if bytes[13..] != [0; 3] {
            return Err("a record header whose unused bytes are not zero".into());
        }
        Ok(Self { timestamp, kind, length })
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_those_of_the_format() {
        let header = RecordHeader { timestamp: 0x0102, kind: RecordKind::Commit, length: 0x0304 };
        assert_eq!(header.encode(), [2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 1, 0, 0, 0]);
        let void = RecordHeader { timestamp: 5, kind: RecordKind::Void, length: 0 };
        assert_eq!(void.encode(), [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn timestamps_that_no_record_has_are_refused() {
        let mut bytes = RecordHeader { timestamp: 1, kind: RecordKind::Commit, length: 3 }.encode();
        for timestamp in [0, u64::MAX] {
            bytes[..8].copy_from_slice(&timestamp.to_le_bytes());
            assert!(RecordHeader::decode(&bytes).is_err(), "{timestamp}");
        }
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_the_same(bytes: [u8; RECORD_HEADER_BYTES], kind in 0_u8..4, clean: bool) {
            let mut bytes = bytes;
            bytes[12] = kind;
            if clean {
                bytes[13..].fill(0);
            }
            if let Ok(header) = RecordHeader::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }

        #[test]
        fn headers_round_trip(timestamp in 1..u64::MAX, length: u32, void: bool) {
            let kind = if void { RecordKind::Void } else { RecordKind::Commit };
            let header = RecordHeader { timestamp, kind, length: if void { 0 } else { length } };
            prop_assert_eq!(RecordHeader::decode(&header.encode()), Ok(header));
        }
    }
}
