//! Who a client is: users with their passwords, and how a client proves to know one.

pub mod scram;
pub mod users;
