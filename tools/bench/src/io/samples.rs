//! A file whose every sector says where it belongs, so that a benchmark of
//! reads can tell right data from wrong.
//!
//! ```text
//! sector (512 bytes)   0  its offset in the file, u64     8  a hash of the offset, 63 words that differ
//! ```
//!
//! The content is written, never a hole: blocks that were only reserved read
//! as zeroes without any access to the medium, at any speed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

const SECTOR_BYTES: usize = 512;
/// Written at once.
const PIECE_BYTES: usize = 8 << 20;

/// Makes `path` a sample file of `bytes`, unless it is one already.
pub fn prepare(path: &Path, bytes: u64) -> io::Result<()> {
    if is_prepared(path, bytes) {
        return Ok(());
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)?;
    }
    eprintln!("writing {} ({} MiB)", path.display(), bytes >> 20);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let length = PIECE_BYTES.min((bytes - offset) as usize);
        for (sector, at) in piece[..length].chunks_exact_mut(SECTOR_BYTES).zip((offset..).step_by(SECTOR_BYTES)) {
            fill(sector, at);
        }
        file.write_all(&piece[..length])?;
        offset += length as u64;
    }
    file.sync_all()
}

/// Whether every sector of `read` is one of a sample file, each following the one before it.
pub fn is_whole(read: &[u8]) -> bool {
    let first = u64::from_le_bytes(read[..8].try_into().expect("eight bytes"));
    (first..)
        .step_by(SECTOR_BYTES)
        .zip(read.chunks_exact(SECTOR_BYTES))
        .all(|(offset, sector)| is_sector(sector, offset))
}

/// Whether `read` is what lies at `offset`.
pub fn is_from(read: &[u8], offset: u64) -> bool {
    read[..8] == offset.to_le_bytes() && is_whole(read)
}

fn is_prepared(path: &Path, bytes: u64) -> bool {
    let mut sector = [0; SECTOR_BYTES];
    let Ok(mut file) = File::open(path) else { return false };
    // Written in order and made durable last, so the end speaks for the rest.
    let mut last = || {
        io::Seek::seek(&mut file, io::SeekFrom::Start(bytes.checked_sub(SECTOR_BYTES as u64)?)).ok()?;
        file.read_exact(&mut sector).ok()
    };
    let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    length == bytes && last().is_some() && is_sector(&sector, bytes - SECTOR_BYTES as u64)
}

fn fill(sector: &mut [u8], offset: u64) {
    for (index, word) in (0..).zip(sector.chunks_exact_mut(8)) {
        word.copy_from_slice(&word_at(offset, index).to_le_bytes());
    }
}

fn is_sector(sector: &[u8], offset: u64) -> bool {
    (0..).zip(sector.chunks_exact(8)).all(|(index, word)| *word == word_at(offset, index).to_le_bytes())
}

fn word_at(offset: u64, index: u64) -> u64 {
    if index == 0 { offset } else { (offset / SECTOR_BYTES as u64 * 64 + index).wrapping_mul(0x9E37_79B9_7F4A_7C15) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_data_is_told_from_right() {
        let mut bytes = vec![0; 4 * SECTOR_BYTES];
        for (sector, at) in bytes.chunks_exact_mut(SECTOR_BYTES).zip((8192..).step_by(SECTOR_BYTES)) {
            fill(sector, at);
        }
        assert!(is_from(&bytes, 8192) && !is_from(&bytes, 4096) && is_whole(&bytes));
        bytes[700] ^= 1;
        assert!(!is_whole(&bytes));
        assert!(!is_whole(&[0; 1024]), "zeroes of a hole pass for data");
    }
}
