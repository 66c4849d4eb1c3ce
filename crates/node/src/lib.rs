//! A server.
#![forbid(unsafe_code)]
mod admin;
mod base64;
mod failure;
mod message;
mod metrics;
mod options;
mod parameters;
mod registry;
mod scram;
mod tls;
mod types;
mod users;
