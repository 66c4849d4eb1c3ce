//! Who there is, and who may do what: roles, owners, and lists of what was granted.
//!
//! Roles are documents, and so is what is said of each object that somebody but the first role owns, or of which
//! something was granted or revoked. What has no such document belongs to the first role, as everything did before
//! there were others.

mod acl;
mod demand;
mod ids;
mod role;

pub use acl::{Access, Acl, AclItem, Dependents, ObjectId, ObjectKind, Privilege, Privileges};
pub use demand::{Demand, Demanded, denied};
pub use ids::{FIRST_OID, OIDS_PER_ID, RoleId};
pub use role::{DefaultAcl, Membership, Role};
