//! What a backup has, as bytes: all that a restoration needs to know, but for the pieces themselves.
//!
//! ```text
//!      0  magic "SAKIBKUP"     8        88  merged through      8
//!      8  version              4        96  known through       8
//!     12  page size, bytes     4       104  through             8   the last timestamp that counts
//!     16  database id         16       112  extents, count      4
//!     32  generation           8       116  devices, count      4
//!     40  next chunk           8       120  root, bytes         4
//!     48  made, micros         8       124  zero                4
//!     56  chunks, count        8       128  root
//!     64  logs' identity       8         …  devices, each: bytes of its label 4, label
//!     72  logs, count          4         …  chunks, each:  chunk 8, live 4, written 4, piece 36, parts 4,
//!     76  zero                 12                           each: kind 1, zero 1, column 2, tree 4
//!                                        …  extents, each: log 4, bytes of the log's extents 8, pieces 4, each: 36
//!                                        …  BLAKE3 of all before  32
//! ```
//!
//! All numbers are little-endian. A piece is its length in bytes (4) and its hash (32); one of no bytes has no object.
//! `written` is 2^32 - 1 of a chunk that is not open. There are logs if their count is not zero.

use saki_base::bytes::ByteReader;
use saki_base::{ChunkId, GenerationNumber, PageSize, Part, PartKind, TreeId};
use saki_catalog::LogState;
use saki_store::{Image, ImageChunk, LogRange};
use saki_thin::Piece;

use crate::sealed::{HASH_BYTES, open, seal};

const MAGIC: &[u8; 8] = b"SAKIBKUP";
/// Since the second, databases have rows that lack columns, and hidden columns.
const VERSION: u32 = 2;

/// Of a chunk that is not open.
const NOT_OPEN: u32 = u32::MAX;

/// An extent of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    pub log: u32,
    pub extent_bytes: u64,
    pub pieces: Vec<Piece>,
}

/// See the module's introduction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// By the clock of the machine that made it.
    pub made_micros: i64,
    pub image: Image,
    /// By what the database's devices were found, for those who read it.
    pub devices: Vec<String>,
    /// Of each chunk of the image.
    pub chunks: Vec<Piece>,
    pub logs: Option<(LogRange, Vec<Extent>)>,
}

impl Manifest {
    /// All pieces, in their order; some more than once.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        let extents = self.logs.iter().flat_map(|(_, extents)| extents).flat_map(|extent| &extent.pieces);
        self.chunks.iter().chain(extents)
    }

    /// What the image has of the logs: everything up to this timestamp.
    pub fn merged_through(&self) -> u64 {
        self.logs.as_ref().map_or(0, |(range, _)| range.state.merged_through)
    }

    /// The last timestamp that it has; `None`: the image is all there is.
    pub fn through(&self) -> Option<u64> {
        self.logs.as_ref().map(|(range, _)| range.through)
    }

    pub fn encode(&self) -> Vec<u8> {
        let Image { page_size, database_id, generation, next_chunk, root, chunks } = &self.image;
        let none = (LogRange { state: LogState::default(), through: 0 }, Vec::new());
        let (LogRange { state, through }, extents) = self.logs.as_ref().unwrap_or(&none);
        let mut out = Vec::with_capacity(256 + chunks.len() * 64);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(page_size.bytes() as u32).to_le_bytes());
        out.extend_from_slice(&database_id.to_le_bytes());
        let numbers = [generation.0, next_chunk.0, self.made_micros as u64, chunks.len() as u64];
        numbers.into_iter().chain([state.database.unwrap_or(0)]).for_each(|it| out.extend(it.to_le_bytes()));
        let logs = if self.logs.is_some() { state.logs as u32 } else { 0 };
        [logs, 0, 0, 0].into_iter().for_each(|it| out.extend(it.to_le_bytes()));
        [state.merged_through, state.known_through, *through].into_iter().for_each(|it| out.extend(it.to_le_bytes()));
        let counts = [extents.len() as u32, self.devices.len() as u32, root.len() as u32, 0];
        counts.into_iter().for_each(|it| out.extend(it.to_le_bytes()));
        out.extend_from_slice(root);
        for label in &self.devices {
            out.extend((label.len() as u32).to_le_bytes());
            out.extend_from_slice(label.as_bytes());
        }
        chunks.iter().zip(&self.chunks).for_each(|(chunk, piece)| encode_chunk(chunk, piece, &mut out));
        for Extent { log, extent_bytes, pieces } in extents {
            out.extend(log.to_le_bytes());
            out.extend(extent_bytes.to_le_bytes());
            out.extend((pieces.len() as u32).to_le_bytes());
            pieces.iter().for_each(|piece| encode_piece(piece, &mut out));
        }
        seal(out)
    }

    /// Reads a manifest; says what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let body = open(bytes, (MAGIC, "manifest of a backup"), 1..=VERSION, 128)?;
        Self::fields(&mut ByteReader::new(&body[12..])).ok_or_else(|| "contradicts itself".to_owned())
    }

    fn fields(reader: &mut ByteReader<'_>) -> Option<Self> {
        let page_size = PageSize::new(reader.u32()?).ok()?;
        let database_id = u128::from(reader.u64()?) | u128::from(reader.u64()?) << 64;
        let (generation, next_chunk) = (GenerationNumber(reader.u64()?), ChunkId(reader.u64()?));
        let (made_micros, count) = (reader.u64()? as i64, reader.u64()?);
        let (database, logs) = (reader.u64()?, reader.u32()?);
        reader.take(12)?;
        let (merged_through, known_through, through) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (extents, labels, root_bytes) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader.take(4)?;
        let root = reader.take(root_bytes as usize)?.to_vec();
        let devices = (0..labels).map(|_| label(reader)).collect::<Option<Vec<_>>>()?;
        let chunks = (0..count).map(|_| chunk(reader)).collect::<Option<Vec<_>>>()?;
        let (chunks, pieces): (Vec<_>, Vec<_>) = chunks.into_iter().unzip();
        let extents = (0..extents).map(|_| extent(reader)).collect::<Option<Vec<_>>>()?;
        if !reader.rest().is_empty() || extents.iter().any(|extent| extent.log >= logs) {
            return None;
        }
        let state = LogState { database: Some(database), logs: logs as usize, merged_through, known_through };
        let logs = (logs > 0).then_some((LogRange { state, through }, extents));
        let image = Image { page_size, database_id, generation, next_chunk, root, chunks };
        Some(Self { made_micros, image, devices, chunks: pieces, logs })
    }
}

fn encode_piece(piece: &Piece, out: &mut Vec<u8>) {
    out.extend(piece.bytes.to_le_bytes());
    out.extend_from_slice(&piece.hash);
}

fn encode_chunk(chunk: &ImageChunk, piece: &Piece, out: &mut Vec<u8>) {
    out.extend(chunk.chunk.0.to_le_bytes());
    out.extend(chunk.live_pages.to_le_bytes());
    out.extend(chunk.written.unwrap_or(NOT_OPEN).to_le_bytes());
    encode_piece(piece, out);
    out.extend((chunk.parts.len() as u32).to_le_bytes());
    for part in &chunk.parts {
        let (kind, column) = part.kind.code();
        out.extend_from_slice(&[kind, 0]);
        out.extend(column.to_le_bytes());
        out.extend(part.tree.0.to_le_bytes());
    }
}

fn label(reader: &mut ByteReader<'_>) -> Option<String> {
    let bytes = reader.u32()?;
    String::from_utf8(reader.take(bytes as usize)?.to_vec()).ok()
}

fn piece(reader: &mut ByteReader<'_>) -> Option<Piece> {
    let bytes = reader.u32()?;
    Some(Piece { bytes, hash: reader.take(HASH_BYTES)?.try_into().ok()? })
}

fn chunk(reader: &mut ByteReader<'_>) -> Option<(ImageChunk, Piece)> {
    let (chunk, live_pages, written) = (ChunkId(reader.u64()?), reader.u32()?, reader.u32()?);
    let (piece, parts) = (piece(reader)?, reader.u32()?);
    let part = |reader: &mut ByteReader<'_>| {
        let (kind, _, column) = (reader.u8()?, reader.u8()?, reader.u16()?);
        Some(Part::new(TreeId(reader.u32()?), PartKind::from_code(kind, column)?))
    };
    let parts = (0..parts).map(|_| part(reader)).collect::<Option<Vec<_>>>()?;
    let written = (written != NOT_OPEN).then_some(written);
    Some((ImageChunk { chunk, live_pages, written, parts }, piece))
}

fn extent(reader: &mut ByteReader<'_>) -> Option<Extent> {
    let (log, extent_bytes, count) = (reader.u32()?, reader.u64()?, reader.u32()?);
    let pieces = (0..count).map(|_| piece(reader)).collect::<Option<Vec<_>>>()?;
    Some(Extent { log, extent_bytes, pieces })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let part = Part::new(TreeId(7), PartKind::Column(3));
        let chunk = |id, written, parts| ImageChunk { chunk: ChunkId(id), live_pages: 2, written, parts };
        let state = LogState { database: Some(9), logs: 2, merged_through: 10, known_through: 11 };
        let extent = Extent { log: 1, extent_bytes: 1 << 20, pieces: vec![Piece::of(b"frames"), Piece::of(b"")] };
        Manifest {
            made_micros: 1_700_000_000_000_000,
            image: Image {
                page_size: PageSize::new(8192).expect("valid"),
                database_id: u128::MAX - 5,
                generation: GenerationNumber(12),
                next_chunk: ChunkId(4),
                root: b"root".to_vec(),
                chunks: vec![chunk(1, None, vec![part]), chunk(3, Some(5), Vec::new())],
            },
            devices: vec!["/mnt/a".to_owned(), "/mnt/b".to_owned()],
            chunks: vec![Piece::of(b"one"), Piece::of(b"three")],
            logs: Some((LogRange { state, through: 12 }, vec![extent])),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let whole = manifest();
        assert_eq!(Manifest::decode(&whole.encode()), Ok(whole.clone()));
        let without_logs = Manifest { logs: None, ..whole };
        assert_eq!(Manifest::decode(&without_logs.encode()), Ok(without_logs));
    }

    /// The same with another version, and a checksum that is right.
    fn of_version(version: u8) -> Vec<u8> {
        let mut body = manifest().encode();
        body.truncate(body.len() - HASH_BYTES);
        body[8] = version;
        seal(body)
    }

    #[test]
    fn the_version_before_is_read_and_others_are_refused() {
        assert_eq!(Manifest::decode(&of_version(1)), Ok(manifest()));
        for version in [0, 3] {
            let refused = Manifest::decode(&of_version(version)).unwrap_err();
            assert_eq!(refused, format!("is of version {version}, this program reads 2"));
        }
    }

    #[test]
    fn no_changed_byte_passes_and_none_is_too_few() {
        let bytes = manifest().encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Manifest::decode(&changed).is_err(), "byte {at}");
            assert!(Manifest::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        // With a checksum that is right, too.
        for at in (12..bytes.len() - HASH_BYTES).step_by(3) {
            let mut body = bytes[..bytes.len() - HASH_BYTES].to_vec();
            body[at] ^= 0xff;
            let hash = blake3::hash(&body);
            body.extend_from_slice(hash.as_bytes());
            let _ = Manifest::decode(&body);
        }
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let bytes = manifest().encode();
        assert_eq!(&bytes[..8], MAGIC);
        assert_eq!(&bytes[8..16], &[2, 0, 0, 0, 0, 0x20, 0, 0]);
        assert_eq!(&bytes[32..48], &[12, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[56..76], &[2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(&bytes[104..132], b"\x0c\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x04\0\0\0\0\0\0\0root");
        assert_eq!(&bytes[132..142], b"\x06\0\0\0/mnt/a");
    }
}
