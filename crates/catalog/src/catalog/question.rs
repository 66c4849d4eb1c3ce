//! Whether a role may do something.

use super::Catalog;
use super::privileges::{Access, Demand, Demanded, ObjectId, ObjectKind, Privilege, Privileges, RoleId, denied};
use crate::error::{Result, SqlError};

impl Catalog {
    /// What a role may do with an object as a whole.
    pub fn privileges_on(&self, role: RoleId, object: ObjectId, kind: ObjectKind) -> Privileges {
        if self.is_superuser(role) {
            return kind.privileges();
        }
        let roles = self.roles_of(role, true);
        self.access(object).acl(kind).held_by(&roles) | predefined(&roles, kind)
    }

    /// What a role may do with one column.
    pub fn privileges_on_column(&self, role: RoleId, object: ObjectId, column: u32) -> Privileges {
        if self.is_superuser(role) {
            return ObjectKind::Column.privileges();
        }
        let whole = self.privileges_on(role, object, ObjectKind::Table);
        let own = self.stored_access(object).and_then(|access| access.columns.get(&column));
        whole | own.map_or(Privileges::NONE, |acl| acl.held_by(&self.roles_of(role, true)))
    }

    /// Whether a role may do what the owner of an object may.
    pub fn owns(&self, role: RoleId, object: ObjectId) -> bool {
        role == RoleId::OWNER || self.inherits(role, self.owner(object))
    }

    /// Who grants, and what of it that one may: the owner if the role acts for it, else whichever of its roles may
    /// most.
    pub fn grantor(
        &self,
        role: RoleId,
        access: &Access,
        (kind, column): (ObjectKind, Option<u32>),
        wanted: Privileges,
    ) -> (RoleId, Privileges) {
        if self.inherits(role, access.owner) {
            return (access.owner, wanted);
        }
        let whole = access.acl(kind);
        let of_column = column.and_then(|column| access.columns.get(&column));
        let may = |other: RoleId| {
            let own = of_column.map_or(Privileges::NONE, |acl| acl.grantable_by(&[other]));
            (whole.grantable_by(&[other]) | own) & wanted
        };
        let roles = self.roles_of(role, true);
        let best = roles.into_iter().map(|other| (other, may(other)));
        best.max_by_key(|(other, may)| (may.iter().count(), *other == role)).unwrap_or((role, Privileges::NONE))
    }

    /// Whether a role may.
    pub fn allows(&self, role: RoleId, demand: &Demand) -> bool {
        if self.is_superuser(role) {
            return true;
        }
        match &demand.of {
            Demanded::Ownership => self.owns(role, demand.object),
            Demanded::Any(any) => {
                let held = self.privileges_on(role, demand.object, demand.kind);
                any.is_empty() || !(held & *any).is_empty()
            }
            Demanded::Columns(privilege, columns) => {
                if self.privileges_on(role, demand.object, demand.kind).contains(*privilege) {
                    return true;
                }
                let has = |column: u32| self.privileges_on_column(role, demand.object, column).contains(*privilege);
                match (&columns[..], self.stored_access(demand.object)) {
                    (_, None) => false,
                    ([], Some(access)) => access.columns.keys().any(|column| has(*column)),
                    (columns, Some(_)) => columns.iter().all(|column| has(*column)),
                }
            }
        }
    }

    /// Refuses what a role may not.
    ///
    /// # Errors
    /// 42501, in PostgreSQL's words.
    pub fn demand(&self, role: RoleId, demand: &Demand) -> Result<()> {
        if self.allows(role, demand) {
            return Ok(());
        }
        Err(match demand.of {
            Demanded::Ownership => {
                SqlError::invalid(format!("must be owner of {} {}", demand.kind.name(), demand.name)).code("42501")
            }
            _ => denied(demand.kind, &demand.name),
        })
    }
}

/// What predefined roles may do everywhere.
fn predefined(roles: &[RoleId], kind: ObjectKind) -> Privileges {
    use Privilege as P;
    let (reads, writes) = (roles.contains(&RoleId::READ_ALL_DATA), roles.contains(&RoleId::WRITE_ALL_DATA));
    let mut all = Privileges::NONE;
    match kind {
        ObjectKind::Table | ObjectKind::View => {
            if reads {
                all = all | P::Select.into();
            }
            if writes {
                all = all | Privileges::from_iter([P::Insert, P::Update, P::Delete]);
            }
        }
        ObjectKind::Sequence => {
            if reads {
                all = all | P::Select.into();
            }
            if writes {
                all = all | P::Update.into();
            }
        }
        ObjectKind::Schema if reads || writes => all = all | P::Usage.into(),
        _ => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Acl, Membership, Role};

    fn demand(of: Demanded) -> Demand {
        Demand { object: ObjectId(7), kind: ObjectKind::Table, name: "t".into(), of }
    }

    #[test]
    fn columns_are_allowed_one_by_one() {
        let mut catalog = Catalog::default();
        let role = Role::new(catalog.new_role_id(), "ada");
        let id = role.id;
        catalog.put_role(role);
        let select = |columns: &[u32]| demand(Demanded::Columns(Privilege::Select, columns.to_vec()));
        assert_eq!(catalog.demand(id, &select(&[])).unwrap_err().message, "permission denied for table t");
        let mut access = Access::new(ObjectId(7), RoleId::OWNER);
        let mut acl = Acl::default();
        acl.grant(RoleId::OWNER, id, Privilege::Select.into(), false);
        access.columns.insert(3, acl);
        catalog.put_access(access);
        assert!(catalog.allows(id, &select(&[3])) && catalog.allows(id, &select(&[])));
        assert!(!catalog.allows(id, &select(&[3, 4])));
        assert!(catalog.allows(RoleId::OWNER, &select(&[4])));
        let own = catalog.demand(id, &demand(Demanded::Ownership)).unwrap_err();
        assert_eq!((own.sqlstate(), &*own.message), ("42501", "must be owner of table t"));
    }

    #[test]
    fn predefined_roles_reach_everything_of_their_kind() {
        let mut catalog = Catalog::default();
        let id = catalog.new_role_id();
        let member_of = vec![Membership { role: RoleId::READ_ALL_DATA, grantor: RoleId::OWNER, admin: false }];
        catalog.put_role(Role { member_of, ..Role::new(id, "reader") });
        assert!(catalog.allows(id, &demand(Demanded::Any(Privilege::Select.into()))));
        assert!(!catalog.allows(id, &demand(Demanded::Any(Privilege::Insert.into()))));
    }
}
