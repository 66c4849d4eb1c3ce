//! What devices can do, as it was measured: stored on each of them.

use std::sync::Arc;

use saki_base::bytes::{put_u64, u64_at};
use saki_base::{DeviceId, GenerationNumber, PageSize, checksum};
use saki_io::{Device, DeviceProfile, Governor};

use super::Volume;
use crate::blocking::BlockingIo;
use crate::error::VolumeError;
use crate::format::label::{LABEL_BYTES, LABEL_PLACES};
use crate::format::superblock::SUPERBLOCK_BYTES_MAX;
use crate::places::places_of;

/// Where the device profile lies: length 8, checksum 8, then its bytes.
const PROFILE_OFFSET: u64 = 768 << 10;
const PROFILE_HEADER_BYTES: usize = 16;
/// Largest device profile, in bytes.
pub const PROFILE_BYTES_MAX: usize = (64 << 10) - PROFILE_HEADER_BYTES;
/// What lies in slot 0 lies apart.
const _: () = {
    let superblock = SUPERBLOCK_BYTES_MAX as u64;
    let (even, odd) = (places_of(GenerationNumber(0)), places_of(GenerationNumber(1)));
    assert!(LABEL_PLACES[0] >= even[0] + superblock && LABEL_PLACES[0] + LABEL_BYTES as u64 <= even[1]);
    assert!(odd[0] >= even[1] + superblock);
    assert!(LABEL_PLACES[1] >= odd[0] + superblock && LABEL_PLACES[1] + LABEL_BYTES as u64 <= PROFILE_OFFSET);
    assert!(PROFILE_OFFSET + ((PROFILE_HEADER_BYTES + PROFILE_BYTES_MAX) as u64) <= odd[1]);
};

impl Volume {
    /// The stored profile of the first device, if there is a whole one. A torn one is as good as none: it is measured
    /// again.
    pub fn device_profile(&self) -> Result<Option<Vec<u8>>, VolumeError> {
        self.profile_of(self.members.first().0)
    }

    /// The stored profile of a device.
    pub fn profile_of(&self, number: DeviceId) -> Result<Option<Vec<u8>>, VolumeError> {
        read_profile(&mut BlockingIo::open(&self.members.device(number)?)?)
    }

    /// Stores the profile of the first device (JSON; opaque here) in its own place; generations do not come into it.
    pub fn store_device_profile(&self, profile: &[u8]) -> Result<(), VolumeError> {
        self.store_profile_of(self.members.first().0, profile)
    }

    /// Stores the profile of a device, whose governor starts anew by it.
    pub fn store_profile_of(&self, number: DeviceId, profile: &[u8]) -> Result<(), VolumeError> {
        if profile.len() > PROFILE_BYTES_MAX {
            let what = "the device profile";
            return Err(VolumeError::TooLarge { what, bytes: profile.len(), bytes_max: PROFILE_BYTES_MAX });
        }
        let mut bytes = vec![0; PROFILE_HEADER_BYTES];
        put_u64(&mut bytes, 0, profile.len() as u64);
        put_u64(&mut bytes, 8, checksum(profile));
        bytes.extend_from_slice(profile);
        let mut io = BlockingIo::open(&self.members.device(number)?)?;
        io.write(PROFILE_OFFSET, &bytes)?;
        io.flush()?;
        if let (Some(profile), Some(member)) = (parsed(profile), self.members.get(number)) {
            member.admission.governor.restart(&profile, self.page_size().into());
        }
        Ok(())
    }
}

fn read_profile(io: &mut BlockingIo) -> Result<Option<Vec<u8>>, VolumeError> {
    let bytes = io.read(PROFILE_OFFSET, PROFILE_HEADER_BYTES + PROFILE_BYTES_MAX)?;
    let length = u64_at(&bytes, 0).unwrap_or(0);
    if length == 0 || length > PROFILE_BYTES_MAX as u64 {
        return Ok(None);
    }
    let profile = &bytes[PROFILE_HEADER_BYTES..PROFILE_HEADER_BYTES + length as usize];
    Ok((u64_at(&bytes, 8) == Some(checksum(profile))).then(|| profile.to_vec()))
}

/// A governor that starts where the stored profile says, or an assumed one.
pub(crate) fn governor(device: &Arc<dyn Device>, page_size: PageSize) -> Result<Arc<Governor>, VolumeError> {
    let stored = read_profile(&mut BlockingIo::open(device)?)?;
    let profile = stored.and_then(|profile| parsed(&profile)).unwrap_or_else(DeviceProfile::assumed);
    Ok(Governor::new(&profile, page_size.into()))
}

fn parsed(profile: &[u8]) -> Option<DeviceProfile> {
    DeviceProfile::from_json(std::str::from_utf8(profile).ok()?)
}
