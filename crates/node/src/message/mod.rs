//! PostgreSQL's protocol 3, as bytes: what a client says and what it is told.
//!
//! Written for a connection that reads many small messages: a client's message is borrowed from the read buffer, a
//! reply is appended to the write buffer, and neither allocates. Layouts: PostgreSQL's documentation, "Message
//! Formats".

pub mod backend;
pub(crate) mod formats;
pub mod frontend;
