//! Tables and indexes coming and going.

use std::sync::Arc;

use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast;
use saki_base::TableId;
use saki_columns::SegmentsRoot;
use saki_tree::TreeRoot;

use crate::catalog::{Index, Table};
use crate::database::{Database, tree_error, volume_error};
use crate::entries::{EntryDecoder, EntryEncoder};
use crate::error::{Position, Result, SqlError};
use crate::load::build_index;
use crate::segments;
use crate::session::{Session, StatementResult};
use crate::statement::alter_table::AlterTable;
use crate::statement::copy::FileFormat;
use crate::statement::create_index::{self, NewIndex};
use crate::statement::create_table::NewTable;
use crate::statement::object_name;
use crate::writer::Writer;

impl Session {
    pub(crate) async fn create_table(&self, create: &ast::CreateTable) -> Result<StatementResult> {
        let new = NewTable::read(create)?;
        if self.public.is_external(&new.name) {
            return Err(SqlError::invalid(format!("table {:?} is there already", new.name)).at(new.position));
        }
        self.blocking(move |db| db.create_table(new)).await?;
        Ok(StatementResult::done("CREATE TABLE", 0))
    }

    pub(crate) async fn alter_table(&self, alter: &ast::AlterTable) -> Result<StatementResult> {
        let change = AlterTable::read(alter)?;
        self.blocking(move |db| db.alter_table(&change)).await?;
        Ok(StatementResult::done("ALTER TABLE", 0))
    }

    pub(crate) async fn create_index(&self, create: ast::CreateIndex) -> Result<StatementResult> {
        self.blocking(move |db| db.create_index(&create)).await?;
        Ok(StatementResult::done("CREATE INDEX", 0))
    }

    /// CREATE EXTERNAL TABLE: a name for files, in this session.
    pub(crate) async fn create_external_table(&self, create: CreateExternalTable) -> Result<StatementResult> {
        let (name, position) = object_name(&create.name)?;
        if self.public.is_external(&name) || self.db.snapshot().catalog.get(&name).is_some() {
            if create.if_not_exists {
                return Ok(StatementResult::done("CREATE EXTERNAL TABLE", 0));
            }
            return Err(SqlError::invalid(format!("table {name:?} is there already")).at(position));
        }
        let [location] = &create.locations[..] else {
            return Err(SqlError::unsupported("an external table has one LOCATION").at(position));
        };
        if !create.columns.is_empty() || !create.table_partition_cols.is_empty() {
            return Err(SqlError::unsupported("columns of an external table are read from its file").at(position));
        }
        let format = FileFormat::named(&create.file_type)?;
        let mut csv = crate::statement::copy::CsvOptions { header: true, ..Default::default() };
        for (key, value) in &create.options {
            let value = value.to_string();
            csv.set(key.trim_start_matches("format.").trim_start_matches("has_"), value.trim_matches('\''))?;
        }
        self.register_file(&name, location, format, &csv).await?;
        Ok(StatementResult::done("CREATE EXTERNAL TABLE", 0))
    }
}

impl Database {
    fn create_table(&self, new: NewTable) -> Result<()> {
        self.write(|writer| {
            if writer.catalog.get(&new.name).is_some() || writer.catalog.index(&new.name).is_some() {
                if new.if_not_exists {
                    return Ok(());
                }
                return Err(SqlError::invalid(format!("{:?} is there already", new.name))
                    .hint("CREATE TABLE IF NOT EXISTS leaves it as it is")
                    .at(new.position));
            }
            let id = writer.catalog.new_table_id();
            let tree = writer.catalog.new_tree_id();
            let segments = new.segments.then(|| SegmentsRoot::empty(writer.catalog.new_tree_id()));
            writer.catalog.put(Table {
                id,
                name: new.name,
                columns: new.columns,
                primary_key: new.primary_key,
                next_row_id: 0,
                root: TreeRoot::empty(tree),
                indexes: Vec::new(),
                segments,
                bloom: new.bloom,
                statistics: None,
                delta: TableId(0),
                merged_through: 0,
            });
            Ok(())
        })
    }

    fn create_index(&self, create: &ast::CreateIndex) -> Result<()> {
        let (table_name, position) = create_index::table_name(create)?;
        self.write(|writer| {
            let mut table = Table::clone(writer.catalog.table(&table_name).map_err(|error| error.at(position))?);
            let new = NewIndex::read(create, &table)?;
            if writer.catalog.index(&new.name).is_some() || writer.catalog.get(&new.name).is_some() {
                if new.if_not_exists {
                    return Ok(());
                }
                return Err(SqlError::invalid(format!("{:?} is there already", new.name)).at(new.position));
            }
            let tree = writer.catalog.new_tree_id();
            table.indexes.push(Index {
                name: new.name,
                columns: new.columns,
                unique: new.unique,
                include: new.include,
                root: TreeRoot::empty(tree),
            });
            let index = table.indexes.len() - 1;
            table.indexes[index].root = index_rows(writer, &table, index)?;
            writer.catalog.put(table);
            Ok(())
        })
    }

    fn alter_table(&self, change: &AlterTable) -> Result<()> {
        self.write(|writer| {
            let found = writer.catalog.get(&change.name).cloned();
            let Some(found) = found else {
                return match change.if_exists {
                    true => Ok(()),
                    false => writer.catalog.table(&change.name).map(drop).map_err(|error| error.at(change.position)),
                };
            };
            let mut table = Table::clone(&found);
            let on = change.options.columns.unwrap_or(table.segments.is_some());
            table.bloom = change.options.bloom_columns(&table.columns, on, &table.bloom)?;
            if on == table.segments.is_some() && table.bloom == found.bloom {
                return Ok(());
            }
            table.segments = match on {
                true => {
                    let before = table.segments.unwrap_or_else(|| SegmentsRoot::empty(writer.catalog.new_tree_id()));
                    Some(segments::build(writer.trees(), &table, &before)?)
                }
                false => None,
            };
            if let Some(before) = &found.segments {
                segments::free(writer, &found, before)?;
            }
            writer.catalog.put(table);
            Ok(())
        })
    }

    pub(crate) fn drop_objects(
        &self,
        tables: bool,
        if_exists: bool,
        names: &[(String, Option<Position>)],
    ) -> Result<()> {
        self.write(|writer| {
            for (name, position) in names {
                let dropped = if tables { drop_table(writer, name)? } else { drop_index(writer, name)? };
                if !dropped && !if_exists {
                    let kind = if tables { "table" } else { "index" };
                    return Err(SqlError::invalid(format!("there is no {kind} {name:?}")).at(*position));
                }
            }
            Ok(())
        })
    }
}

/// Builds an index from the rows that are there.
fn index_rows(writer: &mut Writer<'_>, table: &Table, index: usize) -> Result<TreeRoot> {
    let mut sorter = writer.trees().sorter(writer.db.options.load_memory_bytes / 2);
    let mut decoder = EntryDecoder::new(table.primary_layout());
    let mut encoder = EntryEncoder::new(table.index_layout(&table.indexes[index]));
    let mut entries = writer.reader().scan(&table.root);
    while let Some((key, row)) = entries.next().map_err(tree_error)? {
        decoder.decode(table, key, row, |values| encoder.encode(&mut Vec::new(), |column| values[column]))??;
        sorter.push(&encoder.key, &encoder.row).map_err(volume_error)?;
    }
    build_index(writer.trees(), table, index, sorter)
}

fn drop_table(writer: &mut Writer<'_>, name: &str) -> Result<bool> {
    let Some(table) = writer.catalog.remove(name) else { return Ok(false) };
    writer.free_tree(&table.root)?;
    for index in &table.indexes {
        writer.free_tree(&index.root)?;
    }
    if let Some(root) = &table.segments {
        segments::free(writer, &table, root)?;
    }
    Ok(true)
}

fn drop_index(writer: &mut Writer<'_>, name: &str) -> Result<bool> {
    let Some((table, position)) = writer.catalog.index(name) else { return Ok(false) };
    let mut table = Table::clone(&Arc::clone(table));
    let index = table.indexes.remove(position);
    writer.free_tree(&index.root)?;
    writer.catalog.put(table);
    Ok(true)
}
