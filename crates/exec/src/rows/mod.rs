//! Rows on their way through a pipeline: [`column`] gathers values, [`entry`] reads those of an entry of a tree,
//! [`labels`] has the type of labels, and [`registers`] are the columns of the rows between stages.

pub(crate) mod column;
pub(crate) mod entry;
pub(crate) mod labels;
pub(crate) mod registers;
