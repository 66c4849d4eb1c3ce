//! The server as clients meet it: drivers, and sockets that say anything at all.

mod admission;
mod advisory;
mod copy;
mod departures;
mod doors;
mod durable;
mod hostile;
mod isolation;
mod limits;
mod logs;
mod parameters;
mod queries;
mod roles;
mod server;
mod shapes;
mod transactions;
mod values;
mod views;
