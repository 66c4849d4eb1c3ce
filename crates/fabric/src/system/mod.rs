//! What the standard library has not, with a safe surface: files in memory that two processes map, messages with
//! descriptors, waiting for many sockets.

mod lent;
mod mapping;
mod poller;
mod ring;
mod socket;

pub use lent::{Lent, Piece};
pub use mapping::{Mapping, file_in_memory};
pub use poller::Poller;
pub use ring::{Ring, ring_bytes};
pub use socket::{PIECES_MOST, receive, send};
