//! What is asked of a role.

use super::acl::{ObjectId, ObjectKind, Privilege, Privileges};
use crate::error::SqlError;

/// What a statement needs to be allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demand {
    pub object: ObjectId,
    pub kind: ObjectKind,
    /// Within its schema, for messages.
    pub name: String,
    pub of: Demanded,
}

/// What of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Demanded {
    /// To do what its owner may.
    Ownership,
    /// Any of these, on the whole.
    Any(Privileges),
    /// On the whole, or on each of these columns; on any column if there are none.
    Columns(Privilege, Vec<u32>),
}

/// The error for what a role may not do.
pub fn denied(kind: ObjectKind, name: &str) -> SqlError {
    SqlError::invalid(format!("permission denied for {} {name}", kind.name())).code("42501")
}
