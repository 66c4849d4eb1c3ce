//! Bytes that an object holds, and where they are read from.

use std::fmt;

use saki_objects::{ObjectError, Objects};

/// Bytes of a hash.
pub const HASH_BYTES: usize = 32;

/// Bytes that an object holds: so many, with that BLAKE3 hash. No two pieces have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Piece {
    pub bytes: u32,
    pub hash: [u8; HASH_BYTES],
}

impl Piece {
    /// The piece that these bytes are.
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u32, hash: *blake3::hash(bytes).as_bytes() }
    }

    /// One of no bytes has no object.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Its object's name: `objects/ab/abcd…`.
    pub fn name(&self) -> String {
        let hex: String = self.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{FOLDER}/{}/{hex}", &hex[..2])
    }

    /// What is wrong with bytes that should be the piece.
    ///
    /// # Errors
    /// That they are others.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), String> {
        match Self::of(bytes) {
            found if found == *self => Ok(()),
            found if found.bytes != self.bytes => {
                Err(format!("the object has {} bytes and should have {}", found.bytes, self.bytes))
            }
            _ => Err("the object is damaged: it is not what its name says".to_owned()),
        }
    }
}

/// Where pieces are read from.
pub trait Pieces: Send + Sync {
    /// The bytes of a piece, which are what its name says.
    ///
    /// # Errors
    /// What is wrong, with the object's name.
    fn read(&self, piece: &Piece) -> Result<Vec<u8>, String>;
}

/// The folder of a target that pieces lie in.
pub const FOLDER: &str = "objects";

/// Why a piece cannot be read.
#[derive(Debug)]
pub enum PieceError {
    /// There is no object.
    Missing { object: String },
    /// Its object is cut short or damaged.
    Damaged { object: String, what: String },
    /// The store fails.
    Store(ObjectError),
}

impl fmt::Display for PieceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { object } => write!(f, "{object}: the object is missing"),
            Self::Damaged { object, what } => write!(f, "{object}: {what}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

/// The bytes of a piece, which are what its name says.
///
/// # Errors
/// If its object is another, or not there; of the store.
pub fn read(objects: &Objects, piece: &Piece) -> Result<Vec<u8>, PieceError> {
    if piece.is_empty() {
        return Ok(Vec::new());
    }
    let name = piece.name();
    let bytes = objects.get(&name).map_err(|error| match error {
        ObjectError::NotFound { object } => PieceError::Missing { object },
        error => PieceError::Store(error),
    })?;
    piece.verify(&bytes).map_err(|what| PieceError::Damaged { object: objects.named(&name), what })?;
    Ok(bytes)
}

impl Pieces for Objects {
    fn read(&self, piece: &Piece) -> Result<Vec<u8>, String> {
        read(self, piece).map_err(|error| match error {
            missing @ PieceError::Missing { .. } => format!("{missing}; has its backup been pruned?"),
            error => error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_what_its_name_says() {
        let piece = Piece::of(b"pages");
        assert_eq!(piece.verify(b"pages"), Ok(()));
        assert_eq!(piece.verify(b"page").unwrap_err(), "the object has 4 bytes and should have 5");
        assert!(piece.verify(b"pagez").unwrap_err().contains("damaged"));
        let name = piece.name();
        let (folder, hex) = name.rsplit_once('/').unwrap();
        assert_eq!((folder, hex.len()), (format!("{FOLDER}/{}", &hex[..2]).as_str(), 2 * HASH_BYTES));
        assert!(Piece::of(b"").is_empty());
    }

    #[test]
    fn what_is_wrong_names_the_object() {
        let directory = tempfile::tempdir().unwrap();
        let objects = Objects::open(directory.path().to_str().unwrap(), saki_objects::Options::default()).unwrap();
        let piece = Piece::of(b"one");
        let name = piece.name();
        let missing = objects.read(&piece).unwrap_err();
        assert!(missing.contains(&name) && missing.contains("pruned"), "{missing}");
        objects.put(&name, b"two".to_vec()).unwrap();
        assert!(objects.read(&piece).unwrap_err().contains(&name));
        objects.put(&name, b"one".to_vec()).unwrap();
        assert_eq!(objects.read(&piece), Ok(b"one".to_vec()));
        assert_eq!(objects.read(&Piece::of(b"")), Ok(Vec::new()));
    }
}
