//! CREATE SCHEMA and DROP SCHEMA.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, SchemaName};

use super::drop::{Dropping, Subject};
use crate::catalog::{Catalog, PUBLIC, SchemaEntry};
use crate::database::Database;
use crate::error::{Position, Result, SqlError};
use crate::session::{Session, StatementResult};
use crate::statement::{name_of, position_of};

/// Schemas that are not the database's own.
const RESERVED: [&str; 3] = ["pg_catalog", "information_schema", "saki"];

impl Session {
    pub(crate) async fn create_schema(&self, name: &SchemaName, if_not_exists: bool) -> Result<StatementResult> {
        let (name, position) = match name {
            SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => schema_name(name)?,
            SchemaName::UnnamedAuthorization(user) => (name_of(user), position_of(user)),
        };
        self.blocking(move |db| db.create_schema(name, position, if_not_exists)).await?;
        Ok(StatementResult::done("CREATE SCHEMA", 0))
    }
}

impl Database {
    fn create_schema(&self, name: String, position: Option<Position>, if_not_exists: bool) -> Result<()> {
        if name.starts_with("pg_") || RESERVED.contains(&name.as_str()) {
            return Err(SqlError::invalid(format!("unacceptable schema name {name:?}"))
                .code("42939")
                .detail("The prefix \"pg_\" is reserved for system schemas.")
                .at(position));
        }
        self.write(|writer| {
            if writer.catalog.has_schema(&name) {
                return match if_not_exists {
                    true => Ok(()),
                    false => {
                        Err(SqlError::invalid(format!("schema {name:?} already exists")).code("42P06").at(position))
                    }
                };
            }
            let id = writer.catalog.new_table_id();
            writer.catalog.put_schema(SchemaEntry { id, name, comment: None });
            Ok(())
        })
    }
}

/// A schema's own name; the database's may stand before it.
pub fn schema_name(name: &ObjectName) -> Result<(String, Option<Position>)> {
    let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    match parts[..] {
        [schema] => Ok((name_of(schema), position_of(schema))),
        [database, schema] if name_of(database) == "saki" => Ok((name_of(schema), position_of(schema))),
        _ => Err(SqlError::invalid(format!("{name} is not the name of a schema")).code("42602")),
    }
}

pub fn undefined(name: &str) -> SqlError {
    SqlError::invalid(format!("schema {name:?} does not exist")).code("3F000")
}

/// Everything in a schema is to go, and then the schema.
pub fn drop(catalog: &Catalog, name: &str, dropping: &mut Dropping) -> Result<()> {
    if name == PUBLIC {
        return Err(SqlError::unsupported("schema \"public\" cannot be dropped"));
    }
    if !catalog.has_schema(name) {
        return Err(undefined(name));
    }
    dropping.schemas.push(name.to_owned());
    let tables = catalog.tables().filter(|t| t.schema == name).map(|t| Subject::Table(t.name.clone()));
    let views = catalog.views().filter(|v| v.schema == name).map(|v| Subject::View(v.name.clone()));
    let sequences = catalog.sequences().filter(|s| s.schema == name).map(|s| Subject::Sequence(s.name.clone()));
    let dependents: Vec<Subject> = tables.chain(views).chain(sequences).collect();
    for subject in dependents {
        dropping.depends(format!("{} depends on schema {name}", subject.shown()));
        dropping.add(catalog, subject);
    }
    Ok(())
}
