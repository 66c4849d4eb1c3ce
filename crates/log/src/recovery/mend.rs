//! Extents whose header has rotted: their frames say which extent they belong to, and other headers what their
//! incarnation was built on.
//!
//! A crash does not leave such a header, since it is written at once. So what is behind it was durable, unless the
//! extent was new.

use std::collections::BTreeMap;

use saki_io::DeviceError;

use super::extent_reader::ExtentReader;
use super::scan::{ExtentAt, Scanned};
use crate::error::LogError;
use crate::format::extent::ExtentHeader;
use crate::format::frame::{FrameHeader, FramePlace};
use crate::format::{BLOCK_BYTES, Identity, Incarnation};

/// Gives extents that are needed their headers back.
///
/// # Errors
/// `Inconsistent` where an incarnation is known from nothing else: what it was built on cannot be told. With
/// `accept_loss` such an extent is left out.
pub fn mend(logs: &mut [Scanned], identity: Identity, accept_loss: bool) -> Result<(), LogError> {
    let headers = logs.iter().flat_map(|log| &log.extents).map(|extent| extent.header.incarnation);
    let incarnations: BTreeMap<u32, Incarnation> =
        headers.map(|incarnation| (incarnation.number, incarnation)).collect();
    for scanned in logs {
        let identity = Identity { log: scanned.log as u32, ..identity };
        for slot in scanned.nameless.clone() {
            let place = first_frame(scanned, slot, identity);
            let place = place.map_err(|error| LogError::Device { log: scanned.log, error })?;
            let Some(place) = place.filter(|place| is_needed(scanned, place)) else { continue };
            let header = |incarnation: &Incarnation| ExtentHeader {
                identity,
                incarnation: *incarnation,
                extent_bytes: scanned.extent_bytes,
                sequence: place.extent,
                cut: 0,
                oldest: 1,
            };
            match incarnations.get(&place.incarnation).map(header) {
                Some(header) => scanned.extents.push(ExtentAt { slot, header }),
                None if accept_loss => {}
                None => {
                    let expected = "the header of an extent".into();
                    let found = format!(
                        "none, before frames of incarnation {}, of which no other header is left",
                        place.incarnation
                    );
                    return Err(scanned.inconsistent(slot, place.extent, expected, found));
                }
            }
        }
        scanned.sort()?;
    }
    Ok(())
}

/// Not one that was cut long ago, or is elsewhere.
fn is_needed(scanned: &Scanned, place: &FramePlace) -> bool {
    let elsewhere = scanned.extents.iter().any(|extent| extent.header.sequence == place.extent);
    (scanned.oldest()..u64::MAX / 2).contains(&place.extent) && !elsewhere
}

/// What the first frame of a slot says of its place, if it is whole.
fn first_frame(scanned: &Scanned, slot: u64, identity: Identity) -> Result<Option<FramePlace>, DeviceError> {
    let mut reader = ExtentReader::new(&scanned.device, scanned.length, scanned.extent_bytes)?;
    reader.open(slot);
    if reader.left() == 0 {
        return Ok(None);
    }
    reader.ensure(BLOCK_BYTES)?;
    let place = FrameHeader::place(identity, reader.bytes()).filter(|place| place.block == 1 && place.extent > 0);
    let left = reader.left().min(usize::MAX as u64) as usize;
    let Some((place, Ok(header))) = place.map(|place| (place, FrameHeader::peek(&place, reader.bytes(), left))) else {
        return Ok(None);
    };
    reader.ensure(header.frame_bytes())?;
    Ok(header.verify(reader.bytes()).is_ok().then_some(place))
}
