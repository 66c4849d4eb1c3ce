//! SQL over out-of-order pipelines (introduction follows).
#![forbid(unsafe_code)]

pub mod access;
pub mod catalog;
mod chain;
mod column_test;
mod columns;
mod cost;
mod database;
pub mod error;
mod explain;
mod index_join;
mod key_range;
mod path;
mod pipeline_exec;
mod provider;
mod query_env;
mod settings;
mod snapshot;
mod statistics;
mod stream;
mod types;
