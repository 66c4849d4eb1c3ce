//! Rows on their way through a pipeline: [`entry`] reads the values of an entry of a tree, and [`registers`] are the
//! columns of the rows between stages.

pub(crate) mod entry;
pub(crate) mod registers;
