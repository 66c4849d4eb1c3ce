//! A server for a database: PostgreSQL's protocol over sessions of `saki_sql`, users, TLS, metrics.
//!
//! ```text
//!   listener ─► network threads: connection ─► message (borrowed from the read buffer)
//!                                  │  ▲
//!                  statement, values  chunks of encoded rows, a bounded queue
//!                                  ▼  │
//!              query threads:    work ─► Session ─► batches ─► types, copy
//! ```
//!
//! # Words
//! - *work*: what a statement does, run where it does not hold up the network.
//! - *chunk*: whole messages, encoded; the unit that passes from work to connection.
//! - *parameter*: what a client sets with SET and the connection keeps; *setting*: what the session keeps (`saki.…`).
//! - *canonical*: the one Arrow type in which values of an SQL type are written.
//!
//! # Invariants
//! - Nothing that a client sends makes this panic or allocate more than it has sent, up to the limit of a message.
//! - Replies are written when the connection is about to wait, or much has gathered: one write per turn of a small
//!   statement.
//! - A statement ends with its client: dropping the connection stops it. So do a cancel request and the time limit.
//! - Before a client has logged in it holds a socket and a small buffer, for a limited time, and nobody else's place:
//!   those that have not are bounded by themselves (`registry/doors.rs`), and the oldest leaves for the newest.
//!
//! # Failure model
//! An error of a statement leaves the connection; bytes that are not the protocol end it. When the server stops,
//! statements may finish for a while; what is stopped then changes nothing.
#![forbid(unsafe_code)]

mod auth;
mod connection;
mod copy;
mod failure;
mod listener;
pub mod message;
mod metrics;
mod options;
mod registry;
mod server;
mod stream;
pub mod types;

pub use failure::{Failure, Severity};
pub use options::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX, ServerOptions, TlsFiles};
pub use saki_sql::{Users, duration};
pub use server::Server;
