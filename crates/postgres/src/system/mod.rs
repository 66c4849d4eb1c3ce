//! What clients find in the system's relations, and what its functions answer (crate `saki-system`), asked in SQL.

mod activity;
mod arrays;
mod cluster;
mod definitions;
mod describe;
mod format;
mod information;
mod listings;
mod names;
mod privileges;
mod relations;
mod session;
mod sizes;
