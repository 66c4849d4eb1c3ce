//! Roles: users and groups are the same.

use std::collections::BTreeMap;

use saki_base::TableId;
use serde::{Deserialize, Serialize};

use super::acl::{Acl, ObjectKind};
use super::ids::RoleId;

/// A role.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Role {
    pub id: RoleId,
    pub name: String,
    pub superuser: bool,
    /// Whether it has what the roles it is a member of may do, without SET ROLE.
    pub inherit: bool,
    pub create_role: bool,
    pub create_db: bool,
    pub login: bool,
    #[serde(default)]
    pub replication: bool,
    #[serde(default)]
    pub bypass_rls: bool,
    /// Connections at the same time; -1: any number.
    pub connection_limit: i32,
    /// Microseconds since 1970 from when on its password opens nothing; `None`: never.
    #[serde(default)]
    pub valid_until: Option<i64>,
    /// What verifies its password; nobody can log in with it.
    #[serde(default)]
    pub verifier: Option<String>,
    /// What it is a member of.
    #[serde(default)]
    pub member_of: Vec<Membership>,
    /// What is granted on objects that it makes from now on.
    #[serde(default)]
    pub defaults: Vec<DefaultAcl>,
    /// Parameters that its sessions begin with.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// That a role is a member of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Membership {
    pub role: RoleId,
    pub grantor: RoleId,
    /// Whether the member may grant it on.
    pub admin: bool,
}

/// What ALTER DEFAULT PRIVILEGES has said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DefaultAcl {
    pub kind: ObjectKind,
    /// The schema that it is about; `None`: all.
    pub schema: Option<TableId>,
    /// Of all schemas: in the place of the built-in one. Of one: in addition.
    pub acl: Acl,
}

impl Role {
    /// A role that may do nothing.
    pub fn new(id: RoleId, name: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            superuser: false,
            inherit: true,
            create_role: false,
            create_db: false,
            login: false,
            replication: false,
            bypass_rls: false,
            connection_limit: -1,
            valid_until: None,
            verifier: None,
            member_of: Vec::new(),
            defaults: Vec::new(),
            settings: BTreeMap::new(),
        }
    }

    /// The first one.
    pub fn owner() -> Self {
        Self {
            superuser: true,
            create_role: true,
            create_db: true,
            login: true,
            replication: true,
            bypass_rls: true,
            ..Self::new(RoleId::OWNER, "saki")
        }
    }
}
