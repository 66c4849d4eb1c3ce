//! A MERGE as it is written, and its table and source by their names.

use datafusion::sql::sqlparser::ast::{self, Ident, TableFactor, TableWithJoins};

use super::super::query::Target;
use saki_catalog::{RelationKind, Result, SqlError};
use saki_context::StatementContext;
use saki_postgres::statement::{name_of, object_name, when_clauses};

/// A MERGE, its table, and what its source is called.
pub struct Merge {
    pub merge: ast::Merge,
    pub target: Target,
    pub source: Ident,
}

impl Merge {
    /// # Errors
    /// 42601 for what PostgreSQL 15 does not read; `Unsupported` for what is no table; 42P01.
    pub fn read(cx: &StatementContext<'_>, merge: ast::Merge) -> Result<Self> {
        when_clauses(&merge)?;
        let target = Target::read(&alone(merge.table.clone()))?;
        let catalog = &cx.generation()?.catalog;
        let is_view = catalog.kind_of(&target.name) == Some(RelationKind::View);
        if is_view || cx.planner.names.is_external(&target.name) {
            let message = format!("cannot execute MERGE on relation {:?}", target.name);
            let kind = if is_view { "views" } else { "foreign tables" };
            return Err(SqlError::unsupported(message).detail(format!("This operation is not supported for {kind}.")));
        }
        catalog.table(&target.name)?;
        let source = called(&merge.source)?;
        if name_of(&source) == target.alias_name() {
            let message = format!("name {:?} specified more than once", name_of(&source));
            return Err(SqlError::invalid(message)
                .code("42712")
                .detail("The name is used both as MERGE target table and data source."));
        }
        Ok(Self { merge, target, source })
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.target.name
    }
}

fn alone(relation: TableFactor) -> TableWithJoins {
    TableWithJoins { relation, joins: Vec::new() }
}

/// What a source is called.
fn called(source: &TableFactor) -> Result<Ident> {
    let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } | TableFactor::Function { alias, .. }) =
        source
    else {
        return Err(SqlError::unsupported(format!("MERGE … USING {source} is not supported"))
            .hint("name a table, or put a query in brackets"));
    };
    let name = match (alias, source) {
        (Some(alias), _) => name_of(&alias.name),
        (None, TableFactor::Table { name, .. }) => {
            let own = name.0.last().and_then(|part| part.as_ident()).map(name_of);
            own.map_or_else(|| object_name(name).map(|(name, _)| name), Ok)?
        }
        (None, _) => {
            return Err(SqlError::invalid("subquery in FROM must have an alias")
                .code("42601")
                .hint("For example, FROM (SELECT ...) [AS] foo."));
        }
    };
    Ok(Ident::with_quote('"', name))
}
