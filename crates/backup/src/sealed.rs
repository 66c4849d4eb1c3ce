//! What manifests and segments of archives begin and end with: a mark, a version, and the BLAKE3 hash of all before it.

use std::ops::RangeInclusive;

/// Bytes of the hash at the end.
pub const HASH_BYTES: usize = 32;

/// Adds the hash.
pub fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

/// The bytes before the hash, at least so many; says what is wrong with them. `what` it is that the mark stands for.
pub fn open<'b>(
    bytes: &'b [u8],
    (magic, what): (&[u8; 8], &str),
    versions: RangeInclusive<u32>,
    bytes_min: usize,
) -> Result<&'b [u8], String> {
    if bytes.get(..8) != Some(magic) {
        return Err(format!("is no {what}"));
    }
    match saki_base::bytes::u32_at(bytes, 8) {
        Some(found) if versions.contains(&found) => {}
        found => return Err(format!("is of version {}, this program reads {}", found.unwrap_or(0), versions.end())),
    }
    let body = bytes.len().checked_sub(HASH_BYTES).filter(|end| *end >= bytes_min);
    let Some((body, hash)) = body.map(|end| bytes.split_at(end)) else {
        return Err("is cut short".to_owned());
    };
    if blake3::hash(body).as_bytes() != hash {
        return Err("is damaged: its checksum disagrees".to_owned());
    }
    Ok(body)
}
