//! Frames: a head of 24 bytes and a body, and the bodies of all but the handshake's.

use saki_base::bytes::{ByteReader, checksum};

use crate::region::{REGION_KEY_BYTES, RegionKey};

/// Bytes of a frame before its body.
pub const HEAD_BYTES: usize = 24;
/// Most bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Most bytes of one read of a region.
pub const READ_BYTES_MAX: usize = 1 << 20;
/// Most bytes of the body of any other frame.
const BODY_BYTES_MAX: usize = 1024;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// First of the side that connects.
    Hello = 1,
    /// The answer, with the proof of the side that was called.
    Welcome = 2,
    /// The proof of the side that connects.
    Proof = 3,
    /// What the caller needs to attach memory: transports with one-sided reads only.
    Attach = 4,
    /// That it is attached, and what the other side needs.
    Attached = 5,
    /// The link is up.
    Ready = 6,
    /// A message of the layers above.
    Message = 7,
    /// Asks to open a region by its key.
    Open = 8,
    /// How long it is, and how to reach it.
    Opened = 9,
    /// Asks for bytes of an opened region: transports without one-sided reads only.
    Read = 10,
    /// Those bytes. Not covered by the head's checksum: pages have theirs in their parents.
    Data = 11,
    /// Why bytes were not read.
    Failed = 12,
    /// A region that the peer had opened was taken back.
    TakenBack = 13,
    /// A sign of life.
    Beat = 14,
    /// Wakes a peer that sleeps beside its ring.
    Knock = 15,
    /// Last of a side that ends the connection, and why.
    Goodbye = 16,
    /// Why a region was not opened.
    NotOpened = 17,
}

impl Kind {
    const ALL: [Self; 17] = [
        Self::Hello,
        Self::Welcome,
        Self::Proof,
        Self::Attach,
        Self::Attached,
        Self::Ready,
        Self::Message,
        Self::Open,
        Self::Opened,
        Self::Read,
        Self::Data,
        Self::Failed,
        Self::TakenBack,
        Self::Beat,
        Self::Knock,
        Self::Goodbye,
        Self::NotOpened,
    ];

    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    /// Most bytes of its body.
    fn body_most(self) -> usize {
        match self {
            Self::Message => MESSAGE_BYTES_MAX,
            Self::Data => READ_BYTES_MAX,
            _ => BODY_BYTES_MAX,
        }
    }

    /// Whether a side that has not shown yet that it knows the key may send it.
    pub fn is_of_handshake(self) -> bool {
        matches!(self, Self::Hello | Self::Welcome | Self::Proof | Self::Goodbye)
    }
}

/// The first 24 bytes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub kind: Kind,
    /// Bytes of the body.
    pub length: usize,
    /// Counts the frames of one direction of one connection, from 0, and wraps.
    pub sequence: u32,
    /// Which read or opening of the asking side it is about; 0 for other kinds.
    pub slot: u32,
    check: u64,
}

/// The head of a frame with this body. Of [`Kind::Data`], whose body is not covered, `body` is empty and `length` its
/// true length; of others `length` is the body's.
pub fn encode_head(kind: Kind, sequence: u32, slot: u32, length: usize, body: &[u8]) -> [u8; HEAD_BYTES] {
    debug_assert!(length <= kind.body_most(), "a frame of {length} bytes");
    let mut bytes = [0; HEAD_BYTES];
    bytes[0..4].copy_from_slice(&(length as u32).to_le_bytes());
    bytes[4] = kind as u8;
    bytes[8..12].copy_from_slice(&sequence.to_le_bytes());
    bytes[12..16].copy_from_slice(&slot.to_le_bytes());
    let check = check_of(&bytes, body);
    bytes[16..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// xxh3-64 of the first 16 bytes of a head and the checksum of its body.
fn check_of(head: &[u8; HEAD_BYTES], body: &[u8]) -> u64 {
    let mut covered = [0; HEAD_BYTES];
    covered[..16].copy_from_slice(&head[..16]);
    let of_body = if body.is_empty() { 0 } else { checksum(body) };
    covered[16..].copy_from_slice(&of_body.to_le_bytes());
    checksum(&covered)
}

impl Head {
    /// Reads a head; says what is wrong with it otherwise. The check is [`Head::holds`]' to compare, once the body is
    /// there.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Self, String> {
        let mut reader = ByteReader::new(bytes);
        let (length, kind) = (reader.u32().unwrap_or(0) as usize, reader.u8().unwrap_or(0));
        let zeroes = reader.take(3).unwrap_or_default();
        let kind = Kind::from_byte(kind).ok_or_else(|| format!("a frame of the unknown kind {kind}"))?;
        if zeroes.iter().any(|byte| *byte != 0) {
            return Err("a frame's head that is not zero where it has to be".into());
        }
        if length > kind.body_most() {
            return Err(format!("a frame {kind:?} of {length} bytes"));
        }
        let (sequence, slot) = (reader.u32().unwrap_or(0), reader.u32().unwrap_or(0));
        Ok(Self { kind, length, sequence, slot, check: reader.u64().unwrap_or(0) })
    }

    /// Whether head and body are as they were sent. Of [`Kind::Data`] `body` is empty.
    pub fn holds(&self, body: &[u8]) -> bool {
        encode_head(self.kind, self.sequence, self.slot, self.length, body)[16..] == self.check.to_le_bytes()
    }
}

/// Body of [`Kind::Open`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    pub key: RegionKey,
}

impl Open {
    pub fn encode(&self) -> [u8; REGION_KEY_BYTES] {
        self.key.to_bytes()
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        Some(Self { key: RegionKey::from_bytes(body)? })
    }
}

/// Body of [`Kind::Opened`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened<'b> {
    /// What the asking side calls the region from now on.
    pub handle: u32,
    pub region_bytes: u64,
    /// How the transport reaches it: empty, or an address and a key of the device.
    pub grant: &'b [u8],
}

impl<'b> Opened<'b> {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + self.grant.len());
        bytes.extend(self.handle.to_le_bytes());
        bytes.extend(self.region_bytes.to_le_bytes());
        bytes.extend(self.grant);
        bytes
    }

    pub fn decode(body: &'b [u8]) -> Option<Self> {
        let mut reader = ByteReader::new(body);
        Some(Self { handle: reader.u32()?, region_bytes: reader.u64()?, grant: reader.rest() })
    }
}

/// Body of [`Kind::Read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    pub handle: u32,
    pub length: u32,
    pub offset: u64,
}

impl Read {
    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.handle.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(body);
        let read = Self { handle: reader.u32()?, length: reader.u32()?, offset: reader.u64()? };
        reader.rest().is_empty().then_some(read)
    }
}

/// Body of [`Kind::Failed`] and [`Kind::NotOpened`]: one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    UnknownRegion,
    OutOfRegion,
    /// The region's memory cannot be reached by this transport.
    Unreachable,
}

impl Failure {
    pub fn encode(self) -> [u8; 1] {
        [match self {
            Self::UnknownRegion => 1,
            Self::OutOfRegion => 2,
            Self::Unreachable => 3,
        }]
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        match body {
            [1] => Some(Self::UnknownRegion),
            [2] => Some(Self::OutOfRegion),
            [3] => Some(Self::Unreachable),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let bytes = encode_head(Kind::Message, 7, 0, 5, b"hello");
        let head = Head::decode(&bytes).unwrap();
        assert_eq!((head.kind, head.length, head.sequence, head.slot), (Kind::Message, 5, 7, 0));
        assert!(head.holds(b"hello") && !head.holds(b"hellO"));
    }

    #[test]
    fn every_damaged_bit_of_a_head_is_found() {
        let bytes = encode_head(Kind::Data, 1, 9, 4096, &[]);
        for bit in 0..HEAD_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!Head::decode(&damaged).is_ok_and(|head| head.holds(&[])), "bit {bit}");
        }
    }

    #[test]
    fn lengths_beyond_what_a_kind_may_have_are_refused() {
        for (kind, most) in [(Kind::Message, MESSAGE_BYTES_MAX), (Kind::Data, READ_BYTES_MAX), (Kind::Beat, 1024)] {
            let mut bytes = encode_head(kind, 0, 0, most, &[]);
            assert!(Head::decode(&bytes).is_ok());
            bytes[..4].copy_from_slice(&(most as u32 + 1).to_le_bytes());
            assert!(Head::decode(&bytes).unwrap_err().contains(&format!("{} bytes", most + 1)));
        }
    }

    #[test]
    fn bodies_are_read_as_they_were_written() {
        let key = RegionKey { number: 3, secret: u64::MAX - 5 };
        assert_eq!(Open::decode(&Open { key }.encode()), Some(Open { key }));
        let opened = Opened { handle: 4, region_bytes: 1 << 40, grant: b"grant" };
        assert_eq!(Opened::decode(&opened.encode()), Some(opened));
        let read = Read { handle: 1, length: 4096, offset: 1 << 33 };
        assert_eq!(Read::decode(&read.encode()), Some(read));
        assert_eq!(Read::decode(&[0; 17]), None);
        assert_eq!(Open::decode(&[0; 15]), None);
        for failure in [Failure::UnknownRegion, Failure::OutOfRegion, Failure::Unreachable] {
            assert_eq!(Failure::decode(&failure.encode()), Some(failure));
        }
    }
}
