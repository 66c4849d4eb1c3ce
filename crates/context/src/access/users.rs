//! Who may connect, for programs that have the database itself: they may do everything with it, and need no role.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::roles::{Actor, drop_roles};
use super::verifier::Verifier;
use crate::database::Database;
use saki_catalog::{Catalog, Result, Role, RoleId, SqlError};
use saki_postgres::statement::RoleSpec;

/// The users of a database: roles that log in with passwords.
#[derive(Clone, Debug)]
pub struct Users(Arc<Database>);

impl Users {
    /// Those of a database, which must be open. Users that an earlier version has kept in a file beside it, who could
    /// all do everything, become superusers, and the file goes.
    ///
    /// # Errors
    /// If the file cannot be read, or the database not be written.
    pub fn of(database: &Arc<Database>) -> Result<Self> {
        let users = Self(Arc::clone(database));
        users.adopt()?;
        Ok(users)
    }

    fn adopt(&self) -> Result<()> {
        let mut path = self.0.path.as_os_str().to_owned();
        path.push(".users");
        let path = PathBuf::from(path);
        let failed = |error: &dyn std::fmt::Display| SqlError::storage(format!("{}: {error}", path.display()));
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            text => text.map_err(|error| failed(&error))?,
        };
        let verifiers = read(&text).ok_or_else(|| failed(&"not a list of users"))?;
        self.0.write(|writer| {
            for (name, verifier) in verifiers {
                verifier.parse::<Verifier>()?;
                put(&mut writer.catalog, &name, verifier);
            }
            Ok(())
        })?;
        // Only now: it is read again if the server ends in between.
        fs::remove_file(&path).map_err(|error| failed(&error))
    }

    /// Adds a superuser, or gives a role another password.
    ///
    /// # Errors
    /// 22023 if the name or the password is empty; if the database cannot be written.
    pub fn set(&self, name: &str, password: &str) -> Result<()> {
        if name.is_empty() || password.is_empty() {
            let message = "neither the name nor the password of a user may be empty";
            return Err(SqlError::invalid(message).code("22023"));
        }
        let verifier = Verifier::new(password)?.to_string();
        self.0.write(|writer| {
            put(&mut writer.catalog, name, verifier);
            Ok(())
        })
    }

    /// Removes a user; whether there was one.
    ///
    /// # Errors
    /// 2BP01 if something belongs to it; if the database cannot be written.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let who = Actor { current: RoleId::OWNER, session: RoleId::OWNER };
        if self.0.generation().catalog.role_named(name).is_none() {
            return Ok(false);
        }
        self.0.write(|writer| drop_roles(&mut writer.catalog, who, &[RoleSpec::Named(name.to_owned())], false))?;
        Ok(true)
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<String> {
        let generation = self.0.generation();
        let can_enter = |role: &&Arc<Role>| role.login && role.verifier.is_some();
        let mut names: Vec<String> =
            generation.catalog.roles().filter(can_enter).map(|role| role.name.clone()).collect();
        names.sort();
        names
    }
}

fn put(catalog: &mut Catalog, name: &str, verifier: String) {
    let mut role = match catalog.role_named(name) {
        Some(role) => Role::clone(role),
        None => Role { superuser: true, create_role: true, create_db: true, ..Role::new(catalog.new_role_id(), name) },
    };
    (role.login, role.verifier) = (true, Some(verifier));
    catalog.put_role(role);
}

/// Verifiers by name, of `{"users": {"name": "verifier"}}`.
fn read(text: &[u8]) -> Option<BTreeMap<String, String>> {
    let document: serde_json::Value = serde_json::from_slice(text).ok()?;
    let users = document.get("users")?.as_object()?;
    users.iter().map(|(name, verifier)| Some((name.clone(), verifier.as_str()?.to_owned()))).collect()
}
