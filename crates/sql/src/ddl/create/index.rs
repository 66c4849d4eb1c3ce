//! CREATE INDEX.

use datafusion::sql::sqlparser::ast;
use saki_tree::TreeRoot;

use super::constraint::free_name;
use crate::ddl::names::taken;
use crate::ddl::trees::index_rows;
use saki_catalog::{Index, Result, Table, bare};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_postgres::NewIndex;
use saki_postgres::statement::create_index::table_name;
use saki_store::locks::LockMode;

pub async fn create_index(cx: &StatementContext<'_>, create: ast::CreateIndex) -> Result<StatementResult> {
    if create.concurrently {
        cx.transactions.outside_of_block("CREATE INDEX CONCURRENTLY")?;
    }
    let (table, _) = table_name(&create)?;
    let _locked = cx.transactions.settled(vec![table], LockMode::Share).await?;
    cx.change_catalog(move |db| publish(db, &create)).await?;
    Ok(StatementResult::done("CREATE INDEX", 0))
}

fn publish(db: &Stoppable<'_>, create: &ast::CreateIndex) -> Result<()> {
    let (named, position) = table_name(create)?;
    db.write(|writer| {
        let mut table = Table::clone(writer.catalog.table(&named).map_err(|error| error.at(position))?);
        let new = NewIndex::read(create, &table)?;
        let name = match new.named {
            true => new.name,
            false => free_name(&writer.catalog, &table, &table.schema, bare(&table.schema, &new.name)),
        };
        if writer.catalog.kind_of(&name).is_some() {
            if new.if_not_exists {
                return Ok(());
            }
            return Err(taken(&name).at(new.position));
        }
        let tree = writer.catalog.new_tree_id();
        table.indexes.push(Index {
            name,
            schema: table.schema.clone(),
            columns: new.columns,
            unique: new.unique,
            include: new.include,
            constraint: false,
            constraint_comment: None,
            comment: None,
            root: TreeRoot::empty(tree),
        });
        let index = table.indexes.len() - 1;
        table.indexes[index].root = index_rows(writer, &table, index)?;
        writer.catalog.put(table);
        Ok(())
    })
}
