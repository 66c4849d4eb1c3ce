//! Rows on their way through a pipeline: [`column`] gathers values, [`entry`] reads those of an entry of a tree, and
//! [`registers`] are the columns of the rows between stages.

pub(crate) mod column;
pub(crate) mod entry;
pub(crate) mod registers;
