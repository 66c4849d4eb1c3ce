//! Queries and their parts that PostgreSQL takes otherwise than the planner: which column a name is, what a subquery is
//! as a value, what groups, windows and sets of rows are made of.

pub mod emptiness;
pub mod groups;
pub mod joins;
pub mod lists;
pub mod order;
pub mod quantified;
pub mod rows;
pub mod series;
pub mod sets;
pub mod times;
pub mod values;
pub mod wildcards;
pub mod windows;
