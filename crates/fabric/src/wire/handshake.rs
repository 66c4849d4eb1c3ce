//! The handshake: both sides show that they know the cluster's key, without telling it.
//!
//! ```text
//!   caller                                    called
//!     Hello: version, build, nonce ─────────────►
//!     ◄──────────── Welcome: version, build, nonce, HMAC(key, "called" + both texts)
//!     Proof: HMAC(key, "caller" + both texts) ──►
//! ```
//! Each proof covers both nonces and all that either side said of itself, so that none can be used again, turned round
//! or joined to other words.

use ring::hmac;
use saki_base::bytes::ByteReader;

use crate::secret::ClusterKey;

/// The version of the protocol between nodes. Both sides have to speak the same.
pub const PROTOCOL_VERSION: u16 = 1;
/// Bytes of a challenge.
pub const NONCE_BYTES: usize = 32;
/// Most bytes of the name of a build.
pub const BUILD_BYTES_MAX: usize = 64;

const MAGIC: &[u8; 8] = b"SAKIFAB\0";
const PROOF_BYTES: usize = 32;

/// What a side says of itself first: body of `Hello`, and the beginning of that of `Welcome`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    pub version: u16,
    /// The transport, so that a caller that took the wrong address is told so.
    pub transport: u8,
    pub node: u64,
    /// Drawn when the process starts: another one means that it has forgotten what it lent.
    pub incarnation: u64,
    pub nonce: [u8; NONCE_BYTES],
    pub build: String,
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        let mut build = &*self.build;
        while build.len() > BUILD_BYTES_MAX {
            build = &build[..build.floor_char_boundary(build.len() - 1)];
        }
        let mut bytes = Vec::with_capacity(128);
        bytes.extend(MAGIC);
        bytes.extend(self.version.to_le_bytes());
        bytes.push(self.transport);
        bytes.push(build.len() as u8);
        bytes.extend(self.node.to_le_bytes());
        bytes.extend(self.incarnation.to_le_bytes());
        bytes.extend(self.nonce);
        bytes.extend(build.as_bytes());
        bytes
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(body);
        let hello = Self::read(&mut reader)?;
        reader.rest().is_empty().then_some(hello)
    }

    fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        if reader.take(8)? != MAGIC {
            return None;
        }
        let (version, transport, build_bytes) = (reader.u16()?, reader.u8()?, reader.u8()?);
        let (node, incarnation) = (reader.u64()?, reader.u64()?);
        let nonce = *reader.take(NONCE_BYTES)?.first_chunk()?;
        if usize::from(build_bytes) > BUILD_BYTES_MAX {
            return None;
        }
        let build = std::str::from_utf8(reader.take(usize::from(build_bytes))?).ok()?.to_owned();
        Some(Self { version, transport, node, incarnation, nonce, build })
    }
}

/// Body of `Welcome`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    pub hello: Hello,
    pub proof: Proof,
}

impl Welcome {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.hello.encode();
        bytes.extend(self.proof.bytes);
        bytes
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(body);
        let hello = Hello::read(&mut reader)?;
        Some(Self { hello, proof: Proof::decode(reader.rest())? })
    }
}

/// Body of `Proof`: HMAC-SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    bytes: [u8; PROOF_BYTES],
}

impl Proof {
    pub fn encode(&self) -> [u8; PROOF_BYTES] {
        self.bytes
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        Some(Self { bytes: body.try_into().ok()? })
    }
}

/// What both sides said, which proofs cover.
#[derive(Clone, Debug)]
pub struct Transcript {
    text: Vec<u8>,
}

impl Transcript {
    pub fn new(caller: &Hello, called: &Hello) -> Self {
        let (caller, called) = (caller.encode(), called.encode());
        let mut text = Vec::with_capacity(4 + caller.len() + called.len());
        // Where one ends and the other begins is part of what is proved.
        text.extend((caller.len() as u32).to_le_bytes());
        text.extend(caller);
        text.extend(called);
        Self { text }
    }

    pub fn proof_of_caller(&self, key: &ClusterKey) -> Proof {
        self.proof(key, b"saki fabric 1 caller")
    }

    pub fn proof_of_called(&self, key: &ClusterKey) -> Proof {
        self.proof(key, b"saki fabric 1 called")
    }

    /// In a time that tells nothing.
    pub fn is_of_caller(&self, key: &ClusterKey, proof: &Proof) -> bool {
        self.verify(key, b"saki fabric 1 caller", proof)
    }

    /// In a time that tells nothing.
    pub fn is_of_called(&self, key: &ClusterKey, proof: &Proof) -> bool {
        self.verify(key, b"saki fabric 1 called", proof)
    }

    fn covered(&self, role: &[u8]) -> Vec<u8> {
        [role, &self.text].concat()
    }

    fn proof(&self, key: &ClusterKey, role: &[u8]) -> Proof {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.bytes());
        let tag = hmac::sign(&key, &self.covered(role));
        Proof { bytes: tag.as_ref().try_into().expect("SHA-256 has 32 bytes") }
    }

    fn verify(&self, key: &ClusterKey, role: &[u8], proof: &Proof) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.bytes());
        hmac::verify(&key, &self.covered(role), &proof.bytes).is_ok()
    }
}

/// Body of `Goodbye`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Goodbye {
    /// The link is not needed any more.
    Done,
    /// The version differs; the sender's own, and its build.
    Version { version: u16, build: String },
    /// The peer's proof is wrong.
    Unauthenticated,
    /// The sender has all the links it may have.
    Full,
    /// Something the peer sent could not be right.
    Corrupt,
}

impl Goodbye {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Done => vec![1],
            Self::Version { version, build } => {
                let build = &build[..build.floor_char_boundary(BUILD_BYTES_MAX.min(build.len()))];
                [&[2], &version.to_le_bytes()[..], build.as_bytes()].concat()
            }
            Self::Unauthenticated => vec![3],
            Self::Full => vec![4],
            Self::Corrupt => vec![5],
        }
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        let (kind, rest) = body.split_first()?;
        match (kind, rest) {
            (1, []) => Some(Self::Done),
            (2, [low, high, build @ ..]) if build.len() <= BUILD_BYTES_MAX => {
                let build = std::str::from_utf8(build).ok()?.to_owned();
                Some(Self::Version { version: u16::from_le_bytes([*low, *high]), build })
            }
            (3, []) => Some(Self::Unauthenticated),
            (4, []) => Some(Self::Full),
            (5, []) => Some(Self::Corrupt),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(node: u64) -> Hello {
        let nonce = [node as u8; NONCE_BYTES];
        Hello { version: 1, transport: 1, node, incarnation: 9, nonce, build: "0.1.0".into() }
    }

    #[test]
    fn what_is_said_is_read() {
        assert_eq!(Hello::decode(&hello(1).encode()), Some(hello(1)));
        let key = ClusterKey::new(&[1; 32]).unwrap();
        let proof = Transcript::new(&hello(1), &hello(2)).proof_of_called(&key);
        let welcome = Welcome { hello: hello(2), proof };
        assert_eq!(Welcome::decode(&welcome.encode()), Some(welcome));
        let goodbye = Goodbye::Version { version: 3, build: "x".into() };
        assert_eq!(Goodbye::decode(&goodbye.encode()), Some(goodbye));
        assert_eq!(Hello::decode(&[0; 70]), None);
    }

    #[test]
    fn a_proof_holds_for_its_key_its_side_and_its_words_only() {
        let (key, other) = (ClusterKey::new(&[1; 32]).unwrap(), ClusterKey::new(&[2; 32]).unwrap());
        let transcript = Transcript::new(&hello(1), &hello(2));
        let proof = transcript.proof_of_caller(&key);
        assert!(transcript.is_of_caller(&key, &proof));
        assert!(!transcript.is_of_caller(&other, &proof), "another key");
        assert!(!transcript.is_of_called(&key, &proof), "turned round");
        assert!(!Transcript::new(&hello(1), &hello(3)).is_of_caller(&key, &proof), "other words");
    }

    #[test]
    fn a_long_name_of_a_build_is_cut() {
        let long = Hello { build: "é".repeat(100), ..hello(1) };
        assert_eq!(Hello::decode(&long.encode()).unwrap().build, "é".repeat(32));
        assert!(ClusterKey::new(&[1; 31]).is_err(), "and a short key refused");
    }
}
