//! Who depends on what: relations on each other and on columns and types, and what goes with something that is dropped.

mod dropping;
mod relations;

pub use self::dropping::{Dropping, Subject, change, depended_on, keys_lost};
pub use self::relations::{
    columns_drawing, columns_of_type, sequences_drawn, tables_referred_to, views_of, views_of_type, views_using,
};
