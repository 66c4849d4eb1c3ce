//! DELETE FROM table [USING …] [WHERE …] [RETURNING …].

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, FromTable, SelectItem};
use futures::future::BoxFuture;

use super::query::{Target, named, select, table_batch};
use super::references::see_to;
use super::returning::Returning;
use super::update::first_of_each;
use super::{RowWriter, answer};
use crate::catalog::{ROW_ID, Table};
use crate::columns::ColumnReader;
use crate::error::{Result, SqlError};
use crate::query_env::QueryEnv;
use crate::session::{Session, StatementResult};
use crate::transaction::{Change, ChangeStatement, Work};

/// A DELETE and the table it is from.
struct Deletion {
    delete: ast::Delete,
    target: Target,
}

impl ChangeStatement for Deletion {
    fn plan<'a>(&'a self, session: &'a Session, env: &'a Arc<QueryEnv>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(session.plan_delete(env, &self.delete, &self.target))
    }
}

impl Session {
    pub(crate) async fn delete(&self, delete: ast::Delete) -> Result<StatementResult> {
        if !delete.tables.is_empty() || !delete.order_by.is_empty() || delete.limit.is_some() || delete.output.is_some()
        {
            return Err(SqlError::unsupported("DELETE takes FROM, USING, WHERE and RETURNING"));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = &from[..] else { return Err(SqlError::unsupported("DELETE is from one table")) };
        let target = Target::read(from)?;
        let tables = self.related_tables(&target.name);
        self.change(&tables, &Deletion { delete, target }).await
    }

    async fn plan_delete(&self, env: &Arc<QueryEnv>, delete: &ast::Delete, target: &Target) -> Result<Work> {
        let table = Arc::clone(env.snapshot.catalog.table(&target.name)?);
        let mut relations = vec![target.relation.clone()];
        relations.extend(delete.using.iter().flatten().cloned());
        let returning = delete.returning.as_ref().map(|items| Returning::new(items, &relations[1..])).transpose()?;
        let is_join = relations.len() > 1;
        let mut items = old_columns(&table, target);
        items.extend(returning.iter().flat_map(Returning::brought));
        let query = select(items, relations, delete.selection.clone())?;
        let found = self.rows_of(&env.with_row_id(&table), query).await?;
        let found = if is_join { first_of_each(&found, &table)? } else { found };
        let before = table_batch(&found, &table, 0)?;
        let returned = match &returning {
            None => None,
            Some(returning) => Some(self.returned(env, target, returning, &before, &found).await?),
        };
        Ok(Box::new(move |change: &mut Change<'_, '_>| {
            let mut writer = RowWriter::new(change.db, &change.view.snapshot, &table)?;
            let mut entries = writer.entries(&old_readers(&before, &found, &table)?, before.num_rows())?;
            entries.sort_unstable();
            for (key, _) in &entries {
                writer.delete(change.transaction, key)?;
            }
            drop(writer);
            see_to(change, &table, &mut entries.iter().map(|entry| (Some(entry), None)))?;
            Ok(answer("DELETE", entries.len(), returned)?)
        }))
    }
}

/// All columns of the target, and the hidden row id where there is one.
pub fn old_columns(table: &Table, target: &Target) -> Vec<SelectItem> {
    let columns = table.columns.iter().enumerate();
    let mut items: Vec<SelectItem> =
        columns.map(|(place, column)| named(target.column(&column.name), format!("old {place}"))).collect();
    if table.primary_key.is_empty() {
        items.push(named(target.column(ROW_ID), "old id".into()));
    }
    items
}

/// Readers of what [`old_columns`] gave: `before` its columns as the table's, `found` all of it.
pub fn old_readers<'b>(
    before: &'b arrow_array::RecordBatch,
    found: &'b arrow_array::RecordBatch,
    table: &Table,
) -> Result<Vec<ColumnReader<'b>>> {
    let mut readers = Vec::with_capacity(table.columns.len() + 1);
    for (array, column) in before.columns().iter().zip(&table.columns) {
        readers.push(ColumnReader::new(array, column)?);
    }
    if table.primary_key.is_empty() {
        readers.push(ColumnReader::new(found.column(table.columns.len()), &table.row_id_column())?);
    }
    Ok(readers)
}
