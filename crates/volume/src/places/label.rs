//! Writing labels, and holding devices to them.

use std::sync::Arc;

use saki_base::CHUNK_BYTES;
use saki_io::Device;

use crate::blocking::BlockingIo;
use crate::error::VolumeError;
use crate::format::label::{LABEL_BYTES, LABEL_PLACES, Label};
use crate::format::table::DeviceEntry;

/// The device's label, if it has one.
pub(crate) fn read_label(device: &Arc<dyn Device>, io: &mut BlockingIo) -> Result<Option<Label>, VolumeError> {
    if device.length_bytes()? < CHUNK_BYTES as u64 {
        return Ok(None);
    }
    for place in LABEL_PLACES {
        if let Some(label) = Label::decode(&io.read(place, LABEL_BYTES)?) {
            return Ok(Some(label));
        }
    }
    Ok(None)
}

/// Says which of a device's labels are not those that its entry in the table asks for.
pub(crate) fn read_labels(
    device: &Arc<dyn Device>,
    entry: &DeviceEntry,
    database_id: u128,
    fault: &mut impl FnMut(String),
) -> Result<(), VolumeError> {
    let mut io = BlockingIo::open(device)?;
    for place in LABEL_PLACES {
        if Label::decode(&io.read(place, LABEL_BYTES)?) != Some(label_of(entry, database_id)) {
            fault(format!("{}: the label at byte {place} is damaged", device.name()));
        }
    }
    Ok(())
}

/// Writes both of a device's labels, durably.
pub(crate) fn write_label(io: &mut BlockingIo, label: Label) -> Result<(), VolumeError> {
    for place in LABEL_PLACES {
        io.write(place, &label.encode())?;
    }
    Ok(io.flush()?)
}

/// Takes a device's labels away, so that it is nobody's.
pub(crate) fn erase_label(io: &mut BlockingIo) -> Result<(), VolumeError> {
    for place in LABEL_PLACES {
        io.write(place, &[0; LABEL_BYTES])?;
    }
    Ok(io.flush()?)
}

/// The label that a device of the table must have.
pub(crate) fn label_of(entry: &DeviceEntry, database_id: u128) -> Label {
    Label { database_id, number: entry.number, attached: entry.attached }
}

/// Refuses a device that is not the one it is taken for.
pub(crate) fn expect_label(
    device: &Arc<dyn Device>,
    io: &mut BlockingIo,
    entry: &DeviceEntry,
    database_id: u128,
) -> Result<(), VolumeError> {
    let wrong = |what: String| {
        let number = entry.number.0;
        Err(VolumeError::WrongDevice { device: device.name(), what: format!("is not device {number} of it: {what}") })
    };
    let length = device.length_bytes()?;
    if length < CHUNK_BYTES as u64 {
        let (needed_bytes, found_bytes) = (CHUNK_BYTES as u64, length);
        return Err(VolumeError::Truncated { device: device.name(), needed_bytes, found_bytes });
    }
    match read_label(device, io)? {
        None => wrong("it has no label".to_owned()),
        Some(label) if label.database_id != database_id => {
            wrong(format!("it belongs to the database {:032x}", label.database_id))
        }
        Some(label) if label.number != entry.number => wrong(format!("it is device {}", label.number.0)),
        Some(label) if label.attached != entry.attached => wrong(format!(
            "it was attached in generation {}, and the one that is looked for in generation {}",
            label.attached.0, entry.attached.0
        )),
        Some(_) => Ok(()),
    }
}
