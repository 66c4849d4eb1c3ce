//! Everything that is tested through SQL, in one binary.

mod sql_logic;
mod tpch;
