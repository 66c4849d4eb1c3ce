//! The file beside a database that says which piece each slot is to have, and at its end which have come.
//!
//! ```text
//!      0  magic "SAKITHIN"     8        24  target, UTF-8
//!      8  version              4         …  pieces, each: bytes 4, hash 32; the first is of slot 1
//!     12  pieces, count        4         …  BLAKE3 of all before  32
//!     16  target, bytes        4         …  records, each: slot 4, its complement 4
//!     20  zero                 4
//! ```
//!
//! Numbers are little-endian. Records are only ever added. One whose complement disagrees, or that is cut short, was
//! being written when the process or the machine ended; nothing counts from there on, and it is written over.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use saki_base::bytes::ByteReader;

use crate::piece::{HASH_BYTES, Piece};

const MAGIC: &[u8; 8] = b"SAKITHIN";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
const PIECE_BYTES: usize = 4 + HASH_BYTES;
const RECORD_BYTES: usize = 8;
/// Bytes of a target that somebody wrote.
const TARGET_BYTES_MAX: usize = 4096;

/// Where a database's content lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// The directory or bucket, as for `saki_objects`.
    pub target: String,
    /// Of slots from 1 on.
    pub pieces: Vec<Piece>,
}

impl Source {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.target.len() + self.pieces.len() * PIECE_BYTES);
        bytes.extend_from_slice(MAGIC);
        for number in [VERSION, self.pieces.len() as u32, self.target.len() as u32, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(self.target.as_bytes());
        for piece in &self.pieces {
            bytes.extend_from_slice(&piece.bytes.to_le_bytes());
            bytes.extend_from_slice(&piece.hash);
        }
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes
    }

    /// Reads it, and says how many bytes it has.
    fn decode(bytes: &[u8]) -> Result<(Self, usize), String> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err("is no source of a clone".to_owned());
        }
        let mut reader = ByteReader::new(&bytes[8..]);
        let mut number = || reader.u32().ok_or_else(|| "is cut short".to_owned());
        let (version, pieces, target, _) = (number()?, number()? as usize, number()? as usize, number()?);
        if version != VERSION {
            return Err(format!("is of version {version}, this program reads {VERSION}"));
        }
        if target > TARGET_BYTES_MAX {
            return Err("names a target that is too long".to_owned());
        }
        let target_end = HEADER_BYTES + target;
        let end = pieces.checked_mul(PIECE_BYTES).and_then(|bytes| bytes.checked_add(target_end));
        let (Some(body), Some(hash)) =
            (end.and_then(|end| bytes.get(..end)), end.and_then(|end| bytes.get(end..end.checked_add(HASH_BYTES)?)))
        else {
            return Err("is cut short".to_owned());
        };
        if blake3::hash(body).as_bytes() != hash {
            return Err("is damaged: its checksum disagrees".to_owned());
        }
        let target = std::str::from_utf8(&body[HEADER_BYTES..target_end]).map_err(|_| "names no target".to_owned())?;
        let piece = |bytes: &[u8]| Piece {
            bytes: u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes")),
            hash: bytes[4..].try_into().expect("the rest is the hash"),
        };
        let pieces = body[target_end..].chunks_exact(PIECE_BYTES).map(piece).collect();
        Ok((Self { target: target.to_owned(), pieces }, body.len() + HASH_BYTES))
    }
}

/// Where the source of a database is.
pub fn path_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".source");
    PathBuf::from(name)
}

/// A source, and which of its slots are settled.
#[derive(Debug)]
pub struct SourceFile {
    path: PathBuf,
    file: File,
    source: Source,
    /// By piece.
    settled: Vec<bool>,
    /// Where the next record goes.
    end: u64,
}

impl SourceFile {
    /// Writes the source of a database that is being made; durable, but for its name in the directory.
    ///
    /// # Errors
    /// Of the file, which must not be there.
    pub fn create(database: &Path, source: &Source) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path_of(database))?;
        file.write_all(&source.encode())?;
        file.sync_all()
    }

    /// Opens the source of a database; `None` if it has none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(database: &Path) -> Result<Option<Self>, String> {
        let path = path_of(database);
        let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| wrong(&error))?,
        };
        let bytes = std::fs::read(&path).map_err(|error| wrong(&error))?;
        let (source, header) = Source::decode(&bytes).map_err(|what| wrong(&what))?;
        let mut settled = vec![false; source.pieces.len()];
        let mut end = header;
        for record in bytes[header..].chunks_exact(RECORD_BYTES) {
            let number = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("4 bytes"));
            let piece = number(0).checked_sub(1).filter(|_| number(4) == !number(0));
            let Some(piece) = piece.and_then(|piece| settled.get_mut(piece as usize)) else { break };
            *piece = true;
            end += RECORD_BYTES;
        }
        Ok(Some(Self { file, source, settled, end: end as u64, path: path.clone() }))
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether a piece has come, and that is durable.
    pub fn is_settled(&self, piece: usize) -> bool {
        self.settled[piece]
    }

    /// Says durably that pieces have come, which are on the device and flushed.
    ///
    /// # Errors
    /// Of the file. Then they count as not settled.
    pub fn settle(&mut self, pieces: &[u32]) -> io::Result<()> {
        let mut records = Vec::with_capacity(pieces.len() * RECORD_BYTES);
        for slot in pieces.iter().map(|piece| piece + 1) {
            records.extend_from_slice(&slot.to_le_bytes());
            records.extend_from_slice(&(!slot).to_le_bytes());
        }
        self.file.write_all_at(&records, self.end)?;
        self.file.sync_data()?;
        self.end += records.len() as u64;
        pieces.iter().for_each(|piece| self.settled[*piece as usize] = true);
        Ok(())
    }

    /// Takes the file away: all slots are settled.
    ///
    /// # Errors
    /// Of the file.
    pub fn remove(&self) -> io::Result<()> {
        assert!(self.settled.iter().all(|settled| *settled), "a source goes when nothing is wanted of it any more");
        std::fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(pieces: usize) -> Source {
        let piece = |number: usize| Piece::of(&number.to_le_bytes());
        Source { target: "s3://bucket/prefix".to_owned(), pieces: (0..pieces).map(piece).collect() }
    }

    fn settled(file: &SourceFile) -> Vec<usize> {
        (0..file.source().pieces.len()).filter(|piece| file.is_settled(*piece)).collect()
    }

    #[test]
    fn what_is_written_is_read_and_records_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("db");
        assert!(SourceFile::open(&database).unwrap().is_none());
        SourceFile::create(&database, &source(5)).unwrap();
        assert!(SourceFile::create(&database, &source(5)).is_err(), "it is there");
        let mut file = SourceFile::open(&database).unwrap().unwrap();
        assert_eq!((file.source(), settled(&file)), (&source(5), vec![]));
        file.settle(&[3, 0]).unwrap();
        file.settle(&[4]).unwrap();
        drop(file);
        assert_eq!(settled(&SourceFile::open(&database).unwrap().unwrap()), [0, 3, 4]);
    }

    #[test]
    fn a_torn_record_counts_as_missing_and_is_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("db");
        SourceFile::create(&database, &source(3)).unwrap();
        let mut file = SourceFile::open(&database).unwrap().unwrap();
        file.settle(&[0, 1]).unwrap();
        drop(file);
        let whole = std::fs::read(path_of(&database)).unwrap();
        for torn in 1..RECORD_BYTES {
            std::fs::write(path_of(&database), &whole[..whole.len() - torn]).unwrap();
            assert_eq!(settled(&SourceFile::open(&database).unwrap().unwrap()), [0], "{torn} bytes are missing");
            let mut zeros = whole.clone();
            let end = zeros.len();
            zeros[end - torn..].fill(0);
            std::fs::write(path_of(&database), &zeros).unwrap();
            let mut file = SourceFile::open(&database).unwrap().unwrap();
            assert_eq!(settled(&file), [0], "{torn} bytes are zeros");
            file.settle(&[2]).unwrap();
            assert_eq!(settled(&SourceFile::open(&database).unwrap().unwrap()), [0, 2]);
        }
    }

    #[test]
    fn no_changed_byte_of_the_source_passes() {
        let whole = source(2).encode();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(Source::decode(&changed).is_err(), "byte {at}");
            assert!(Source::decode(&whole[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(Source::decode(&whole), Ok((source(2), whole.len())));
    }

    #[test]
    fn a_record_of_no_slot_ends_the_records() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("db");
        SourceFile::create(&database, &source(2)).unwrap();
        for slot in [0_u32, 3, u32::MAX] {
            let mut bytes = source(2).encode();
            for number in [slot, !slot, 1, !1] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            std::fs::write(path_of(&database), bytes).unwrap();
            assert_eq!(settled(&SourceFile::open(&database).unwrap().unwrap()), Vec::<usize>::new());
        }
    }
}
