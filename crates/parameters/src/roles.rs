//! Whom a session acts for: who has logged in, and what SET SESSION AUTHORIZATION and SET ROLE have made of that.

use std::sync::Arc;

use saki_catalog::{Catalog, Result, Role, RoleId, SqlError};

/// What SET ROLE sets.
pub const ROLE: &str = "role";
/// What SET SESSION AUTHORIZATION sets.
pub const SESSION: &str = "session_authorization";
/// Whether the role in force is a superuser.
const SUPERUSER: &str = "is_superuser";

/// Whether a parameter is a role that the session takes.
pub fn is_taken(name: &str) -> bool {
    name == ROLE || name == SESSION
}

/// Whom a session acts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionRoles {
    /// Who has logged in.
    pub authenticated: RoleId,
    /// `session_user`: that one, unless SET SESSION AUTHORIZATION says otherwise.
    pub session: RoleId,
    /// `current_user`: that one, unless SET ROLE says otherwise.
    pub current: RoleId,
}

/// A role as it was when the session took it.
#[derive(Clone, Debug)]
struct Taken {
    id: RoleId,
    name: Arc<str>,
    is_superuser: bool,
}

impl Taken {
    fn of(role: &Role) -> Self {
        Self { id: role.id, name: role.name.as_str().into(), is_superuser: role.superuser }
    }
}

/// What a session has said about roles.
#[derive(Clone, Debug)]
pub struct Acting {
    authenticated: Taken,
    /// The role that the session begins with, and RESET ROLE goes back to; `None`: the session's.
    initial: Option<Taken>,
    session: Taken,
    role: Option<Taken>,
    /// Until the transaction ends.
    local_session: Option<Taken>,
    local_role: Option<Option<Taken>>,
}

impl Default for Acting {
    fn default() -> Self {
        Self::of(&Role::owner())
    }
}

impl Acting {
    /// Of a session that a role has begun.
    pub fn of(role: &Role) -> Self {
        let taken = Taken::of(role);
        let (authenticated, session) = (taken.clone(), taken);
        Self { authenticated, initial: None, session, role: None, local_session: None, local_role: None }
    }

    fn session(&self) -> &Taken {
        self.local_session.as_ref().unwrap_or(&self.session)
    }

    fn role(&self) -> Option<&Taken> {
        self.local_role.as_ref().unwrap_or(&self.role).as_ref()
    }

    fn current(&self) -> &Taken {
        self.role().unwrap_or_else(|| self.session())
    }

    pub fn roles(&self) -> SessionRoles {
        let (authenticated, session) = (self.authenticated.id, self.session().id);
        SessionRoles { authenticated, session, current: self.current().id }
    }

    /// The value of a parameter that tells of roles.
    pub fn value(&self, name: &str) -> Option<&str> {
        match name {
            ROLE => Some(self.role().map_or("none", |role| &role.name)),
            SESSION => Some(&self.session().name),
            SUPERUSER => Some(if self.current().is_superuser { "on" } else { "off" }),
            _ => None,
        }
    }

    /// Takes another role; `None` is what the session began with. `local`: until the transaction ends.
    ///
    /// # Errors
    /// 22023 if there is none of the name, 42501 if the session may not take it.
    pub fn take(&mut self, catalog: &Catalog, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        if name == SESSION {
            let taken = match value {
                None => self.authenticated.clone(),
                Some(value) => self.session_named(catalog, value)?,
            };
            match local {
                true => (self.local_session, self.local_role) = (Some(taken), Some(None)),
                false => {
                    (self.session, self.role) = (taken, None);
                    (self.local_session, self.local_role) = (None, None);
                }
            }
            return Ok(());
        }
        let taken = match value {
            None => self.initial.clone(),
            Some("none") => None,
            Some(value) => Some(self.role_named(catalog, value)?),
        };
        match local {
            true => self.local_role = Some(taken),
            false => (self.role, self.local_role) = (taken, None),
        }
        Ok(())
    }

    /// The session begins as it is now.
    pub fn begin(&mut self) {
        self.initial.clone_from(&self.role);
    }

    fn session_named(&self, catalog: &Catalog, name: &str) -> Result<Taken> {
        let role = named(catalog, name)?;
        let own = self.authenticated.id;
        match role.id == own || catalog.is_superuser(own) {
            true => Ok(Taken::of(role)),
            false => Err(SqlError::invalid("permission denied to set session authorization").code("42501")),
        }
    }

    fn role_named(&self, catalog: &Catalog, name: &str) -> Result<Taken> {
        let role = named(catalog, name)?;
        match catalog.is_member(self.session().id, role.id) {
            true => Ok(Taken::of(role)),
            false => Err(SqlError::invalid(format!("permission denied to set role {name:?}")).code("42501")),
        }
    }

    pub fn has_local(&self) -> bool {
        self.local_session.is_some() || self.local_role.is_some()
    }

    /// The transaction has ended.
    pub fn end_local(&mut self) {
        (self.local_session, self.local_role) = (None, None);
    }
}

fn named<'c>(catalog: &'c Catalog, name: &str) -> Result<&'c Arc<Role>> {
    catalog.expect_role(name).map_err(|error| error.code("22023"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saki_catalog::Membership;

    #[test]
    fn roles_are_taken_by_those_who_may_and_given_back() {
        let mut catalog = Catalog::default();
        let [ada, group] = ["ada", "group"].map(|name| Role::new(catalog.new_role_id(), name));
        let member_of = vec![Membership { role: group.id, grantor: RoleId::OWNER, admin: false }];
        let ada = Role { member_of, ..ada };
        [&ada, &group].into_iter().for_each(|role| catalog.put_role(role.clone()));
        let mut acting = Acting::of(&ada);
        let code = |result: Result<()>| result.map_err(|error| error.sqlstate().to_owned());
        assert_eq!(code(acting.take(&catalog, ROLE, Some("nobody"), false)), Err("22023".to_owned()));
        assert_eq!(code(acting.take(&catalog, ROLE, Some("saki"), false)), Err("42501".to_owned()));
        assert_eq!(code(acting.take(&catalog, SESSION, Some("group"), false)), Err("42501".to_owned()));
        acting.take(&catalog, ROLE, Some("group"), true).unwrap();
        assert!(acting.has_local() && acting.roles().current == group.id && acting.roles().session == ada.id);
        acting.end_local();
        assert_eq!((acting.value(ROLE), acting.value(SESSION)), (Some("none"), Some("ada")));
        acting.take(&catalog, ROLE, Some("group"), false).unwrap();
        acting.begin();
        acting.take(&catalog, ROLE, Some("none"), false).unwrap();
        assert_eq!(acting.roles().current, ada.id);
        acting.take(&catalog, ROLE, None, false).unwrap();
        assert_eq!((acting.roles().current, acting.value(SUPERUSER)), (group.id, Some("off")));
        let mut owner = Acting::default();
        owner.take(&catalog, SESSION, Some("ada"), false).unwrap();
        owner.take(&catalog, ROLE, Some("group"), false).unwrap();
        let roles = SessionRoles { authenticated: RoleId::OWNER, session: ada.id, current: group.id };
        assert_eq!(owner.roles(), roles);
        owner.take(&catalog, SESSION, None, false).unwrap();
        assert_eq!((owner.roles().current, owner.value(SUPERUSER)), (RoleId::OWNER, Some("on")));
    }
}
