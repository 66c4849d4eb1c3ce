//! VACUUM and REINDEX. Space is given back with every publication, so the first has nothing to do.

use datafusion::sql::sqlparser::ast::VacuumStatement;

use super::index_rows;
use crate::catalog::{RelationKind, Table};
use crate::database::Database;
use crate::error::{Position, Result, SqlError};
use crate::session::{Session, StatementResult};
use crate::statement::object_name;
use crate::writer::Writer;

impl Session {
    pub(crate) async fn vacuum(&self, vacuum: &VacuumStatement) -> Result<StatementResult> {
        let name = vacuum.table_name.as_ref().map(object_name).transpose()?;
        if !vacuum.reindex {
            self.outside_of_block("VACUUM")?;
            if let Some((name, position)) = name {
                self.db.snapshot().catalog.table(&name).map_err(|error| error.at(position))?;
            }
            return Ok(StatementResult::done("VACUUM", 0));
        }
        let catalog = &self.db.snapshot().catalog;
        let tables = match &name {
            None => catalog.tables().map(|table| table.name.clone()).collect(),
            Some((name, _)) => vec![catalog.index(name).map_or_else(|| name.clone(), |(table, _)| table.name.clone())],
        };
        let _alone = self.alone(tables).await?;
        self.blocking(move |db| db.reindex(name)).await?;
        Ok(StatementResult::done("REINDEX", 0))
    }
}

impl Database {
    /// Builds the indexes of a table, one index, or all anew, from the rows.
    fn reindex(&self, name: Option<(String, Option<Position>)>) -> Result<()> {
        self.write(|writer| {
            let Some((name, position)) = name else {
                let tables: Vec<String> = writer.catalog.tables().map(|table| table.name.clone()).collect();
                return tables.iter().try_for_each(|table| rebuild(writer, table, |_| true));
            };
            match writer.catalog.kind_of(&name) {
                Some(RelationKind::Index) => {
                    let table = writer.catalog.index(&name).map(|(table, _)| table.name.clone()).unwrap_or_default();
                    rebuild(writer, &table, |index| index == name)
                }
                Some(RelationKind::Table) => rebuild(writer, &name, |_| true),
                Some(_) => {
                    Err(SqlError::invalid(format!("{name:?} is not a table or index")).code("42809").at(position))
                }
                None => Err(crate::catalog::undefined(&name).at(position)),
            }
        })
    }
}

fn rebuild(writer: &mut Writer<'_>, table: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
    let mut table = Table::clone(writer.catalog.table(table)?);
    for index in 0..table.indexes.len() {
        if wanted(&table.indexes[index].name) {
            let before = table.indexes[index].root;
            table.indexes[index].root = index_rows(writer, &table, index)?;
            writer.free_tree(&before)?;
        }
    }
    writer.catalog.put(table);
    Ok(())
}
