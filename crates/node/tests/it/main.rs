//! The server as clients meet it: drivers, and sockets that say anything at all.

mod admission;
mod copy;
mod hostile;
mod queries;
mod server;
mod values;
