//! Everything that is tested through SQL, in one binary.

mod plans;
mod sql_logic;
mod tpch;
