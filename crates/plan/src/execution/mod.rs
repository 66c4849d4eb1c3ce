//! What a plan does as it runs, beside giving rows: what it may read, how far it has come, what memory it may take,
//! when it lets go of its thread.

pub mod constants;
pub mod counted;
pub mod forecast;
pub mod keyless;
pub mod memory;
pub mod narrow;
pub mod progress;
pub mod slices;
pub mod tracked;
pub mod traffic;
pub mod weight;
pub mod wide;
