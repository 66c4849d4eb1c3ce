//! CREATE, ALTER and DROP ROLE, and membership.

use saki_base::{DataType, Value};

use super::verifier::Verifier;
use saki_catalog::{Catalog, Membership, Result, Role, RoleId, SqlError};
use saki_postgres::statement::{Grant, MoreMembers, RoleOptions, RoleSpec};

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actor {
    pub current: RoleId,
    pub session: RoleId,
}

pub fn refused(message: impl Into<String>) -> SqlError {
    SqlError::invalid(message).code("42501")
}

/// The role that is meant; PUBLIC is one only where something is granted.
pub fn role_of(catalog: &Catalog, who: Actor, spec: &RoleSpec) -> Result<RoleId> {
    match spec {
        RoleSpec::Named(name) => Ok(catalog.expect_role(name)?.id),
        RoleSpec::CurrentUser => Ok(who.current),
        RoleSpec::SessionUser => Ok(who.session),
        RoleSpec::Public => Err(SqlError::invalid("role \"public\" does not exist").code("42704")),
    }
}

/// Whether a role may make and change others that are not superusers.
pub fn creates_roles(catalog: &Catalog, role: RoleId) -> bool {
    catalog.is_superuser(role) || catalog.role(role).is_some_and(|role| role.create_role)
}

fn refuse_reserved(name: &str) -> Result<()> {
    let reserved = |detail: Option<&str>| {
        let error = SqlError::invalid(format!("role name {name:?} is reserved")).code("42939");
        Err(detail.map_or_else(|| error.clone(), |detail| error.clone().detail(detail)))
    };
    match name {
        "public" | "none" => reserved(None),
        "" => Err(SqlError::invalid("zero-length delimited identifier").code("42601")),
        _ if name.starts_with("pg_") => reserved(Some("Role names starting with \"pg_\" are reserved.")),
        _ => Ok(()),
    }
}

fn refuse_taken(catalog: &Catalog, name: &str) -> Result<()> {
    match catalog.role_named(name) {
        None => Ok(()),
        Some(_) => Err(SqlError::invalid(format!("role {name:?} already exists")).code("42710")),
    }
}

pub fn create(
    catalog: &mut Catalog,
    who: Actor,
    name: &str,
    options: &RoleOptions,
    members: &MoreMembers,
) -> Result<()> {
    refuse_beyond(catalog, who, options, "create superusers")?;
    if !creates_roles(catalog, who.current) {
        return Err(refused("permission denied to create role"));
    }
    refuse_reserved(name)?;
    refuse_taken(catalog, name)?;
    let mut role = Role::new(catalog.new_role_id(), name);
    apply(&mut role, options)?;
    let id = role.id;
    catalog.put_role(role);
    for group in &members.member_of {
        let group = role_of(catalog, who, group)?;
        add_member(catalog, who, (group, id), false)?;
    }
    for (specs, admin) in [(&members.members, false), (&members.admins, true)] {
        for member in specs {
            let member = role_of(catalog, who, member)?;
            add_member(catalog, who, (id, member), admin)?;
        }
    }
    Ok(())
}

/// What only a superuser may say.
fn refuse_beyond(catalog: &Catalog, who: Actor, options: &RoleOptions, what: &str) -> Result<()> {
    let is_super = catalog.is_superuser(who.current);
    match options {
        _ if is_super => Ok(()),
        RoleOptions { superuser: Some(_), .. } => Err(refused(format!("must be superuser to {what}"))),
        RoleOptions { replication: Some(_), .. } => Err(refused("must be superuser to create replication users")),
        RoleOptions { bypass_rls: Some(_), .. } => Err(refused("must be superuser to create bypassrls users")),
        _ => Ok(()),
    }
}

fn apply(role: &mut Role, options: &RoleOptions) -> Result<()> {
    for (field, said) in [
        (&mut role.superuser, options.superuser),
        (&mut role.create_db, options.create_db),
        (&mut role.create_role, options.create_role),
        (&mut role.inherit, options.inherit),
        (&mut role.login, options.login),
        (&mut role.replication, options.replication),
        (&mut role.bypass_rls, options.bypass_rls),
    ] {
        *field = said.unwrap_or(*field);
    }
    role.connection_limit = options.connection_limit.unwrap_or(role.connection_limit);
    if role.connection_limit < -1 {
        return Err(SqlError::invalid(format!("invalid connection limit: {}", role.connection_limit)).code("22023"));
    }
    if let Some(password) = &options.password {
        // An empty password is none, as in PostgreSQL.
        let password = password.as_ref().filter(|password| !password.is_empty());
        role.verifier = password.map(|password| Verifier::stated(password)).transpose()?.map(|v| v.to_string());
    }
    if let Some(until) = &options.valid_until {
        role.valid_until = match until.as_str() {
            "infinity" => None,
            text => match Value::parse(DataType::Timestamptz, text) {
                Ok(Value::Timestamptz(micros)) => Some(micros),
                _ => {
                    let message = format!("invalid input syntax for type timestamp with time zone: {text:?}");
                    return Err(SqlError::data(message).code("22007"));
                }
            },
        };
    }
    Ok(())
}

/// A role that `who` may change, to be put back; `own` is what everybody may change of itself.
fn changeable(catalog: &Catalog, who: Actor, id: RoleId, own: bool) -> Result<Role> {
    let Some(role) = catalog.role(id) else { return Err(SqlError::internal("a role is gone")) };
    if id.is_predefined() {
        return Err(SqlError::invalid(format!("role name {:?} is reserved", role.name)).code("42939"));
    }
    if role.superuser && !catalog.is_superuser(who.current) {
        return Err(refused("must be superuser to alter superuser roles or change superuser attribute"));
    }
    match creates_roles(catalog, who.current) || (own && id == who.current) {
        true => Ok(Role::clone(role)),
        false => Err(refused("permission denied")),
    }
}

pub fn alter(catalog: &mut Catalog, who: Actor, role: &RoleSpec, options: &RoleOptions) -> Result<()> {
    let id = role_of(catalog, who, role)?;
    refuse_beyond(catalog, who, options, "alter superuser roles or change superuser attribute")?;
    let is_password_alone = RoleOptions { password: None, ..options.clone() } == RoleOptions::default();
    let mut role = changeable(catalog, who, id, is_password_alone)?;
    apply(&mut role, options)?;
    if id == RoleId::OWNER && !role.superuser {
        return Err(SqlError::invalid("the first role of a database stays a superuser").code("0A000"));
    }
    catalog.put_role(role);
    Ok(())
}

pub fn rename(catalog: &mut Catalog, who: Actor, name: &str, to: &str) -> Result<()> {
    let id = catalog.expect_role(name)?.id;
    if id == who.session {
        return Err(SqlError::unsupported("session user cannot be renamed"));
    }
    refuse_reserved(to)?;
    let role = changeable(catalog, who, id, false)?;
    refuse_taken(catalog, to)?;
    catalog.put_role(Role { name: to.to_owned(), ..role });
    Ok(())
}

pub fn set(
    catalog: &mut Catalog,
    who: Actor,
    role: Option<&RoleSpec>,
    parameter: Option<&str>,
    value: Option<&str>,
) -> Result<()> {
    let Some(role) = role else {
        return Err(SqlError::unsupported("ALTER ROLE ALL is not supported").hint("name the roles"));
    };
    let id = role_of(catalog, who, role)?;
    let mut role = changeable(catalog, who, id, true)?;
    match (parameter, value) {
        (None, _) => role.settings.clear(),
        (Some(parameter), None) => drop(role.settings.remove(parameter)),
        (Some(parameter), Some(value)) => drop(role.settings.insert(parameter.to_owned(), value.to_owned())),
    }
    catalog.put_role(role);
    Ok(())
}

pub fn drop_roles(catalog: &mut Catalog, who: Actor, roles: &[RoleSpec], if_exists: bool) -> Result<()> {
    for spec in roles {
        let id = match role_of(catalog, who, spec) {
            Err(error) if error.sqlstate() == "42704" && if_exists => continue,
            found => found?,
        };
        if !creates_roles(catalog, who.current) {
            return Err(refused("permission denied to drop role"));
        }
        drop_role(catalog, who, id)?;
    }
    Ok(())
}

fn drop_role(catalog: &mut Catalog, who: Actor, id: RoleId) -> Result<()> {
    let name = catalog.role_name(id);
    let in_use = |what: &str| Err(SqlError::invalid(format!("{what} user cannot be dropped")).code("55006"));
    if id == RoleId::OWNER || id.is_predefined() {
        let message = format!("cannot drop role {name} because it is required by the database system");
        return Err(SqlError::invalid(message).code("2BP01"));
    }
    if id == who.current {
        return in_use("current");
    }
    if id == who.session {
        return in_use("session");
    }
    if catalog.is_superuser(id) && !catalog.is_superuser(who.current) {
        return Err(refused("must be superuser to drop superusers"));
    }
    let dependents = dependents(catalog, id);
    if !dependents.is_empty() {
        let message = format!("role {name:?} cannot be dropped because some objects depend on it");
        return Err(SqlError::invalid(message).code("2BP01").detail(dependents.join("\n")));
    }
    catalog.remove_role(id);
    let others: Vec<Role> = catalog.roles().map(|role| Role::clone(role)).collect();
    for mut other in others {
        let before = other.member_of.len();
        other.member_of.retain(|member| member.role != id);
        if other.member_of.len() < before {
            catalog.put_role(other);
        }
    }
    Ok(())
}

/// What keeps a role from being dropped, in words.
fn dependents(catalog: &Catalog, id: RoleId) -> Vec<String> {
    let name_of = |object| {
        let found = catalog.objects().into_iter().find(|(other, ..)| *other == object);
        found.map_or_else(|| "database".to_owned(), |(_, kind, _, name)| format!("{} {name}", kind.name()))
    };
    let mut found = Vec::new();
    for access in catalog.accesses() {
        if access.owner == id {
            found.push(format!("owner of {}", name_of(access.object)));
        } else if access.names(id) {
            found.push(format!("privileges for {}", name_of(access.object)));
        }
    }
    for role in catalog.roles() {
        if role.defaults.iter().any(|default| default.acl.names(id)) {
            found.push(format!("default privileges of role {}", role.name));
        }
    }
    found
}

pub fn grant(catalog: &mut Catalog, who: Actor, roles: &[RoleSpec], grant: &Grant) -> Result<()> {
    for role in roles {
        let role = role_of(catalog, who, role)?;
        for grantee in &grant.grantees {
            let grantee = role_of(catalog, who, grantee)?;
            match grant.revoke {
                false => add_member(catalog, who, (role, grantee), grant.option)?,
                true => remove_member(catalog, who, (role, grantee), grant.option)?,
            }
        }
    }
    Ok(())
}

fn expect_admin(catalog: &Catalog, who: Actor, role: RoleId) -> Result<()> {
    let (is_super, name) = (catalog.is_superuser(role), catalog.role_name(role));
    if role == RoleId::DATABASE_OWNER {
        return Err(SqlError::invalid(format!("role {name:?} cannot have explicit members")).code("42501"));
    }
    let may = match is_super {
        true => catalog.is_superuser(who.current),
        false => creates_roles(catalog, who.current) || catalog.is_admin(who.current, role),
    };
    match may {
        true => Ok(()),
        false if is_super => Err(refused("must be superuser to alter superusers")),
        false => Err(refused(format!("must have admin option on role {name:?}"))),
    }
}

pub fn add_member(catalog: &mut Catalog, who: Actor, (role, member): (RoleId, RoleId), admin: bool) -> Result<()> {
    expect_admin(catalog, who, role)?;
    if catalog.roles_of(role, false).contains(&member) {
        let (role, member) = (catalog.role_name(role), catalog.role_name(member));
        return Err(SqlError::invalid(format!("role {member:?} is a member of role {role:?}")).code("0LP01"));
    }
    let Some(found) = catalog.role(member) else { return Err(SqlError::internal("a role is gone")) };
    let mut changed = Role::clone(found);
    match changed.member_of.iter_mut().find(|membership| membership.role == role) {
        Some(membership) => membership.admin |= admin,
        None => changed.member_of.push(Membership { role, grantor: who.current, admin }),
    }
    catalog.put_role(changed);
    Ok(())
}

fn remove_member(catalog: &mut Catalog, who: Actor, (role, member): (RoleId, RoleId), option_only: bool) -> Result<()> {
    expect_admin(catalog, who, role)?;
    let Some(found) = catalog.role(member) else { return Err(SqlError::internal("a role is gone")) };
    let mut changed = Role::clone(found);
    match option_only {
        true => changed.member_of.iter_mut().filter(|m| m.role == role).for_each(|m| m.admin = false),
        false => changed.member_of.retain(|membership| membership.role != role),
    }
    catalog.put_role(changed);
    Ok(())
}
