//! VACUUM and REINDEX. Space is given back with every publication, so the first has nothing to do.

use datafusion::sql::sqlparser::ast::VacuumStatement;

use crate::trees::index_rows;
use saki_catalog::{Catalog, Index, Position, RelationKind, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_postgres::statement::object_name;
use saki_store::Writer;
use saki_store::locks::{LockMode, Policy};

pub async fn vacuum(cx: &StatementContext<'_>, vacuum: &VacuumStatement) -> Result<StatementResult> {
    let name = vacuum.table_name.as_ref().map(object_name).transpose()?;
    if !vacuum.reindex {
        cx.transactions.outside_of_block("VACUUM")?;
        if let Some((name, position)) = name {
            let wanted = [(name, LockMode::ShareUpdateExclusive)];
            let policy = if vacuum.boost { Policy::Now } else { Policy::Wait };
            let _locked = match cx.transactions.lock_tables(&wanted, policy).await {
                // SKIP_LOCKED passes over it.
                Err(error) if vacuum.boost && error.sqlstate() == "55P03" => {
                    return Ok(StatementResult::done("VACUUM", 0));
                }
                locked => locked?,
            };
            cx.generation()?.catalog.table(&wanted[0].0).map_err(|error| error.at(position))?;
        }
        return Ok(StatementResult::done("VACUUM", 0));
    }
    if vacuum.boost {
        return reindex_concurrently(cx, name).await;
    }
    let catalog = &cx.generation()?.catalog;
    let tables = match &name {
        None => catalog.tables().map(|table| table.name.clone()).collect(),
        Some((name, _)) => vec![catalog.index(name).map_or_else(|| name.clone(), |(table, _)| table.name.clone())],
    };
    let _locked = cx.transactions.settled(tables, LockMode::ShareRowExclusive).await?;
    cx.change_catalog(move |db| reindex(db, name)).await?;
    Ok(StatementResult::done("REINDEX", 0))
}

/// REINDEX CONCURRENTLY, one index after the other: rows are changed meanwhile.
async fn reindex_concurrently(
    cx: &StatementContext<'_>,
    name: Option<(String, Option<Position>)>,
) -> Result<StatementResult> {
    const STATEMENT: &str = "REINDEX CONCURRENTLY";
    cx.transactions.outside_of_block(STATEMENT)?;
    let catalog = cx.generation()?.catalog.clone();
    let is_wanted = |table: &Table, index: &Index| match &name {
        None => true,
        Some((name, _)) => table.name == *name || index.name == *name,
    };
    if let Some((name, position)) = &name {
        refuse_other_kind(&catalog, name, *position)?;
    }
    let indexes = catalog.tables().flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
    let indexes = indexes.filter(|(table, index)| is_wanted(table, index));
    let indexes: Vec<_> = indexes.map(|(table, index)| (table.name.clone(), index.name.clone())).collect();
    cx.concurrently(STATEMENT, move |work| {
        indexes.iter().try_for_each(|(table, index)| work.rebuild_index(table, index))
    })
    .await?;
    Ok(StatementResult::done("REINDEX", 0))
}

fn refuse_other_kind(catalog: &Catalog, name: &str, position: Option<Position>) -> Result<()> {
    match catalog.kind_of(name) {
        Some(RelationKind::Index | RelationKind::Table) => Ok(()),
        Some(_) => Err(SqlError::invalid(format!("{name:?} is not a table or index")).code("42809").at(position)),
        None => Err(saki_catalog::undefined(name).at(position)),
    }
}

/// Builds the indexes of a table, one index, or all anew, from the rows.
fn reindex(db: &Stoppable<'_>, name: Option<(String, Option<Position>)>) -> Result<()> {
    db.write(|writer| {
        let Some((name, position)) = name else {
            let tables: Vec<String> = writer.catalog.tables().map(|table| table.name.clone()).collect();
            return tables.iter().try_for_each(|table| rebuild(writer, table, |_| true));
        };
        refuse_other_kind(&writer.catalog, &name, position)?;
        match writer.catalog.index(&name).map(|(table, _)| table.name.clone()) {
            Some(table) => rebuild(writer, &table, |index| index == name),
            None => rebuild(writer, &name, |_| true),
        }
    })
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
