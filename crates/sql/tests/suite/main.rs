//! Everything that is tested through SQL, in one binary.

mod clients;
mod column_scans;
mod fast_ranges;
mod operators;
mod plan_cache;
mod plans;
mod query_memory;
mod sql_logic;
mod tpch;
mod transactions;
