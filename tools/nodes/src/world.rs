//! What both processes have to agree on.

use saki_base::random::hash_integer;
use saki_fabric::{ClusterKey, FabricError, Port, PortOptions, Shm, Tcp, Transport, Verbs};

/// Asks for the key of the region.
pub const KEY: u8 = b'k';
/// Asks for a page by its number and length, in an answer: u32 each.
pub const PAGE: u8 = b'p';
/// Anything else comes back as it is.
pub const ECHO: u8 = b'e';

/// The transport of this name.
pub fn transport(name: &str) -> Result<Box<dyn Transport>, String> {
    let made: Result<Box<dyn Transport>, FabricError> = match name {
        "tcp" => Tcp::new().map(|tcp| Box::new(tcp) as _),
        "shm" => Shm::new().map(|shm| Box::new(shm) as _),
        "verbs" => Verbs::new(None).map(|verbs| Box::new(verbs) as _),
        other => return Err(format!("no transport {other}; there are tcp, shm and verbs")),
    };
    made.map_err(|error| error.to_string())
}

/// What the ports of a node are opened with.
pub fn port_options(node: u64) -> Result<PortOptions, String> {
    let key = ClusterKey::new(b"a key for benchmarks, known to all of them").map_err(|error| error.to_string())?;
    Ok(PortOptions::new(node, key))
}

/// A port of a node over the transport of this name.
pub fn open(name: &str, node: u64, options: impl FnOnce(&mut PortOptions)) -> Result<Port, String> {
    let mut chosen = port_options(node)?;
    options(&mut chosen);
    Ok(Port::new(transport(name)?, chosen))
}

/// The bytes of the region from `offset` (a multiple of 8) on.
pub fn fill(bytes: &mut [u8], offset: u64) {
    for (word, at) in bytes.chunks_exact_mut(8).zip((offset..).step_by(8)) {
        word.copy_from_slice(&hash_integer(at).to_le_bytes());
    }
}
