//! CREATE SCHEMA, and how schemas are named.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, SchemaName};

use saki_catalog::{Catalog, Position, Result, SchemaEntry, SqlError};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_parameters::is_temporary;
use saki_postgres::RelationName;
use saki_postgres::statement::{name_of, position_of};

/// Schemas that are not the database's own.
const RESERVED: [&str; 3] = ["pg_catalog", "information_schema", "saki"];

pub async fn create_schema(
    cx: &StatementContext<'_>,
    name: &SchemaName,
    if_not_exists: bool,
) -> Result<StatementResult> {
    let (name, position) = match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => schema_name(name)?,
        SchemaName::UnnamedAuthorization(user) => (name_of(user), position_of(user)),
    };
    cx.change_catalog(move |db| publish(db, name, position, if_not_exists)).await?;
    Ok(StatementResult::done("CREATE SCHEMA", 0))
}

fn publish(db: &Stoppable<'_>, name: String, position: Option<Position>, if_not_exists: bool) -> Result<()> {
    if name.starts_with("pg_") || RESERVED.contains(&name.as_str()) {
        return Err(SqlError::invalid(format!("unacceptable schema name {name:?}"))
            .code("42939")
            .detail("The prefix \"pg_\" is reserved for system schemas.")
            .at(position));
    }
    db.write(|writer| {
        if writer.catalog.has_schema(&name) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(SqlError::invalid(format!("schema {name:?} already exists")).code("42P06").at(position)),
            };
        }
        let id = writer.catalog.new_table_id();
        writer.catalog.put_schema(SchemaEntry { id, name, comment: None });
        Ok(())
    })
}

/// A schema in which something is to be made. That of a session's temporary tables comes with the first of them.
///
/// # Errors
/// 3F000.
pub fn ready(catalog: &mut Catalog, name: &RelationName) -> Result<()> {
    if catalog.has_schema(&name.schema) {
        return Ok(());
    }
    if !is_temporary(&name.schema) {
        return Err(undefined(&name.schema).at(name.position));
    }
    let id = catalog.new_table_id();
    catalog.put_schema(SchemaEntry { id, name: name.schema.clone(), comment: None });
    Ok(())
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
