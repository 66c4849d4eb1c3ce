//! The owner's side: pages of a local store, for readers on other nodes.

mod frames;
mod guest;
mod server;
mod service;

pub use server::PageServer;
pub use service::{PageService, ServiceOptions};
