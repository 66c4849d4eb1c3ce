//! The `saki` command as its users meet it: real processes, real files.
//!
//! - `answers`: what goes right, from an empty directory to query results.
//! - `mistakes`: what users get wrong, and how they are told.
//! - `damage`: files that are not what was written.
//! - `crashes`: processes that die at a random moment.
//! - `panics`: servers in which a panic is planted.
//! - `devices`: databases on several of them.
//! - `full`: devices that fill up.

mod answers;
mod backup;
mod crashes;
mod damage;
mod devices;
mod full;
mod mistakes;
mod panics;
mod support;
