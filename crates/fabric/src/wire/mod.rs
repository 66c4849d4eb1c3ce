//! The bytes between nodes; `docs/fabric.md` has each. No state and no sockets here: what is read is checked, and what
//! is not right is `None` or an error, never a panic.

mod frame;
mod handshake;

pub use frame::{Failure, HEAD_BYTES, Head, Kind, MESSAGE_BYTES_MAX, Open, Opened, READ_BYTES_MAX, Read, encode_head};
pub use handshake::{BUILD_BYTES_MAX, Goodbye, Hello, NONCE_BYTES, PROTOCOL_VERSION, Proof, Transcript, Welcome};
