//! The reader's side: another node's pages as a page store.

mod lane;
mod owner;
mod reads;
mod shared;
mod store;

pub use store::{Connect, RemoteOptions, RemoteStore};
