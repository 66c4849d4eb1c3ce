//! Everything that is tested through SQL, in one binary.

mod access;
mod clients;
mod column_scans;
mod concurrently;
mod drafts;
mod fast_changes;
mod fast_cold;
mod fast_inserts;
mod fast_ranges;
mod fast_rows;
mod fast_statements;
mod locks;
mod merges;
mod operators;
mod plan_cache;
mod plans;
mod query_memory;
mod released_rows;
mod segments;
mod sequences;
mod sql_logic;
mod support;
mod tiers;
mod tpch;
mod transactions;
mod waits;
