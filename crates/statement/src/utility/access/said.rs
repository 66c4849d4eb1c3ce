//! What statements about roles and privileges say.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::ParserError;

use saki_catalog::{ObjectKind, Privilege, Privileges};

/// What reading gives.
pub type Read<T> = std::result::Result<T, ParserError>;

/// What a statement about roles and privileges says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessStatement {
    CreateRole {
        name: String,
        options: RoleOptions,
        members: MoreMembers,
    },
    AlterRole {
        role: RoleSpec,
        options: RoleOptions,
    },
    /// ALTER GROUP … ADD or DROP USER.
    Members {
        group: RoleSpec,
        members: Vec<RoleSpec>,
        add: bool,
    },
    RenameRole {
        name: String,
        to: String,
    },
    /// ALTER ROLE … SET and RESET. `role` is `None` for ALL, `parameter` for RESET ALL, `value` for RESET and DEFAULT.
    RoleSetting {
        role: Option<RoleSpec>,
        parameter: Option<String>,
        value: Option<String>,
    },
    DropRoles {
        names: Vec<RoleSpec>,
        if_exists: bool,
    },
    /// GRANT, or REVOKE if `revoke`.
    Grant(Grant),
    /// ALTER DEFAULT PRIVILEGES; no `roles`: the current one's, no `schemas`: in all.
    Defaults {
        roles: Vec<RoleSpec>,
        schemas: Vec<String>,
        grant: Grant,
    },
    Owner {
        kind: ObjectKind,
        name: ObjectName,
        if_exists: bool,
        to: RoleSpec,
    },
    Reassign {
        from: Vec<RoleSpec>,
        to: RoleSpec,
    },
    DropOwned {
        roles: Vec<RoleSpec>,
        cascade: bool,
    },
    /// `None`: DEFAULT or RESET.
    SetRole {
        local: bool,
        role: Option<String>,
    },
    SetSession {
        local: bool,
        role: Option<String>,
    },
}

/// Who is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleSpec {
    Named(String),
    CurrentUser,
    SessionUser,
    Public,
}

/// What was said of a role; `None`: nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoleOptions {
    pub superuser: Option<bool>,
    pub create_db: Option<bool>,
    pub create_role: Option<bool>,
    pub inherit: Option<bool>,
    pub login: Option<bool>,
    pub replication: Option<bool>,
    pub bypass_rls: Option<bool>,
    pub connection_limit: Option<i32>,
    /// A password or verifier; `Some(None)` for NULL.
    pub password: Option<Option<String>>,
    /// A time as it was written.
    pub valid_until: Option<String>,
}

/// Memberships that CREATE ROLE says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MoreMembers {
    pub member_of: Vec<RoleSpec>,
    pub members: Vec<RoleSpec>,
    pub admins: Vec<RoleSpec>,
}

/// A GRANT or REVOKE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    pub revoke: bool,
    pub granted: Granted,
    pub grantees: Vec<RoleSpec>,
    /// WITH GRANT OPTION or WITH ADMIN OPTION; of REVOKE, that alone.
    pub option: bool,
    pub granted_by: Option<RoleSpec>,
    pub cascade: bool,
}

/// What is granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Granted {
    Roles(Vec<RoleSpec>),
    /// `None`: ALL.
    On {
        privileges: Option<Vec<(Privilege, Vec<String>)>>,
        columns_of_all: Vec<String>,
        objects: Objects,
    },
    /// On what is made from now on.
    Future {
        privileges: Option<Privileges>,
        /// `None`: functions and types, which cannot be made.
        kind: Option<ObjectKind>,
    },
}

/// What it is granted on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Objects {
    /// `Table` may be a view or sequence too.
    Named(ObjectKind, Vec<ObjectName>),
    /// `Table` or `Sequence`; `None`: functions and the like, of which schemas have none.
    AllIn(Option<ObjectKind>, Vec<String>),
    /// What has no privileges here, in words.
    Other(&'static str),
}
