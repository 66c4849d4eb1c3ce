//! Groups of rows and what is made of them.

pub mod gathered;
pub mod having;
pub mod objects;
pub mod twins;
