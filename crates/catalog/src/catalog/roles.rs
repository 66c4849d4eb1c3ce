//! The roles of a catalog: those of every database, and those that were made; who is a member of which.

use std::sync::{Arc, LazyLock};

use super::Catalog;
use super::privileges::{FIRST_OID, Membership, OIDS_PER_ID, Role, RoleId};
use crate::error::{Result, SqlError};

/// The roles of every database.
static BUILT_IN: LazyLock<Vec<Arc<Role>>> = LazyLock::new(|| {
    let member = |role| Membership { role, grantor: RoleId::OWNER, admin: false };
    let of_monitor = [RoleId::READ_ALL_SETTINGS, RoleId::READ_ALL_STATS, RoleId::STAT_SCAN_TABLES].map(member);
    let names = [
        (RoleId::MONITOR, "pg_monitor"),
        (RoleId::READ_ALL_SETTINGS, "pg_read_all_settings"),
        (RoleId::READ_ALL_STATS, "pg_read_all_stats"),
        (RoleId::STAT_SCAN_TABLES, "pg_stat_scan_tables"),
        (RoleId::SIGNAL_BACKEND, "pg_signal_backend"),
        (RoleId::CHECKPOINT, "pg_checkpoint"),
        (RoleId::READ_SERVER_FILES, "pg_read_server_files"),
        (RoleId::WRITE_SERVER_FILES, "pg_write_server_files"),
        (RoleId::EXECUTE_SERVER_PROGRAM, "pg_execute_server_program"),
        (RoleId::DATABASE_OWNER, "pg_database_owner"),
        (RoleId::READ_ALL_DATA, "pg_read_all_data"),
        (RoleId::WRITE_ALL_DATA, "pg_write_all_data"),
    ];
    let predefined = names.into_iter().map(|(id, name)| {
        let member_of = if id == RoleId::MONITOR { of_monitor.to_vec() } else { Vec::new() };
        Arc::new(Role { member_of, ..Role::new(id, name) })
    });
    std::iter::once(Arc::new(Role::owner())).chain(predefined).collect()
});

impl Catalog {
    /// All roles, those of every database among them, by their ids.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<Role>> {
        let built_in = BUILT_IN.iter().filter(|role| !self.roles.contains_key(&role.id));
        built_in.chain(self.roles.values())
    }

    pub fn role(&self, id: RoleId) -> Option<&Arc<Role>> {
        self.roles.get(&id).or_else(|| BUILT_IN.iter().find(|role| role.id == id))
    }

    pub fn role_named(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles().find(|role| role.name == name)
    }

    /// The role of a name.
    ///
    /// # Errors
    /// 42704 if there is none.
    pub fn expect_role(&self, name: &str) -> Result<&Arc<Role>> {
        self.role_named(name).ok_or_else(|| SqlError::invalid(format!("role {name:?} does not exist")).code("42704"))
    }

    /// What a role is called; of one that is gone, its number.
    pub fn role_name(&self, id: RoleId) -> String {
        self.role(id).map_or_else(|| id.0.to_string(), |role| role.name.clone())
    }

    pub fn put_role(&mut self, role: Role) {
        self.roles.insert(role.id, Arc::new(role));
    }

    pub fn remove_role(&mut self, id: RoleId) -> Option<Arc<Role>> {
        self.roles.remove(&id)
    }

    pub fn new_role_id(&self) -> RoleId {
        RoleId(FIRST_OID + OIDS_PER_ID * self.new_table_id().0)
    }

    pub fn is_superuser(&self, role: RoleId) -> bool {
        role == RoleId::OWNER || self.role(role).is_some_and(|role| role.superuser)
    }

    /// Whether a role has, without SET ROLE, what another may do: it is that one, or inherits it.
    pub fn inherits(&self, role: RoleId, other: RoleId) -> bool {
        role == other || self.is_superuser(role) || self.roles_of(role, true).contains(&other)
    }

    /// Whether a role may become another: it is a member of it, directly or not.
    pub fn is_member(&self, role: RoleId, other: RoleId) -> bool {
        role == other || self.is_superuser(role) || self.roles_of(role, false).contains(&other)
    }

    /// Whether a role may grant membership in another.
    pub fn is_admin(&self, role: RoleId, of: RoleId) -> bool {
        let admits = |id: RoleId| {
            self.role(id).is_some_and(|role| role.member_of.iter().any(|member| member.role == of && member.admin))
        };
        self.is_superuser(role) || self.roles_of(role, false).into_iter().any(admits)
    }

    /// The role and all that it is a member of; with `inherited` only those whose rights it has by itself.
    pub fn roles_of(&self, role: RoleId, inherited: bool) -> Vec<RoleId> {
        let mut found = vec![role];
        let mut next = 0;
        while let Some(id) = found.get(next).copied() {
            next += 1;
            let Some(role) = self.role(id) else { continue };
            if inherited && !role.inherit {
                continue;
            }
            let implied = (id == self.database_owner()).then_some(RoleId::DATABASE_OWNER);
            for other in role.member_of.iter().map(|member| member.role).chain(implied) {
                if !found.contains(&other) {
                    found.push(other);
                }
            }
        }
        found
    }

    /// Whether somebody has a password: then nobody comes in without one.
    pub fn has_passwords(&self) -> bool {
        self.roles.values().any(|role| role.login && role.verifier.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(role: RoleId) -> Membership {
        Membership { role, grantor: RoleId::OWNER, admin: false }
    }

    #[test]
    fn membership_is_transitive_and_inherited_unless_a_role_says_no() {
        let mut catalog = Catalog::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| Role::new(catalog.new_role_id(), name));
        let (ids, b) = ([a.id, b.id, c.id], Role { member_of: vec![member(a.id)], inherit: false, ..b });
        let c = Role { member_of: vec![member(b.id)], ..c };
        [a, b, c].into_iter().for_each(|role| catalog.put_role(role));
        assert!(catalog.is_member(ids[2], ids[0]) && !catalog.inherits(ids[2], ids[0]));
        assert!(catalog.inherits(ids[2], ids[1]) && !catalog.is_member(ids[0], ids[2]));
        assert!(catalog.is_member(RoleId::OWNER, ids[0]) && catalog.inherits(RoleId::OWNER, ids[2]));
        assert!(catalog.inherits(RoleId::MONITOR, RoleId::READ_ALL_STATS));
        assert!(!catalog.has_passwords());
    }

    #[test]
    fn every_database_has_its_first_role_and_the_predefined_ones() {
        let mut catalog = Catalog::default();
        assert_eq!(catalog.expect_role("saki").unwrap().id, RoleId::OWNER);
        assert_eq!(catalog.expect_role("nobody").unwrap_err().sqlstate(), "42704");
        let owner = Role { name: "root".into(), ..Role::clone(catalog.role(RoleId::OWNER).unwrap()) };
        catalog.put_role(owner);
        assert!(catalog.role_named("saki").is_none() && catalog.role_named("root").is_some());
        assert_eq!(catalog.roles().count(), 13);
    }
}
