//! The device table: which devices a volume has, and what each is for. It follows the first 4 KiB of a superblock.
//!
//! ```text
//!    0  number           2
//!    2  class            1   0 standard, 1 fast, 2 slow
//!    3  role             1   bits: 1 metadata, 2 homes, 4 copies, 8 draining
//!    4  label, length    2
//!    6  zero             2
//!    8  attached         8   the generation that first had it
//!   16  slots, at most   8   0: as many as it has room for
//!   24  label               zeros up to a multiple of 8; then the next device
//! ```

use std::fmt;
use std::str::FromStr;

use saki_base::bytes::{put_u16, put_u64, u16_at, u64_at};
use saki_base::{DeviceId, GenerationNumber};

/// Devices of a volume, at most.
pub const DEVICES_MAX: usize = 64;
/// Bytes of a device's label, at most.
pub const LABEL_BYTES_MAX: usize = 900;
/// Devices that hold superblocks and journal, at most.
pub(crate) const METADATA_MAX: usize = 2;
/// Bytes of a table, at most.
pub(crate) const TABLE_BYTES_MAX: usize = 60 << 10;
const ENTRY_BYTES: usize = 24;
const _: () = assert!(DEVICES_MAX * (ENTRY_BYTES + LABEL_BYTES_MAX.next_multiple_of(8)) <= TABLE_BYTES_MAX);

/// How fast a device is beside the others, as whoever attached it says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Class {
    #[default]
    Standard,
    Fast,
    Slow,
}

const CLASSES: [(Class, &str); 3] = [(Class::Standard, "standard"), (Class::Fast, "fast"), (Class::Slow, "slow")];

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CLASSES[*self as usize].1)
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = CLASSES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        known.map(|(class, _)| *class).ok_or_else(|| format!("{text:?} is no class of devices: standard, fast or slow"))
    }
}

/// What a device is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Role {
    /// It has superblocks and journal.
    pub metadata: bool,
    /// New chunks may be at home there.
    pub homes: bool,
    /// Chunks at home elsewhere may be copied there.
    pub copies: bool,
    /// It takes nothing more, and what is at home there moves away.
    pub draining: bool,
}

impl Role {
    /// Of a device that has chunks only.
    pub const HOMES: Self = Self { metadata: false, homes: true, copies: false, draining: false };
    /// Of a volume's only device.
    pub const ALL: Self = Self { metadata: true, homes: true, copies: false, draining: false };
    /// Of a device that may be lost without losing anything.
    pub const COPIES: Self = Self { metadata: false, homes: false, copies: true, draining: false };

    fn flags(self) -> [bool; 4] {
        [self.metadata, self.homes, self.copies, self.draining]
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["metadata", "homes", "copies", "draining"];
        let held: Vec<_> = names.into_iter().zip(self.flags()).filter(|(_, is)| *is).map(|(name, _)| name).collect();
        f.write_str(&held.join(", "))
    }
}

/// One device of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceEntry {
    pub number: DeviceId,
    /// By what it is found: as a rule its path.
    pub label: String,
    pub class: Class,
    pub role: Role,
    /// The first generation of which it is part.
    pub attached: GenerationNumber,
    /// Slots of 1 MiB that it may have at most, where that is bounded.
    pub slots_max: Option<u64>,
}

impl DeviceEntry {
    /// A volume's only device.
    pub(crate) fn only(label: String) -> Self {
        let (class, attached) = (Class::default(), GenerationNumber(0));
        Self { number: DeviceId(0), label, class, role: Role::ALL, attached, slots_max: None }
    }
}

pub(crate) fn encode(devices: &[DeviceEntry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for device in devices {
        assert!(device.label.len() <= LABEL_BYTES_MAX, "a label of {} bytes", device.label.len());
        let mut entry = [0; ENTRY_BYTES];
        put_u16(&mut entry, 0, device.number.0);
        entry[2] = device.class as u8;
        entry[3] = device.role.flags().iter().enumerate().map(|(bit, is)| u8::from(*is) << bit).sum();
        put_u16(&mut entry, 4, device.label.len() as u16);
        put_u64(&mut entry, 8, device.attached.0);
        put_u64(&mut entry, 16, device.slots_max.unwrap_or(0));
        bytes.extend_from_slice(&entry);
        bytes.extend_from_slice(device.label.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    assert!(bytes.len() <= TABLE_BYTES_MAX, "a device table of {} bytes", bytes.len());
    bytes
}

/// Reads a whole table.
pub(crate) fn decode(mut bytes: &[u8]) -> Result<Vec<DeviceEntry>, &'static str> {
    let mut devices: Vec<DeviceEntry> = Vec::new();
    while !bytes.is_empty() {
        let (device, rest) = decode_entry(bytes)?;
        if devices.iter().any(|other| other.number == device.number || other.label == device.label) {
            return Err("a device is listed twice");
        }
        devices.push(device);
        bytes = rest;
    }
    match devices.iter().filter(|device| device.role.metadata).count() {
        0 => Err("no device holds the metadata"),
        1..=METADATA_MAX => Ok(devices),
        _ => Err("too many devices hold the metadata"),
    }
}

fn decode_entry(bytes: &[u8]) -> Result<(DeviceEntry, &[u8]), &'static str> {
    const SHORT: &str = "the device table ends within a device";
    let (Some(number), Some(length)) = (u16_at(bytes, 0), u16_at(bytes, 4)) else { return Err(SHORT) };
    let (Some(attached), Some(slots)) = (u64_at(bytes, 8), u64_at(bytes, 16)) else { return Err(SHORT) };
    let (class, role) = (bytes[2], bytes[3]);
    let end = ENTRY_BYTES + usize::from(length);
    let label = bytes.get(ENTRY_BYTES..end).ok_or(SHORT)?;
    let rest = bytes.get(end.next_multiple_of(8)..).ok_or(SHORT)?;
    if usize::from(number) >= DEVICES_MAX || usize::from(length) > LABEL_BYTES_MAX {
        return Err("a device's number or label is out of range");
    }
    if role >= 16 {
        return Err("a device's role is unknown");
    }
    let is = |bit: u8| role & 1 << bit != 0;
    let device = DeviceEntry {
        number: DeviceId(number),
        label: std::str::from_utf8(label).map_err(|_| "a device's label is no text")?.to_owned(),
        class: CLASSES.get(usize::from(class)).ok_or("a device's class is unknown")?.0,
        role: Role { metadata: is(0), homes: is(1), copies: is(2), draining: is(3) },
        attached: GenerationNumber(attached),
        slots_max: (slots != 0).then_some(slots),
    };
    Ok((device, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn example() -> Vec<DeviceEntry> {
        let fast = DeviceEntry {
            number: DeviceId(3),
            label: "/fast".to_owned(),
            class: Class::Fast,
            role: Role::COPIES,
            attached: GenerationNumber(9),
            slots_max: Some(77),
        };
        vec![DeviceEntry::only("/slow/database".to_owned()), fast]
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let bytes = encode(&example());
        let mut expected = vec![0, 0, 0, 3, 14, 0, 0, 0];
        expected.extend_from_slice(&[0; 16]);
        expected.extend_from_slice(b"/slow/database\0\0");
        expected.extend_from_slice(&[3, 0, 1, 4, 5, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(b"/fast\0\0\0");
        assert_eq!(bytes, expected);
        assert_eq!(decode(&bytes), Ok(example()));
    }

    #[test]
    fn contradictions_are_refused() {
        let mut doubled = example();
        doubled[1].number = DeviceId(0);
        assert_eq!(decode(&encode(&doubled)), Err("a device is listed twice"));
        assert_eq!(decode(&encode(&example()[1..])), Err("no device holds the metadata"));
        assert!(decode(&encode(&example())[..30]).is_err());
    }

    proptest! {
        #[test]
        fn hostile_bytes_do_not_panic(at in 0usize..72, value: u8, length in 0usize..72) {
            let mut bytes = encode(&example());
            bytes[at] = value;
            if let Ok(devices) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&devices)), Ok(devices));
            }
            let _ = decode(&bytes[..length]);
        }
    }
}
