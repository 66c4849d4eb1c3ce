//! From the payloads of frames to records, which may begin in one and end in a later one.

use crate::record::{RECORD_HEADER_BYTES, RecordHeader, RecordKind};

/// A record, whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    pub timestamp: u64,
    pub kind: RecordKind,
    pub payload: &'a [u8],
    /// Sequence number of the segment that it begins in.
    pub begins_in: u64,
}

/// The record that has begun and not ended.
#[derive(Default)]
pub struct Assembler {
    /// Header and payload, as far as they have come. Grows with the bytes that are really there, whatever a header promises.
    begun: Vec<u8>,
    begins_in: u64,
}

impl Assembler {
    /// Forgets what has begun: its end will not come.
    pub fn forget(&mut self) {
        self.begun.clear();
    }

    /// Takes a frame's payload, and gives all records that end in it to `each`.
    ///
    /// # Errors
    /// What is wrong with the records. What `each` refuses is passed on.
    pub fn feed<E>(
        &mut self,
        segment: u64,
        mut payload: &[u8],
        continued_bytes: usize,
        bytes_max: u64,
        mut each: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<Result<(), String>, E> {
        let (continued, fresh) = payload.split_at(continued_bytes);
        payload = fresh;
        if continued.is_empty() || self.begun.is_empty() {
            // Either what had begun was never ended, or what is ended here was not seen to begin.
            self.forget();
        } else {
            self.begun.extend_from_slice(continued);
            match split_record(&self.begun, bytes_max) {
                Err(fault) => return Ok(Err(fault)),
                Ok(None) if payload.is_empty() => return Ok(Ok(())),
                Ok(Some((header, body, []))) => {
                    each(record(header, body, self.begins_in))?;
                    self.forget();
                }
                Ok(_) => return Ok(Err("a record that does not end where its frame says".into())),
            }
        }
        loop {
            match split_record(payload, bytes_max) {
                Err(fault) => return Ok(Err(fault)),
                Ok(None) => break,
                Ok(Some((header, body, rest))) => {
                    each(record(header, body, segment))?;
                    payload = rest;
                }
            }
        }
        if !payload.is_empty() {
            self.begun.extend_from_slice(payload);
            self.begins_in = segment;
        }
        Ok(Ok(()))
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
