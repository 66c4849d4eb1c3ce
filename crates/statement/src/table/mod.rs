//! Statements about tables: what columns, constraints and options they name.

pub mod alter_table;
pub mod column;
pub mod constraint;
pub mod create_table;
pub mod table_options;
