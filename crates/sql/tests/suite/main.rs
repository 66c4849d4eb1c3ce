//! Everything that is tested through SQL, in one binary.

mod clients;
mod column_scans;
mod operators;
mod plans;
mod sql_logic;
mod tpch;
mod transactions;
