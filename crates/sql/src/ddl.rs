//! Tables, indexes and what else there is coming and going.
//!
//! ```text
//!   statement ─► plain change of a catalog (constraint, column, alter, …)
//!                  ├─ tried on the snapshot's catalog: what it asks of rows is checked by queries (validate)
//!                  └─ made on the writer's catalog, with trees built or given back, in one publication
//! ```

pub mod alter;
mod alteration;
mod column;
mod comment;
mod constraint;
mod create_as;
mod dependents;
mod drop;
mod rename;
mod schema;
mod sequence;
mod truncate;
mod vacuum;
mod validate;
mod view;

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast::{self, Expr, visit_expressions, visit_expressions_mut};
use saki_base::TableId;
use saki_columns::SegmentsRoot;
use saki_tree::TreeRoot;

use crate::catalog::{Catalog, Index, Table};
use crate::constraint::{Defaults, RowChecks};
use crate::database::{Database, tree_error, volume_error};
use crate::entries::{EntryDecoder, EntryEncoder};
use crate::error::{Result, SqlError};
use crate::load::build_index;
use crate::segments;
use crate::session::{Session, StatementResult};
use crate::statement::copy::FileFormat;
use crate::statement::create_index::{self, NewIndex};
use crate::statement::create_table::{NewTable, NewTableAs};
use crate::statement::table_options::TableOptions;
use crate::statement::{RelationName, name_of, object_name, quoted};
use crate::writer::Writer;

impl Session {
    pub(crate) async fn create_table(&self, create: &ast::CreateTable) -> Result<StatementResult> {
        if let Some(query) = &create.query {
            return self.create_table_as(NewTableAs::read(create, query)?).await;
        }
        let new = NewTable::read(create)?;
        self.refuse_external(&new.name)?;
        let mut catalog = self.db.snapshot().catalog.clone();
        if let Some(table) = make_table(&mut catalog, &new)? {
            self.check_expressions(&catalog, &table)?;
        }
        self.blocking(move |db| db.create_table(&new)).await?;
        Ok(StatementResult::done("CREATE TABLE", 0))
    }

    /// Reads every default and condition of a table, so that none is stored that cannot be.
    fn check_expressions(&self, catalog: &Catalog, table: &Table) -> Result<()> {
        let state = self.context.state();
        RowChecks::new(&state, &Arc::new(table.clone()))?;
        Defaults::check_all(&state, catalog, table)
    }

    pub(crate) async fn create_index(&self, create: ast::CreateIndex) -> Result<StatementResult> {
        if create.concurrently {
            self.outside_of_block("CREATE INDEX CONCURRENTLY")?;
        }
        let (table, _) = create_index::table_name(&create)?;
        let _alone = self.alone(vec![table]).await?;
        self.blocking(move |db| db.create_index(&create)).await?;
        Ok(StatementResult::done("CREATE INDEX", 0))
    }

    /// CREATE EXTERNAL TABLE: a name for files, in this session.
    pub(crate) async fn create_external_table(&self, create: CreateExternalTable) -> Result<StatementResult> {
        let (name, position) = object_name(&create.name)?;
        if self.public.is_external(&name) || self.db.snapshot().catalog.kind_of(&name).is_some() {
            if create.if_not_exists {
                return Ok(StatementResult::done("CREATE EXTERNAL TABLE", 0));
            }
            return Err(taken(&name).at(position));
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

    /// Refuses the name of a file that this session calls a table.
    fn refuse_external(&self, name: &RelationName) -> Result<()> {
        match self.public.is_external(&name.name) {
            true => Err(taken(&name.name).at(name.position)),
            false => Ok(()),
        }
    }
}

impl Database {
    fn create_table(&self, new: &NewTable) -> Result<()> {
        self.write(|writer| {
            if let Some(table) = make_table(&mut writer.catalog, new)? {
                writer.catalog.put(table);
            }
            Ok(())
        })
    }

    fn create_index(&self, create: &ast::CreateIndex) -> Result<()> {
        let (table_name, position) = create_index::table_name(create)?;
        self.write(|writer| {
            let mut table = Table::clone(writer.catalog.table(&table_name).map_err(|error| error.at(position))?);
            let new = NewIndex::read(create, &table)?;
            let name = match new.named {
                true => new.name,
                false => constraint::free_name(&writer.catalog, &table, &table.schema, unqualified(&table, &new.name)),
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
                comment: None,
                root: TreeRoot::empty(tree),
            });
            let index = table.indexes.len() - 1;
            table.indexes[index].root = index_rows(writer, &table, index)?;
            writer.catalog.put(table);
            Ok(())
        })
    }
}

fn unqualified<'n>(table: &Table, name: &'n str) -> &'n str {
    crate::catalog::bare(&table.schema, name)
}

/// The table a statement asks for, with its sequences in the catalog; `None`: it is there and may be.
fn make_table(catalog: &mut Catalog, new: &NewTable) -> Result<Option<Table>> {
    let Some(mut table) = empty_table(catalog, &new.name, new.if_not_exists)? else { return Ok(None) };
    for column in &new.columns {
        column::add(catalog, &mut table, column)?;
    }
    // Keys first: a foreign key of the table may refer to it.
    let constraints = || new.columns.iter().flat_map(|column| &column.constraints).chain(&new.constraints);
    let is_key = |new: &crate::statement::constraint::NewConstraint| {
        use crate::statement::constraint::NewConstraintKind::{PrimaryKey, Unique};
        matches!(new.kind, PrimaryKey(_) | Unique(_))
    };
    for constraint in constraints().filter(|new| is_key(new)).chain(constraints().filter(|new| !is_key(new))) {
        constraint::add(catalog, &mut table, constraint)?;
    }
    set_options(catalog, &mut table, &new.options)?;
    Ok(Some(table))
}

/// A table without columns, which has its name to itself; `None`: there is one and there may be.
fn empty_table(catalog: &mut Catalog, name: &RelationName, if_not_exists: bool) -> Result<Option<Table>> {
    if !catalog.has_schema(&name.schema) {
        return Err(schema::undefined(&name.schema).at(name.position));
    }
    if catalog.kind_of(&name.name).is_some() {
        return match if_not_exists {
            true => Ok(None),
            false => Err(taken(&name.name).hint("CREATE TABLE IF NOT EXISTS leaves it as it is").at(name.position)),
        };
    }
    Ok(Some(Table {
        id: catalog.new_table_id(),
        name: name.name.clone(),
        schema: name.schema.clone(),
        columns: Vec::new(),
        details: Vec::new(),
        next_column_id: 0,
        layout_version: 0,
        primary_key: Vec::new(),
        primary_key_constraint: None,
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        resident: false,
        comment: None,
        next_row_id: 0,
        root: TreeRoot::empty(catalog.new_tree_id()),
        indexes: Vec::new(),
        segments: None,
        bloom: Vec::new(),
        statistics: None,
        delta: TableId(0),
        merged_through: 0,
    }))
}

/// Options of a table that is empty.
fn set_options(catalog: &mut Catalog, table: &mut Table, options: &TableOptions) -> Result<()> {
    let on = options.columns.unwrap_or(true);
    table.segments = on.then(|| SegmentsRoot::empty(catalog.new_tree_id()));
    table.bloom = options.bloom_columns(&table.columns, on, &[])?;
    table.resident = options.resident.unwrap_or(false);
    Ok(())
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

/// Gives all trees and segments of a table back.
fn free_table(writer: &mut Writer<'_>, table: &Table) -> Result<()> {
    writer.free_tree(&table.root)?;
    for index in &table.indexes {
        writer.free_tree(&index.root)?;
    }
    if let Some(root) = &table.segments {
        segments::free(writer, table, root)?;
    }
    Ok(())
}

/// Gives a table new trees without entries; the old ones are to be given back by who has the table as it was.
fn clear_table(catalog: &mut Catalog, table: &mut Table) {
    table.root = TreeRoot::empty(catalog.new_tree_id());
    for index in &mut table.indexes {
        index.root = TreeRoot::empty(catalog.new_tree_id());
    }
    table.segments = table.segments.map(|_| SegmentsRoot::empty(catalog.new_tree_id()));
    table.next_row_id = 0;
    table.statistics = None;
    table.layout_version += 1;
}

fn taken(name: &str) -> SqlError {
    SqlError::invalid(format!("relation {name:?} already exists")).code("42P07")
}

/// An expression as the catalog keeps it. A name needs no cast to `regclass`.
fn stored_text(expression: &Expr) -> String {
    let mut expression = expression.clone();
    let _ = visit_expressions_mut(&mut expression, |node: &mut Expr| {
        if let Expr::Cast { expr, data_type, .. } = node
            && data_type.to_string().eq_ignore_ascii_case("regclass")
        {
            *node = expr.as_ref().clone();
        }
        ControlFlow::<()>::Continue(())
    });
    expression.to_string()
}

/// Positions of a table's columns that an expression names, each once.
pub(crate) fn columns_named(table: &Table, expression: &Expr) -> Vec<usize> {
    let mut named = Vec::new();
    let _ = visit_expressions(expression, |node: &Expr| {
        let ident = match node {
            Expr::Identifier(ident) => Some(ident),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if let Some(position) = ident.and_then(|ident| table.column(&name_of(ident)))
            && !named.contains(&position)
        {
            named.push(position);
        }
        ControlFlow::<()>::Continue(())
    });
    named
}

/// A relation's name as a statement has to spell it.
fn quoted_relation(schema: &str, bare: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(bare))
}
