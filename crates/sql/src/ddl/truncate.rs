//! TRUNCATE: tables get new, empty trees. Within a transaction their rows are deleted, so that ROLLBACK brings them
//! back.

use std::collections::BTreeSet;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, CascadeOption, TruncateIdentityOption};

use super::dependents::owned_sequences;
use super::trees::{clear_table, free_table};
use crate::dml;
use saki_catalog::{Catalog, Position, Result, Sequence, SequencePosition, SqlError, Table};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_postgres::statement;
use saki_postgres::statement::{object_name, quoted};
use saki_store::locks::{LockMode, Policy};

struct Truncation {
    tables: Vec<(String, Option<Position>)>,
    if_exists: bool,
    restart: bool,
    cascade: bool,
}

pub async fn truncate(cx: &StatementContext<'_>, truncate: &ast::Truncate) -> Result<StatementResult> {
    if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
        return Err(SqlError::unsupported("TRUNCATE of partitions is not supported"));
    }
    let truncation = Truncation {
        tables: truncate.table_names.iter().map(|target| object_name(&target.name)).collect::<Result<_>>()?,
        if_exists: truncate.if_exists,
        restart: truncate.identity == Some(TruncateIdentityOption::Restart),
        cascade: truncate.cascade == Some(CascadeOption::Cascade),
    };
    let snapshot = cx.db.snapshot();
    let tables = truncation.tables(&snapshot.catalog)?;
    if cx.transactions.outlives_statement() {
        return truncate_by_rows(cx, &snapshot.catalog, tables, truncation.restart).await;
    }
    let _alone = cx.transactions.alone(tables.into_iter().collect()).await?;
    cx.blocking(move |db| publish(db, &truncation)).await?;
    Ok(StatementResult::done("TRUNCATE TABLE", 0))
}

async fn truncate_by_rows(
    cx: &StatementContext<'_>,
    catalog: &Catalog,
    mut tables: BTreeSet<String>,
    restart: bool,
) -> Result<StatementResult> {
    if restart {
        return Err(SqlError::unsupported("TRUNCATE … RESTART IDENTITY within a transaction is not supported")
            .hint("ROLLBACK could not undo it: run it by itself"));
    }
    let wanted: Vec<_> = tables.iter().map(|name| (name.clone(), LockMode::AccessExclusive)).collect();
    cx.transactions.lock_tables(&wanted, Policy::Wait).await?.keep();
    while let Some(name) = next_to_empty(catalog, &tables) {
        let table = catalog.table(&name)?;
        let sql = format!("DELETE FROM {}.{}", quoted(&table.schema), quoted(table.bare_name()));
        if let Some(Statement::Statement(statement)) = statement::parse(&sql)?.pop()
            && let ast::Statement::Delete(deletion) = *statement
        {
            dml::delete(cx, deletion).await?;
        }
        tables.remove(&name);
    }
    Ok(StatementResult::done("TRUNCATE TABLE", 0))
}

/// A table that no other of `tables` refers to; any of them where they refer to each other in a circle.
fn next_to_empty(catalog: &Catalog, tables: &BTreeSet<String>) -> Option<String> {
    let is_free = |name: &&String| {
        let Some(table) = catalog.get(name) else { return true };
        catalog.referencing(table.id).all(|(other, _)| other.id == table.id || !tables.contains(&other.name))
    };
    tables.iter().find(is_free).or_else(|| tables.first()).cloned()
}

fn publish(db: &Stoppable<'_>, truncation: &Truncation) -> Result<()> {
    db.write(|writer| {
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
