//! Records: what a transaction leaves in the stream of a log.
//!
//! ```text
//! +-----------+--------+------+------+---------+
//! | timestamp | length | kind | zero | payload |
//! +-----------+--------+------+------+---------+
//! 0           8        12     13     16
//! ```

use crate::format::{read_u32, read_u64, write_u32, write_u64};

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
        let mut bytes = [0; RECORD_HEADER_BYTES];
        write_u64(&mut bytes, 0, self.timestamp);
        write_u32(&mut bytes, 8, self.length);
        bytes[12] = match self.kind {
            RecordKind::Commit => 1,
            RecordKind::Void => 2,
        };
        bytes
    }

    /// Reads a header; says what is wrong with it.
    pub fn decode(bytes: &[u8; RECORD_HEADER_BYTES]) -> Result<Self, String> {
        let (timestamp, length) = (read_u64(bytes, 0), read_u32(bytes, 8));
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
