//! What both processes have to agree on.

use saki_base::random::hash_integer;
use saki_fabric::{ClusterKey, Port, PortOptions, Shm, Tcp, Transport, Verbs};

/// Asks for the key of the region.
pub const KEY: u8 = b'k';
/// Asks for a page by its number and length, in an answer: u32 each.
pub const PAGE: u8 = b'p';
/// Anything else comes back as it is.
pub const ECHO: u8 = b'e';

/// A port of a node over the transport of this name.
pub fn open(transport: &str, node: u64, options: impl FnOnce(&mut PortOptions)) -> Result<Port, String> {
    let transport: Box<dyn Transport> = match transport {
        "tcp" => Box::new(Tcp::new().map_err(|error| error.to_string())?),
        "shm" => Box::new(Shm::new().map_err(|error| error.to_string())?),
        "verbs" => Box::new(Verbs::new(None).map_err(|error| error.to_string())?),
        other => return Err(format!("no transport {other}; there are tcp, shm and verbs")),
    };
    let key = ClusterKey::new(b"a key for benchmarks, known to all of them").map_err(|error| error.to_string())?;
    let mut chosen = PortOptions::new(node, key);
    options(&mut chosen);
    Ok(Port::new(transport, chosen))
}

/// The bytes of the region from `offset` (a multiple of 8) on.
pub fn fill(bytes: &mut [u8], offset: u64) {
    for (word, at) in bytes.chunks_exact_mut(8).zip((offset..).step_by(8)) {
        word.copy_from_slice(&hash_integer(at).to_le_bytes());
    }
}
