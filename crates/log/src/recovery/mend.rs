//! Segments whose header has rotted: their frames say which segment they belong to, and other headers what their run was built
//! on.
//!
//! A crash does not leave such a header, since it is written at once. So what is behind it was durable, unless the segment was
//! new.

use std::collections::BTreeMap;

use saki_io::DeviceError;

use super::scan::{Scanned, SegmentAt};
use super::segment_reader::SegmentReader;
use crate::error::LogError;
use crate::format::{BLOCK_BYTES, Identity, Run};
use crate::frame::{FrameHeader, FramePlace};
use crate::segment::SegmentHeader;

/// Gives segments that are needed their headers back.
///
/// # Errors
/// `Inconsistent` where a run is known from nothing else: what it was built on cannot be told. With `accept_loss` such a
/// segment is left out.
pub fn mend(logs: &mut [Scanned], identity: Identity, accept_loss: bool) -> Result<(), LogError> {
    let headers = logs.iter().flat_map(|log| &log.segments).map(|segment| segment.header.run);
    let runs: BTreeMap<u32, Run> = headers.map(|run| (run.number, run)).collect();
    for scanned in logs {
        let identity = Identity { log: scanned.log as u32, ..identity };
        for slot in scanned.nameless.clone() {
            let place = first_frame(scanned, slot, identity);
            let place = place.map_err(|error| LogError::Device { log: scanned.log, error })?;
            let Some(place) = place.filter(|place| is_needed(scanned, place)) else { continue };
            let header = |run: &Run| SegmentHeader {
                identity,
                run: *run,
                segment_bytes: scanned.segment_bytes,
                sequence: place.segment,
                cut: 0,
                oldest: 1,
            };
            match runs.get(&place.run).map(header) {
                Some(header) => scanned.segments.push(SegmentAt { slot, header }),
                None if accept_loss => {}
                None => {
                    let expected = "the header of a segment".into();
                    let found = format!("none, before frames of run {}, of which no other header is left", place.run);
                    return Err(scanned.inconsistent(slot, place.segment, expected, found));
                }
            }
        }
        scanned.sort()?;
    }
    Ok(())
}

/// Not one that was cut long ago, or is elsewhere.
fn is_needed(scanned: &Scanned, place: &FramePlace) -> bool {
    let elsewhere = scanned.segments.iter().any(|segment| segment.header.sequence == place.segment);
    (scanned.oldest()..u64::MAX / 2).contains(&place.segment) && !elsewhere
}

/// What the first frame of a slot says of its place, if it is whole.
fn first_frame(scanned: &Scanned, slot: u64, identity: Identity) -> Result<Option<FramePlace>, DeviceError> {
    let mut reader = SegmentReader::new(&scanned.device, scanned.length, scanned.segment_bytes)?;
    reader.open(slot);
    if reader.left() == 0 {
        return Ok(None);
    }
    reader.ensure(BLOCK_BYTES)?;
    let place = FrameHeader::place(identity, reader.bytes()).filter(|place| place.block == 1 && place.segment > 0);
    let left = reader.left().min(usize::MAX as u64) as usize;
    let Some((place, Ok(header))) = place.map(|place| (place, FrameHeader::peek(&place, reader.bytes(), left))) else {
        return Ok(None);
    };
    reader.ensure(header.frame_bytes())?;
    Ok(header.verify(reader.bytes()).is_ok().then_some(place))
}
