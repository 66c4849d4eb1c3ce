//! On the way from a text to trees: tokens in the parser's order, how deep they lead, what they weigh, and long chains.

pub mod arguments;
pub mod chains;
pub mod changes;
pub mod conflict;
pub mod continued;
pub mod deferrable;
pub mod depth;
pub mod identity;
pub mod queries;
pub mod shape;
pub mod size;
pub mod walk;
pub mod weight;
