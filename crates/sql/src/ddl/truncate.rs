//! TRUNCATE: tables get new, empty trees. Within a transaction their rows are deleted, so that ROLLBACK brings them back.

use std::collections::BTreeSet;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, CascadeOption, TruncateIdentityOption};

use super::dependents::owned_sequences;
use super::{clear_table, free_table};
use crate::catalog::{Catalog, Sequence, SequencePosition, Table};
use crate::database::Database;
use crate::error::{Position, Result, SqlError};
use crate::session::{Session, StatementResult};
use crate::statement::{self, object_name, quoted};

struct Truncation {
    tables: Vec<(String, Option<Position>)>,
    if_exists: bool,
    restart: bool,
    cascade: bool,
}

impl Session {
    pub(crate) async fn truncate(&self, truncate: &ast::Truncate) -> Result<StatementResult> {
        if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
            return Err(SqlError::unsupported("TRUNCATE of partitions is not supported"));
        }
        let truncation = Truncation {
            tables: truncate.table_names.iter().map(|target| object_name(&target.name)).collect::<Result<_>>()?,
            if_exists: truncate.if_exists,
            restart: truncate.identity == Some(TruncateIdentityOption::Restart),
            cascade: truncate.cascade == Some(CascadeOption::Cascade),
        };
        let snapshot = self.db.snapshot();
        let tables = truncation.tables(&snapshot.catalog)?;
        if self.outlives_statement() {
            return self.truncate_by_rows(&snapshot.catalog, tables, truncation.restart).await;
        }
        let _alone = self.alone(tables.into_iter().collect()).await?;
        self.blocking(move |db| db.truncate(&truncation)).await?;
        Ok(StatementResult::done("TRUNCATE TABLE", 0))
    }

    async fn truncate_by_rows(
        &self,
        catalog: &Catalog,
        mut tables: BTreeSet<String>,
        restart: bool,
    ) -> Result<StatementResult> {
        if restart {
            return Err(SqlError::unsupported("TRUNCATE … RESTART IDENTITY within a transaction is not supported")
                .hint("ROLLBACK could not undo it: run it by itself"));
        }
        while let Some(name) = next_to_empty(catalog, &tables) {
            let table = catalog.table(&name)?;
            let sql = format!("DELETE FROM {}.{}", quoted(&table.schema), quoted(table.bare_name()));
            if let Some(Statement::Statement(statement)) = statement::parse(&sql)?.pop()
                && let ast::Statement::Delete(delete) = *statement
            {
                self.delete(delete).await?;
            }
            tables.remove(&name);
        }
        Ok(StatementResult::done("TRUNCATE TABLE", 0))
    }
}

/// A table that no other of `tables` refers to; any of them where they refer to each other in a circle.
fn next_to_empty(catalog: &Catalog, tables: &BTreeSet<String>) -> Option<String> {
    let is_free = |name: &&String| {
        let Some(table) = catalog.get(name) else { return true };
        catalog.referencing(table.id).all(|(other, _)| other.id == table.id || !tables.contains(&other.name))
    };
    tables.iter().find(is_free).or_else(|| tables.first()).cloned()
}

impl Database {
    fn truncate(&self, truncation: &Truncation) -> Result<()> {
        self.write(|writer| {
            for name in truncation.tables(&writer.catalog)? {
                let before = writer.catalog.table(&name)?.clone();
                let mut after = Table::clone(&before);
                clear_table(&mut writer.catalog, &mut after);
                free_table(writer, &before)?;
                if truncation.restart {
                    restart(&mut writer.catalog, &before);
                }
                writer.catalog.put(after);
            }
            Ok(())
        })
    }
}

impl Truncation {
    /// Names of all tables to be emptied: those named, and with CASCADE those that refer to them.
    fn tables(&self, catalog: &Catalog) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        let mut pending = Vec::new();
        for (name, position) in &self.tables {
            if self.if_exists && catalog.kind_of(name).is_none() {
                continue;
            }
            pending.push(catalog.table(name).map_err(|error| error.at(*position))?);
            names.insert(name.clone());
        }
        while let Some(table) = pending.pop() {
            for (other, key) in catalog.referencing(table.id) {
                if names.contains(&other.name) {
                    continue;
                }
                if !self.cascade {
                    return Err(SqlError::unsupported(
                        "cannot truncate a table referenced in a foreign key constraint",
                    )
                    .detail(format!("Table {:?} references {:?} by constraint {:?}.", other.name, table.name, key.name))
                    .hint(format!("Truncate table {:?} at the same time, or use TRUNCATE ... CASCADE.", other.name)));
                }
                names.insert(other.name.clone());
                pending.push(other);
            }
        }
        Ok(names)
    }
}

/// Sequences of a table's columns begin again.
fn restart(catalog: &mut Catalog, table: &Table) {
    let owned: Vec<Sequence> = owned_sequences(catalog, table.id).map(|sequence| Sequence::clone(sequence)).collect();
    for sequence in owned {
        let position = SequencePosition { last_value: sequence.start, is_called: false };
        catalog.put_sequence(Sequence { position, version: sequence.version + 1, ..sequence });
    }
}
