//! Foreign keys within a statement: once it has changed its rows, what they refer to must be there, and what refers to
//! rows that have gone is refused, or changes as well.
//!
//! That a row referred to stays until the transaction commits is seen to by writing it anew as it is: whoever deletes
//! it meanwhile meets that, as any other change of the row.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use saki_base::{TableId, Value};
use saki_mvcc::Transaction;

use super::writer::RowWriter;
use saki_catalog::{Catalog, EntryDecoder, EntryEncoder, Result, SqlError, Table};
use saki_context::constraint::{Consequence, ForeignKeys, Keys, NewValue};
use saki_context::database::Database;
use saki_context::transaction::{Change, Refusal};
use saki_store::{Entry, ReadView};

/// Values of a whole row, the hidden row id last where there is one.
type Row = Vec<Value>;

/// Changes of rows, and what follows from them.
pub struct References<'c, 't> {
    db: &'c Database,
    view: &'c Arc<ReadView>,
    transaction: &'c mut Transaction<'t>,
    writers: HashMap<TableId, RowWriter<'c>>,
    /// A look-up met a row that another transaction changes.
    conflict: Option<Refusal>,
}

/// A row that was changed: as it was, and as it is.
struct Changed {
    table: Arc<Table>,
    old: Option<Row>,
    new: Option<Row>,
}

/// Tables whose rows a change of rows of `table` may look at or change.
pub fn related(catalog: &Catalog, table: &Table) -> Vec<String> {
    let mut names = vec![table.name.clone()];
    let mut at = 0;
    while at < names.len() {
        if let Some(table) = catalog.get(&names[at]) {
            let referring = catalog.referencing(table.id).map(|(from, _)| from.name.clone());
            let referred =
                table.foreign_keys.iter().filter_map(|key| Some(catalog.referenced(key).ok()?.0.name.clone()));
            for name in referring.chain(referred).collect::<Vec<_>>() {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        at += 1;
    }
    names
}

/// Sees to the foreign keys of rows that a statement has changed: entries as they were, and as they are.
pub fn see_to(
    change: &mut Change<'_, '_>,
    table: &Arc<Table>,
    entries: &mut dyn Iterator<Item = (Option<&Entry>, Option<&Entry>)>,
) -> Result<(), Refusal> {
    let catalog = &change.view.snapshot.catalog;
    if ForeignKeys::new(catalog, table)?.is_empty() {
        return Ok(());
    }
    let decode = |entry: Option<&Entry>| entry.map(|(key, row)| decoded(table, key, row)).transpose();
    let mut changes = VecDeque::new();
    for (old, new) in entries {
        changes.push_back(Changed { table: Arc::clone(table), old: decode(old)?, new: decode(new)? });
    }
    let (db, view) = (change.db, change.view);
    let mut references =
        References { db, view, transaction: change.transaction, writers: HashMap::new(), conflict: None };
    let outcome = references.work_off(changes);
    match references.conflict.take() {
        Some(conflict) => Err(conflict),
        None => outcome,
    }
}

fn decoded(table: &Table, key: &[u8], row: &[u8]) -> Result<Row> {
    let mut decoder = EntryDecoder::new(table.primary_layout());
    decoder.decode(table, key, row, |values| values.iter().map(|value| Value::from(*value)).collect())
}

fn encoded(table: &Table, row: &[Value]) -> Result<Entry> {
    let mut encoder = EntryEncoder::new(table.primary_layout());
    encoder.encode(&mut Vec::new(), |column| row[column].as_ref())?;
    Ok((encoder.key, encoder.row))
}

impl<'c> References<'c, '_> {
    fn work_off(&mut self, mut changes: VecDeque<Changed>) -> Result<(), Refusal> {
        let view = Arc::clone(self.view);
        let catalog = &view.snapshot.catalog;
        let (mut done, mut verifications) = (Vec::new(), Vec::new());
        while let Some(changed) = changes.pop_front() {
            let keys = ForeignKeys::new(catalog, &changed.table)?;
            if let Some(old) = &changed.old {
                for consequence in keys.consequences(old, changed.new.as_deref(), self)? {
                    match consequence {
                        Consequence::Delete { table, row } => {
                            let (key, _) = encoded(&table, &row)?;
                            self.write(&table, |writer, transaction| writer.delete(transaction, &key))?;
                            changes.push_back(Changed { table, old: Some(row), new: None });
                        }
                        Consequence::Update { table, row, set } => {
                            let new = self.updated(&table, &row, set)?;
                            changes.push_back(Changed { table, old: Some(row), new: Some(new) });
                        }
                        Consequence::Verify(verification) => verifications.push(verification),
                    }
                }
            }
            done.push(changed);
        }
        for changed in &done {
            if let Some(new) = &changed.new {
                ForeignKeys::new(catalog, &changed.table)?.check(changed.old.as_deref(), new, self)?;
            }
        }
        verifications.iter().try_for_each(|verification| verification.verify(self))?;
        Ok(())
    }

    fn updated(&mut self, table: &Arc<Table>, row: &[Value], set: Vec<(usize, NewValue)>) -> Result<Row, Refusal> {
        let mut new = row.to_vec();
        for (column, value) in set {
            new[column] = match value {
                NewValue::Value(value) => value,
                NewValue::Default => self.default(table, column)?,
            };
            saki_catalog::columns::check_value(new[column].as_ref(), &table.columns[column], table)?;
        }
        let (before, after) = (encoded(table, row)?, encoded(table, &new)?);
        self.write(table, |writer, transaction| {
            if before.0 == after.0 {
                return writer.update(transaction, &after.0, &before.1, &after.1);
            }
            writer.delete(transaction, &before.0)?;
            writer.insert(transaction, &after.0, &after.1)
        })?;
        Ok(new)
    }

    /// A default that is a constant.
    fn default(&self, table: &Table, column: usize) -> Result<Value> {
        use datafusion::sql::sqlparser::ast;
        let catalog = &self.view.snapshot.catalog;
        let text = match saki_context::constraint::Defaults::new(catalog, table).expression(column)? {
            None => return Ok(Value::Null),
            Some(ast::Expr::Value(value)) => match value.value {
                ast::Value::Null => return Ok(Value::Null),
                ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => text,
                ast::Value::Boolean(value) => value.to_string(),
                other => return Err(unsupported_default(&other)),
            },
            Some(other) => return Err(unsupported_default(&other)),
        };
        Ok(Value::parse(table.columns[column].data_type, &text)?)
    }

    fn write(
        &mut self,
        table: &Arc<Table>,
        work: impl FnOnce(&mut RowWriter<'_>, &mut Transaction<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.writer(table)?;
        let writer = self.writers.get_mut(&table.id).ok_or_else(|| SqlError::internal("a writer was lost"))?;
        work(writer, self.transaction)
    }

    fn writer(&mut self, table: &Arc<Table>) -> Result<&mut RowWriter<'c>> {
        use std::collections::hash_map::Entry as Place;
        Ok(match self.writers.entry(table.id) {
            Place::Occupied(place) => place.into_mut(),
            Place::Vacant(place) => place.insert(RowWriter::new(self.db, &self.view.snapshot, table)?),
        })
    }

    /// Entries of all rows whose columns have these values.
    fn find(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<Vec<Entry>> {
        self.writer(table)?;
        let Some(writer) = self.writers.get_mut(&table.id) else { return Ok(Vec::new()) };
        writer.finder.rows_with(self.transaction, columns, values)
    }
}

fn unsupported_default(expression: &dyn std::fmt::Display) -> SqlError {
    SqlError::unsupported(format!("ON DELETE or UPDATE SET DEFAULT to {expression} is not supported"))
        .hint("only constants are")
}

impl Keys for References<'_, '_> {
    fn exists(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<bool> {
        let Some((key, row)) = self.find(table, columns, values)?.into_iter().next() else { return Ok(false) };
        let kept = self.write(table, |writer, transaction| writer.hold(transaction, &key, &row));
        match kept {
            Ok(()) => Ok(true),
            Err(Refusal::Error(error)) => Err(error),
            Err(conflict) => {
                self.conflict = Some(conflict);
                Err(SqlError::internal("a row that is referred to is being changed"))
            }
        }
    }

    fn rows(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<Vec<Vec<Value>>> {
        self.find(table, columns, values)?.iter().map(|(key, row)| decoded(table, key, row)).collect()
    }
}
