//! ALTER TABLE, ALTER INDEX, ALTER VIEW and ALTER SEQUENCE: tried on the snapshot, validated, and published.
//!
//! A table whose rows get another shape or another key is loaded anew from a query over itself, with bounded memory; any other
//! change builds and gives back only the trees that differ.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use datafusion::physical_plan::execute_stream;
use datafusion::sql::sqlparser::ast;
use saki_base::{Column, DataType, ValueRef};
use saki_columns::SegmentsRoot;

use super::alteration::Alteration;
use super::validate::new_rows;
use super::{clear_table, free_table, index_rows, rename};
use crate::catalog::{Catalog, RelationKind, Sequence, SequencePosition, Table, undefined};
use crate::columns::ColumnReader;
use crate::convert::conform;
use crate::database::Database;
use crate::error::{Result, SqlError};
use crate::load::load;
use crate::segments;
use crate::session::{Planned, Session, StatementResult};
use crate::statement::alter_table::{Action, AlterTable, new_name};
use crate::statement::{RelationName, parse_query};
use crate::writer::Writer;

impl Session {
    pub(crate) async fn alter_table(&self, alter: &ast::AlterTable) -> Result<StatementResult> {
        let alter = AlterTable::read(alter)?;
        let snapshot = self.db.snapshot();
        let name = &alter.name;
        let tag = match snapshot.catalog.kind_of(&name.name) {
            None if alter.if_exists => "ALTER TABLE",
            None => return Err(undefined(&name.name).at(name.position)),
            Some(RelationKind::Table) => {
                drop(snapshot);
                let _alone = self.alone(vec![name.name.clone()]).await?;
                // Only now: what its delta had is in its base.
                let before = Arc::clone(self.db.snapshot().catalog.table(&name.name)?);
                return self.alter_stored_table(alter, before).await;
            }
            Some(RelationKind::Sequence) => {
                self.alter_sequence(alter).await?;
                "ALTER SEQUENCE"
            }
            Some(RelationKind::View) => {
                self.blocking(move |db| db.alter_view(&alter)).await?;
                "ALTER VIEW"
            }
            Some(RelationKind::Index) => {
                self.blocking(move |db| db.alter_index(&alter)).await?;
                "ALTER INDEX"
            }
        };
        Ok(StatementResult::done(tag, 0))
    }

    async fn alter_stored_table(&self, alter: AlterTable, before: Arc<Table>) -> Result<StatementResult> {
        let mut catalog = self.db.snapshot().catalog.clone();
        let alteration = Alteration::new(&mut catalog, Arc::clone(&before), &alter.actions)?;
        self.check_expressions(&catalog, &alteration.after)?;
        self.validate(&catalog, &alteration).await?;
        if !alteration.rewrites() || before.root.is_empty() {
            self.blocking(move |db| db.alter(&before, &alter.actions, None)).await?;
            return Ok(StatementResult::done("ALTER TABLE", 0));
        }
        let query = ast::Statement::Query(parse_query(&new_rows(&catalog, &alteration))?);
        let Planned { plan, context, .. } = self.plan(&query).await?;
        // As in CREATE TABLE AS: parts of the plan run from here on.
        let _publishing = self.sequences.publishing();
        let stream = execute_stream(plan, context)?;
        self.feed(stream, move |db, batches| db.alter(&before, &alter.actions, Some(batches))).await?;
        Ok(StatementResult::done("ALTER TABLE", 0))
    }

    pub(crate) async fn alter_index_name(
        &self,
        from: &ast::ObjectName,
        to: &ast::ObjectName,
    ) -> Result<StatementResult> {
        let name = RelationName::read(from)?;
        let to = new_name(to, &name)?;
        let alter = AlterTable { name, if_exists: false, actions: vec![Action::Rename(to)] };
        self.blocking(move |db| db.alter_index(&alter)).await?;
        Ok(StatementResult::done("ALTER INDEX", 0))
    }
}

/// Batches of a query.
type Batches<'b> = &'b mut dyn Iterator<Item = Result<RecordBatch>>;

impl Database {
    fn alter(&self, seen: &Arc<Table>, actions: &[Action], batches: Option<Batches<'_>>) -> Result<()> {
        self.write(|writer| {
            let before = writer.catalog.table(&seen.name)?;
            // What was validated is this table only.
            if !Arc::ptr_eq(before, seen) {
                return Err(SqlError::invalid(format!("table {:?} was changed meanwhile", seen.name))
                    .code("40001")
                    .hint("repeat the statement"));
            }
            let alteration = Alteration::new(&mut writer.catalog, Arc::clone(seen), actions)?;
            if alteration.rewrites() { rewrite(writer, alteration, batches) } else { adapt(writer, alteration) }
        })
    }

    fn alter_view(&self, alter: &AlterTable) -> Result<()> {
        self.write(|writer| {
            for action in &alter.actions {
                let Some(view) = writer.catalog.view(&alter.name.name).cloned() else {
                    return Err(undefined(&alter.name.name).at(alter.name.position));
                };
                match action {
                    Action::Rename(to) => rename::rename_view(&mut writer.catalog, &view, to)?,
                    Action::Nothing => {}
                    _ => return Err(not_a_table(&alter.name)),
                }
            }
            Ok(())
        })
    }

    fn alter_index(&self, alter: &AlterTable) -> Result<()> {
        self.write(|writer| {
            for action in &alter.actions {
                match action {
                    Action::Rename(to) => {
                        if !rename::rename_index(&mut writer.catalog, &alter.name.name, to)? {
                            return Err(undefined(&alter.name.name).at(alter.name.position));
                        }
                    }
                    Action::Nothing => {}
                    _ => return Err(not_a_table(&alter.name)),
                }
            }
            Ok(())
        })
    }
}

fn not_a_table(name: &RelationName) -> SqlError {
    SqlError::invalid(format!("{:?} is not a table", name.name)).code("42809").at(name.position)
}

/// Publishes a change that leaves rows and keys as they are: indexes and segments may come and go.
fn adapt(writer: &mut Writer<'_>, alteration: Alteration) -> Result<()> {
    let Alteration { before, mut after, .. } = alteration;
    for index in &before.indexes {
        if !after.indexes.iter().any(|other| other.root.id == index.root.id) {
            writer.free_tree(&index.root)?;
        }
    }
    for index in 0..after.indexes.len() {
        if !before.indexes.iter().any(|other| other.root.id == after.indexes[index].root.id) {
            after.indexes[index].root = index_rows(writer, &after, index)?;
        }
    }
    if before.segments.is_some() != after.segments.is_some() || before.bloom != after.bloom {
        if after.segments.is_some() {
            let root = before.segments.unwrap_or_else(|| SegmentsRoot::empty(writer.catalog.new_tree_id()));
            after.segments = Some(segments::build(writer.trees(), &after, &root)?);
        }
        if let Some(root) = &before.segments {
            segments::free(writer, &before, root)?;
        }
    }
    writer.catalog.remove(&before.name);
    writer.catalog.put(after);
    Ok(())
}

/// Publishes a change of rows or keys: all trees are built anew.
fn rewrite(writer: &mut Writer<'_>, alteration: Alteration, batches: Option<Batches<'_>>) -> Result<()> {
    let Alteration { before, mut after, .. } = alteration;
    clear_table(&mut writer.catalog, &mut after);
    free_table(writer, &before)?;
    writer.catalog.remove(&before.name);
    writer.catalog.put(after.clone());
    let Some(batches) = batches else { return Ok(()) };
    let mut read = 0;
    let shaped = batches.map(|batch| {
        let batch = texts(&batch?, &after)?;
        read += batch.num_rows() as u64;
        let columns: Vec<usize> = (0..after.columns.len()).collect();
        conform(&batch, &after, &columns, read - batch.num_rows() as u64 + 1)
    });
    let rows = load(writer, &after.name, shaped, &mut |_| {})?;
    number_on(&mut writer.catalog, &before, &after, rows);
    Ok(())
}

/// Sequences of columns that are new go on behind the numbers that rows have got.
fn number_on(catalog: &mut Catalog, before: &Table, after: &Table, rows: u64) {
    let added = after.details.iter().filter(|detail| before.position_of(detail.id).is_none());
    let sequences: Vec<Sequence> = added
        .filter_map(|detail| catalog.owned_sequence(after.id, detail.id).map(|sequence| Sequence::clone(sequence)))
        .collect();
    for sequence in sequences {
        let last_value = sequence.start.saturating_add(sequence.increment.saturating_mul(rows as i64 - 1));
        if rows > 0 {
            catalog.put_sequence(Sequence { position: SequencePosition { last_value, is_called: true }, ..sequence });
        }
    }
}

/// Values that become text are spelled as SQL spells them.
fn texts(batch: &RecordBatch, table: &Table) -> Result<RecordBatch> {
    let schema = batch.schema();
    let mut fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let mut arrays: Vec<ArrayRef> = batch.columns().to_vec();
    for (position, column) in table.columns.iter().enumerate() {
        let text = matches!(column.data_type, DataType::Text | DataType::Varchar(_) | DataType::Char(_));
        let Some(found) = crate::types::stored_as(arrays[position].data_type()) else { continue };
        if !text || found == DataType::Text {
            continue;
        }
        let reader = ColumnReader::new(&arrays[position], &Column { data_type: found, ..column.clone() })?;
        let spelled = (0..batch.num_rows()).map(|row| match reader.value(row) {
            ValueRef::Null => None,
            ValueRef::Bool(value) => Some(value.to_string()),
            value => Some(saki_base::display(value, found).to_string()),
        });
        let spelled: ArrayRef = Arc::new(spelled.collect::<StringArray>());
        fields[position] = fields[position].clone().with_data_type(arrow_schema::DataType::Utf8);
        arrays[position] = spelled;
    }
    Ok(RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), arrays)?)
}
