//! VACUUM and REINDEX. Space is given back with every publication, so the first has nothing to do.

use datafusion::sql::sqlparser::ast::VacuumStatement;

use crate::ddl::trees::index_rows;
use saki_catalog::{Position, RelationKind, Result, SqlError, Table};
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
            let _locked = cx.transactions.lock_tables(&wanted, Policy::Wait).await?;
            cx.generation()?.catalog.table(&wanted[0].0).map_err(|error| error.at(position))?;
        }
        return Ok(StatementResult::done("VACUUM", 0));
    }
    let catalog = &cx.generation()?.catalog;
    let tables = match &name {
        None => catalog.tables().map(|table| table.name.clone()).collect(),
        Some((name, _)) => vec![catalog.index(name).map_or_else(|| name.clone(), |(table, _)| table.name.clone())],
    };
    let _locked = cx.transactions.settled(tables, LockMode::Share).await?;
    cx.change_catalog(move |db| reindex(db, name)).await?;
    Ok(StatementResult::done("REINDEX", 0))
}

/// Builds the indexes of a table, one index, or all anew, from the rows.
fn reindex(db: &Stoppable<'_>, name: Option<(String, Option<Position>)>) -> Result<()> {
    db.write(|writer| {
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
            Some(_) => Err(SqlError::invalid(format!("{name:?} is not a table or index")).code("42809").at(position)),
            None => Err(saki_catalog::undefined(&name).at(position)),
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
