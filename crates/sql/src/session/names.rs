//! What the names in a session's statements mean: `search_path`, and the database's own name, say it.

use arrow_schema::{DataType, Field};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use saki_base::Enumeration;
use saki_catalog::{Catalog, PUBLIC, Result};
use saki_context::statement::{self as statement_names, Names, Parsed, Scope, TableName};
use saki_postgres::statement::AccessStatement;
use saki_postgres::types::storage_type;

use super::Session;
use crate::prepared::{KnownTypes, Prepared, Resolved};

impl Session {
    /// Gives names that say no schema the one in which `search_path` finds them, and takes the database's from those
    /// that say it. Names of enumerations become names of their states.
    pub(super) fn resolve(&self, Parsed(parsed, spelled): &mut Parsed) -> Result<Resolved> {
        let catalog = &self.newest().catalog;
        let path = self.system.search_path(catalog);
        let public = [PUBLIC.to_owned()];
        let mut types = KnownTypes::default();
        if let Statement::Statement(statement) = parsed
            && (catalog.enum_types().next().is_some() || statement_names::is_about_types(statement))
        {
            let states =
                statement_names::resolve_types(statement.as_mut(), catalog, path.as_deref().unwrap_or(&public))?;
            types = KnownTypes::new(path.clone(), states);
        }
        let completes = path.is_some() || statement_names::makes_temporary(parsed);
        if !completes && *spelled == Names::Short {
            return Ok(Resolved { relations: None, types });
        }
        let is_external = |name: &str| self.planner.names.is_external(name);
        let database = self.system.database_name();
        let scope = self.scope(catalog, path.as_deref().unwrap_or(&public), &is_external);
        let scope = Scope { database: &database, completes, ..scope };
        let found = statement_names::resolve(parsed, &scope)?;
        Ok(Resolved { relations: path.is_some().then_some(found), types })
    }

    fn scope<'s>(
        &'s self,
        catalog: &'s Catalog,
        path: &'s [String],
        is_external: &'s dyn Fn(&str) -> bool,
    ) -> Scope<'s> {
        let temporary = self.parameters.temporary_schema();
        Scope { catalog, database: "", path, completes: true, temporary, is_external }
    }

    /// The same for a statement about privileges, whose names are in its text.
    pub(super) fn resolve_access(&self, statement: &mut AccessStatement) -> Result<()> {
        let catalog = &self.newest().catalog;
        let path = self.system.search_path(catalog);
        let database = self.system.database_name();
        let scope = self.scope(catalog, path.as_deref().unwrap_or_default(), &|_| false);
        let scope = Scope { database: &database, completes: path.is_some(), ..scope };
        if let Some(name) = statement.type_mut() {
            statement_names::complete_type(name, catalog, path.as_deref().unwrap_or(&[PUBLIC.to_owned()]));
        }
        let (names, is_optional) = statement.relations_mut();
        names.iter_mut().try_for_each(|name| statement_names::resolve_relation(name, &scope, is_optional))
    }

    /// Whether the names of a statement mean what they meant when it was prepared.
    pub fn is_current(&self, prepared: &Prepared) -> bool {
        // A catalog of the transaction's own changes under the number of the published one.
        let newest = (!self.transactions.has_draft()).then(|| self.db.newest());
        if newest.is_some_and(|newest| prepared.current.is_known(newest, &self.parameters)) {
            return true;
        }
        let state = self.parameters.state();
        let generation = self.newest();
        let path = self.system.search_path(&generation.catalog);
        let Resolved { relations, types } = &prepared.names;
        let is_current = types.agree(&generation.catalog, path.as_ref())
            && match (path, relations) {
                (None, None) => true,
                (Some(path), Some(names)) => self.scope(&generation.catalog, &path, &|_| false).agrees(names),
                _ => false,
            };
        if is_current && newest == Some(generation.number()) {
            prepared.current.know(generation.number(), state);
        }
        is_current
    }

    /// A type of values in its newest state: labels of enumerations come and change.
    pub fn current_type(&self, data_type: &DataType) -> DataType {
        let oid = match data_type {
            DataType::List(element) => saki_exec::enumeration(element.data_type()).map(Enumeration::array),
            single => saki_exec::enumeration(single).map(Enumeration::oid),
        };
        oid.and_then(|oid| self.type_of_oid(oid)).unwrap_or_else(|| data_type.clone())
    }

    /// The type of values that a spelled type has.
    ///
    /// # Errors
    /// 0A000 for one that columns do not have.
    pub fn type_named(&self, mut spelled: ast::DataType) -> Result<DataType> {
        let catalog = &self.newest().catalog;
        let path = self.system.search_path(catalog);
        statement_names::resolve_type(&mut spelled, catalog, path.as_deref().unwrap_or(&[PUBLIC.to_owned()]))?;
        Ok(saki_exec::arrow_type(storage_type(&spelled)?))
    }

    /// The type of values of an enumeration, or of its arrays, by the number that clients know.
    pub fn type_of_oid(&self, oid: u32) -> Option<DataType> {
        let newest = self.newest();
        newest.catalog.enum_types().map(|of| of.state()).find_map(|state| {
            let labels = saki_exec::arrow_type(saki_base::DataType::Enum(state));
            match oid {
                oid if oid == state.oid() => Some(labels),
                oid if oid == state.array() => Some(DataType::List(Field::new_list_field(labels, true).into())),
                _ => None,
            }
        })
    }

    /// The catalog's name of a table that COPY names: found by `search_path` if it says no schema.
    ///
    /// # Errors
    /// 42P01.
    pub fn table_name(&self, name: &TableName) -> Result<String> {
        let catalog = &self.newest().catalog;
        match self.system.search_path(catalog) {
            Some(path) if !name.is_qualified => self.scope(catalog, &path, &|_| false).relation(&name.name),
            _ => Ok(name.name.clone()),
        }
    }
}
