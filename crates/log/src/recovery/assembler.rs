//! From the payloads of frames to records, which may begin in one and end in a later one.

use crate::format::record::{RECORD_HEADER_BYTES, RecordHeader, RecordKind};

/// A record, whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    pub timestamp: u64,
    pub kind: RecordKind,
    pub payload: &'a [u8],
    /// Sequence number of the extent that it begins in.
    pub begins_in: u64,
}

/// The record that has begun and not ended.
pub struct Assembler {
    /// Header and payload, as far as they have come. Grows with the bytes that are really there, whatever a header
    /// promises.
    begun: Vec<u8>,
    begins_in: u64,
    /// The frame before was not seen: what is ended by the next one is not known to have begun.
    apart: bool,
    /// No record is longer than all of the log.
    bytes_max: u64,
}

impl Assembler {
    pub fn new(bytes_max: u64) -> Self {
        Self { begun: Vec::new(), begins_in: 0, apart: true, bytes_max }
    }

    /// Forgets what has begun: its end will not come, or not be known as such.
    pub fn forget(&mut self) {
        self.begun.clear();
        self.apart = true;
    }

    /// Takes the payload of a frame in `extent`, and gives all records that end in it to `each`. Says what is wrong
    /// with them, or what `each` says.
    pub fn feed(
        &mut self,
        extent: u64,
        payload: &[u8],
        continued_bytes: usize,
        mut each: impl FnMut(Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let (continued, mut fresh) = payload.split_at(continued_bytes);
        if !payload.is_empty() && continued.is_empty() != self.begun.is_empty() && !self.apart {
            return Err("records that do not continue those of the frame before".into());
        }
        if !self.begun.is_empty() {
            self.go_on(continued, fresh.is_empty(), &mut each)?;
        } else if !continued.is_empty() && fresh.is_empty() {
            // Still within a record whose beginning was not seen.
            return Ok(());
        }
        self.apart &= payload.is_empty();
        while let Some((header, body, rest)) = split_record(fresh, self.bytes_max)? {
            each(record(header, body, extent))?;
            fresh = rest;
        }
        if !fresh.is_empty() {
            self.begun.extend_from_slice(fresh);
            self.begins_in = extent;
        }
        Ok(())
    }

    /// Adds to the record that has begun; it must end with these bytes, unless they are the whole frame.
    fn go_on(
        &mut self,
        continued: &[u8],
        may_go_on: bool,
        each: &mut impl FnMut(Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.begun.extend_from_slice(continued);
        match split_record(&self.begun, self.bytes_max)? {
            None if may_go_on => Ok(()),
            Some((header, body, [])) => {
                each(record(header, body, self.begins_in))?;
                self.begun.clear();
                Ok(())
            }
            _ => Err("a record that does not end where its frame says".into()),
        }
    }
}

fn record(header: RecordHeader, payload: &[u8], begins_in: u64) -> Record<'_> {
    Record { timestamp: header.timestamp, kind: header.kind, payload, begins_in }
}

/// A record's header, its payload, and what follows.
type Split<'a> = (RecordHeader, &'a [u8], &'a [u8]);

/// The record at the beginning of `bytes`, if all of it is there.
fn split_record(bytes: &[u8], bytes_max: u64) -> Result<Option<Split<'_>>, String> {
    let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else { return Ok(None) };
    let header = RecordHeader::decode(header)?;
    if u64::from(header.length) > bytes_max {
        return Err(format!("a record of {} bytes, longer than all of the log", header.length));
    }
    Ok(rest.split_at_checked(header.length as usize).map(|(payload, rest)| (header, payload, rest)))
}
