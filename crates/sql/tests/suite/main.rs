//! Everything that is tested through SQL, in one binary.

mod operators;
mod plans;
mod sql_logic;
mod tpch;
