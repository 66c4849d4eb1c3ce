//! What was granted on an object, by whom and to whom.

use std::collections::BTreeMap;
use std::ops::{BitAnd, BitOr, Not};

use saki_base::TableId;
use serde::{Deserialize, Serialize};

use super::ids::RoleId;
use crate::error::{Result, SqlError};

/// One right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u16)]
pub enum Privilege {
    Insert = 1,
    Select = 1 << 1,
    Update = 1 << 2,
    Delete = 1 << 3,
    Truncate = 1 << 4,
    References = 1 << 5,
    Trigger = 1 << 6,
    Usage = 1 << 8,
    Create = 1 << 9,
    Temporary = 1 << 10,
    Connect = 1 << 11,
}

impl Privilege {
    pub const ALL: [Self; 11] = [
        Self::Insert,
        Self::Select,
        Self::Update,
        Self::Delete,
        Self::Truncate,
        Self::References,
        Self::Trigger,
        Self::Usage,
        Self::Create,
        Self::Temporary,
        Self::Connect,
    ];

    /// As statements spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Select => "SELECT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Truncate => "TRUNCATE",
            Self::References => "REFERENCES",
            Self::Trigger => "TRIGGER",
            Self::Usage => "USAGE",
            Self::Create => "CREATE",
            Self::Temporary => "TEMPORARY",
            Self::Connect => "CONNECT",
        }
    }

    /// As PostgreSQL writes it in lists.
    pub fn letter(self) -> char {
        match self {
            Self::Insert => 'a',
            Self::Select => 'r',
            Self::Update => 'w',
            Self::Delete => 'd',
            Self::Truncate => 'D',
            Self::References => 'x',
            Self::Trigger => 't',
            Self::Usage => 'U',
            Self::Create => 'C',
            Self::Temporary => 'T',
            Self::Connect => 'c',
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|privilege| privilege.name().eq_ignore_ascii_case(name));
        found.or_else(|| name.eq_ignore_ascii_case("temp").then_some(Self::Temporary))
    }
}

/// A set of rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Privileges(u16);

impl Privileges {
    pub const NONE: Self = Self(0);

    pub fn contains(self, privilege: Privilege) -> bool {
        self.0 & privilege as u16 != 0
    }

    pub fn covers(self, other: Self) -> bool {
        other & !self == Self::NONE
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.into_iter().filter(move |privilege| self.contains(*privilege))
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<I: IntoIterator<Item = Privilege>>(iter: I) -> Self {
        Self(iter.into_iter().fold(0, |bits, privilege| bits | privilege as u16))
    }
}

impl From<Privilege> for Privileges {
    fn from(privilege: Privilege) -> Self {
        Self(privilege as u16)
    }
}

impl BitOr for Privileges {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Privileges {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Privileges {
    type Output = Self;

    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// What something is granted on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum ObjectKind {
    /// Views too.
    Table,
    Sequence,
    Schema,
    Database,
    Column,
    /// Of a table: in messages only.
    View,
    Type,
}

impl ObjectKind {
    /// All that can be granted.
    pub fn privileges(self) -> Privileges {
        use Privilege as P;
        match self {
            Self::Table | Self::View => Privileges::from_iter([
                P::Insert,
                P::Select,
                P::Update,
                P::Delete,
                P::Truncate,
                P::References,
                P::Trigger,
            ]),
            Self::Sequence => Privileges::from_iter([P::Usage, P::Select, P::Update]),
            Self::Schema => Privileges::from_iter([P::Usage, P::Create]),
            Self::Database => Privileges::from_iter([P::Create, P::Temporary, P::Connect]),
            Self::Column => Privileges::from_iter([P::Insert, P::Select, P::Update, P::References]),
            Self::Type => P::Usage.into(),
        }
    }

    /// In the words of an error.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Sequence => "sequence",
            Self::Schema => "schema",
            Self::Database => "database",
            Self::Column => "column",
            Self::View => "view",
            Self::Type => "type",
        }
    }
}

/// An object by the number that it keeps: that of a table, view, sequence, type or schema, or one of the two below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// The schema `public`.
    pub const PUBLIC_SCHEMA: Self = Self(0);
    pub const DATABASE: Self = Self(u32::MAX);
}

impl From<TableId> for ObjectId {
    fn from(id: TableId) -> Self {
        Self(id.0)
    }
}

/// What one role has granted another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AclItem {
    pub grantee: RoleId,
    pub grantor: RoleId,
    pub privileges: Privileges,
    /// Those of them that the grantee may grant on.
    pub grantable: Privileges,
}

/// All that was granted on an object.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Acl(pub Vec<AclItem>);

/// What becomes of what others were granted by whoever loses the right to grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dependents {
    Refuse,
    Revoke,
}

impl Acl {
    /// What holds for an object of which nothing was said.
    pub fn of_new(kind: ObjectKind, owner: RoleId) -> Self {
        let (privileges, grantable) = (kind.privileges(), Privileges::NONE);
        let item = |grantee, privileges| AclItem { grantee, grantor: owner, privileges, grantable };
        match kind {
            ObjectKind::Column => Self::default(),
            ObjectKind::Database => {
                let everybody = Privileges::from_iter([Privilege::Temporary, Privilege::Connect]);
                Self(vec![item(RoleId::PUBLIC, everybody), item(owner, privileges)])
            }
            ObjectKind::Type => Self(vec![item(RoleId::PUBLIC, privileges), item(owner, privileges)]),
            _ => Self(vec![item(owner, privileges)]),
        }
    }

    fn of_public_schema() -> Self {
        let owner = RoleId::DATABASE_OWNER;
        let mut acl = Self::of_new(ObjectKind::Schema, owner);
        acl.grant(owner, RoleId::PUBLIC, Privilege::Usage.into(), false);
        acl
    }

    /// What any of these roles has, PUBLIC among them.
    pub fn held_by(&self, roles: &[RoleId]) -> Privileges {
        let is_meant = |item: &&AclItem| item.grantee == RoleId::PUBLIC || roles.contains(&item.grantee);
        self.0.iter().filter(is_meant).fold(Privileges::NONE, |all, item| all | item.privileges)
    }

    /// What any of these roles may grant on.
    pub fn grantable_by(&self, roles: &[RoleId]) -> Privileges {
        let items = self.0.iter().filter(|item| roles.contains(&item.grantee));
        items.fold(Privileges::NONE, |all, item| all | item.grantable)
    }

    pub fn grant(&mut self, grantor: RoleId, grantee: RoleId, privileges: Privileges, with_option: bool) {
        let grantable = if with_option { privileges } else { Privileges::NONE };
        match self.0.iter_mut().find(|item| item.grantee == grantee && item.grantor == grantor) {
            Some(item) => {
                item.privileges = item.privileges | privileges;
                item.grantable = item.grantable | grantable;
            }
            None => self.0.push(AclItem { grantee, grantor, privileges, grantable }),
        }
    }

    /// Takes back what `grantor` has granted; `option_only`: the right to grant it on.
    ///
    /// # Errors
    /// 2BP01 if the grantee has granted it on, and that is not to be revoked too.
    pub fn revoke(
        &mut self,
        (grantor, owner): (RoleId, RoleId),
        grantee: RoleId,
        privileges: Privileges,
        option_only: bool,
        dependents: Dependents,
    ) -> Result<()> {
        let found = self.0.iter_mut().find(|item| item.grantee == grantee && item.grantor == grantor);
        let Some(item) = found else { return Ok(()) };
        let lost = item.grantable & privileges;
        item.grantable = item.grantable & !privileges;
        if !option_only {
            item.privileges = item.privileges & !privileges;
        }
        self.0.retain(|item| !item.privileges.is_empty());
        // The owner may always grant.
        let lost = if grantee == owner { Privileges::NONE } else { lost & !self.grantable_by(&[grantee]) };
        let rest: Vec<(RoleId, Privileges)> = self
            .0
            .iter()
            .filter(|item| item.grantor == grantee)
            .map(|item| (item.grantee, item.privileges & lost))
            .filter(|(_, lost)| !lost.is_empty())
            .collect();
        if !rest.is_empty() && dependents == Dependents::Refuse {
            return Err(SqlError::invalid("dependent privileges exist")
                .code("2BP01")
                .hint("Use CASCADE to revoke them too."));
        }
        rest.into_iter().try_for_each(|(other, lost)| self.revoke((grantee, owner), other, lost, false, dependents))
    }

    /// Another role owns the object: what the old owner had and granted is the new one's.
    pub fn change_owner(&mut self, from: RoleId, to: RoleId) {
        let renamed = |role: RoleId| if role == from { to } else { role };
        for item in std::mem::take(&mut self.0) {
            let (grantor, grantee) = (renamed(item.grantor), renamed(item.grantee));
            self.grant(grantor, grantee, item.privileges, false);
            let options = self.0.iter_mut().find(|other| other.grantee == grantee && other.grantor == grantor);
            options.into_iter().for_each(|other| other.grantable = other.grantable | item.grantable);
        }
    }

    /// Forgets a role altogether.
    pub fn forget(&mut self, role: RoleId) {
        self.0.retain(|item| item.grantee != role && item.grantor != role);
    }

    pub fn names(&self, role: RoleId) -> bool {
        self.0.iter().any(|item| item.grantee == role || item.grantor == role)
    }
}

/// Who owns an object, and what was granted on it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Access {
    pub object: ObjectId,
    pub owner: RoleId,
    /// `None`: as of a new one.
    #[serde(default)]
    pub acl: Option<Acl>,
    /// What was granted on single columns, by their ids.
    #[serde(default)]
    pub columns: BTreeMap<u32, Acl>,
}

impl Access {
    pub fn new(object: ObjectId, owner: RoleId) -> Self {
        Self { object, owner, acl: None, columns: BTreeMap::new() }
    }

    /// What was granted on the whole.
    pub fn acl(&self, kind: ObjectKind) -> Acl {
        match &self.acl {
            Some(acl) => acl.clone(),
            None if self.object == ObjectId::PUBLIC_SCHEMA => Acl::of_public_schema(),
            None => Acl::of_new(kind, self.owner),
        }
    }

    /// Everything that names the role as another's, or as the giver or taker of something.
    pub fn names(&self, role: RoleId) -> bool {
        self.acl.iter().chain(self.columns.values()).any(|acl| acl.names(role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: RoleId = RoleId(1);
    const B: RoleId = RoleId(2);
    const C: RoleId = RoleId(3);

    fn select() -> Privileges {
        Privilege::Select.into()
    }

    #[test]
    fn what_was_granted_on_goes_with_the_right_to_grant_it() {
        let mut acl = Acl::of_new(ObjectKind::Table, A);
        acl.grant(A, B, select(), true);
        acl.grant(B, C, select(), false);
        assert!(acl.held_by(&[C]).contains(Privilege::Select) && acl.grantable_by(&[B]) == select());
        let before = acl.clone();
        let refused = acl.revoke((A, A), B, select(), true, Dependents::Refuse).unwrap_err();
        assert_eq!(refused.sqlstate(), "2BP01");
        acl = before;
        acl.revoke((A, A), B, select(), false, Dependents::Revoke).unwrap();
        assert!(acl.held_by(&[B]).is_empty() && acl.held_by(&[C]).is_empty());
        assert_eq!(acl.held_by(&[A]), ObjectKind::Table.privileges());
    }

    #[test]
    fn a_new_owner_has_what_the_old_one_had() {
        let mut acl = Acl::of_new(ObjectKind::Sequence, A);
        acl.grant(A, C, Privilege::Usage.into(), false);
        acl.change_owner(A, B);
        assert_eq!(acl.held_by(&[B]), ObjectKind::Sequence.privileges());
        assert_eq!(acl.0[1].grantor, B);
        assert!(acl.held_by(&[A]).is_empty());
        acl.forget(C);
        assert_eq!(acl.0.len(), 1);
    }
}
