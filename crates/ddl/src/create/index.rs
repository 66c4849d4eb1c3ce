//! CREATE INDEX over columns.

use datafusion::sql::sqlparser::ast;
use saki_base::TreeId;
use saki_tree::TreeRoot;

use super::constraint::free_name;
use crate::names::taken;
use crate::trees::index_rows;
use saki_catalog::{Catalog, Index, IndexColumn, Result, SqlError, Table, bare};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_postgres::NewIndex;
use saki_postgres::statement::create_index::table_name;
use saki_store::locks::LockMode;

pub async fn create_index(cx: &StatementContext<'_>, create: ast::CreateIndex) -> Result<StatementResult> {
    let (table, position) = table_name(&create)?;
    if create.concurrently {
        let define = move |catalog: &Catalog, table: &Table| define(catalog, table, &create);
        let made = cx.concurrently("CREATE INDEX CONCURRENTLY", move |work| work.create_index(&table, define));
        made.await.map_err(|error| if error.sqlstate() == "42P01" { error.at(position) } else { error })?;
    } else {
        // SHARE, PostgreSQL's mode, goes with itself: two transactions would change one definition.
        let _locked = cx.transactions.settled(vec![table], LockMode::ShareRowExclusive).await?;
        cx.change_catalog(move |db| publish(db, &create)).await?;
    }
    Ok(StatementResult::done("CREATE INDEX", 0))
}

fn publish(db: &Stoppable<'_>, create: &ast::CreateIndex) -> Result<()> {
    let (named, position) = table_name(create)?;
    db.write(|writer| {
        let mut table = Table::clone(writer.catalog.table(&named).map_err(|error| error.at(position))?);
        let Some(index) = define(&writer.catalog, &table, create)? else { return Ok(()) };
        table.indexes.push(index);
        let index = table.indexes.len() - 1;
        table.indexes[index].root = index_rows(writer, &table, index)?;
        writer.catalog.put(table);
        Ok(())
    })
}

/// The index that a statement makes, without entries; `None` if there is one of its name, and the statement is content
/// with that.
fn define(catalog: &Catalog, table: &Table, create: &ast::CreateIndex) -> Result<Option<Index>> {
    let new = NewIndex::read(create, table)?;
    let columns = new.columns().ok_or_else(|| SqlError::internal("an index over expressions is made without them"))?;
    let Some(name) = name_in(catalog, table, &new)? else { return Ok(None) };
    Ok(Some(made_of(new, name, table, columns, catalog.new_tree_id())))
}

/// What a new index is called; `None` if there is one of its name, and the statement is content with that.
///
/// # Errors
/// 42P07.
pub fn name_in(catalog: &Catalog, table: &Table, new: &NewIndex) -> Result<Option<String>> {
    let name = match new.named {
        true => new.name.clone(),
        false => free_name(catalog, table, &table.schema, bare(&table.schema, &new.name)),
    };
    match catalog.kind_of(&name) {
        Some(_) if new.if_not_exists => Ok(None),
        Some(_) => Err(taken(&name).at(new.position)),
        None => Ok(Some(name)),
    }
}

/// An index of a table over these columns, without entries.
pub fn made_of(new: NewIndex, name: String, table: &Table, columns: Vec<IndexColumn>, tree: TreeId) -> Index {
    Index {
        name,
        schema: table.schema.clone(),
        columns,
        unique: new.unique,
        include: new.include,
        constraint: false,
        constraint_comment: None,
        comment: None,
        root: TreeRoot::empty(tree),
    }
}
