//! The commands: each a module with its arguments and a `run`.

pub mod backup;
pub mod calibrate;
pub mod check;
pub mod create;
pub mod demo;
pub mod device;
pub mod load;
pub mod recover;
pub mod serve;
pub mod sql;
pub mod tier;
pub mod user;
