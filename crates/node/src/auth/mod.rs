//! How a client proves to know a password.

pub mod scram;
