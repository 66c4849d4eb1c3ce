//! CREATE TABLE.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use saki_base::TableId;
use saki_columns::SegmentsRoot;
use saki_tree::TreeRoot;

use super::enumeration::refuse_taken;
use super::{column, constraint};
use crate::dependents::{sequences_drawn, tables_referred_to};
use crate::names::{refuse_external, taken};
use crate::schema::ready;
use saki_catalog::{Catalog, Result, Table};
use saki_context::StatementContext;
use saki_context::constraint::{Defaults, RowChecks};
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_postgres::{NewConstraint, NewConstraintKind, NewTable, RelationName, TableOptions};
use saki_store::locks::Policy;

pub async fn create_table(cx: &StatementContext<'_>, create: &ast::CreateTable) -> Result<StatementResult> {
    let new = NewTable::read(create)?;
    refuse_external(cx, &new.name)?;
    let _named = cx.transactions.lock_name(&new.name.name).await?;
    let constraints = new.columns.iter().flat_map(|column| &column.constraints).chain(&new.constraints);
    let mut named = tables_referred_to(constraints);
    named.extend(sequences_drawn(new.columns.iter().filter_map(|column| column.default.as_ref())));
    let _referred = cx.transactions.lock_tables(&named, Policy::Wait).await?;
    // Only now: what it names stays as it is found.
    let mut catalog = cx.generation()?.catalog.clone();
    if let Some(table) = make_table(&mut catalog, &new)? {
        check_expressions(cx, &catalog, &table)?;
    }
    cx.change_catalog(move |db| publish(db, &new)).await?;
    Ok(StatementResult::done("CREATE TABLE", 0))
}

/// Reads every default and condition of a table, so that none is stored that cannot be.
pub fn check_expressions(cx: &StatementContext<'_>, catalog: &Catalog, table: &Table) -> Result<()> {
    let state = cx.planner.context.state();
    RowChecks::new(&state, &Arc::new(table.clone()))?;
    Defaults::check_all(&state, catalog, table)
}

fn publish(db: &Stoppable<'_>, new: &NewTable) -> Result<()> {
    db.write(|writer| {
        if let Some(table) = make_table(&mut writer.catalog, new)? {
            writer.catalog.put(table);
        }
        Ok(())
    })
}

/// The table a statement asks for, with its sequences in the catalog; `None`: it is there and may be.
fn make_table(catalog: &mut Catalog, new: &NewTable) -> Result<Option<Table>> {
    let Some(mut table) = empty_table(catalog, &new.name, new.if_not_exists)? else { return Ok(None) };
    for column in &new.columns {
        column::add(catalog, &mut table, column)?;
    }
    // Keys first: a foreign key of the table may refer to it.
    let constraints = || new.columns.iter().flat_map(|column| &column.constraints).chain(&new.constraints);
    let is_key =
        |new: &NewConstraint| matches!(new.kind, NewConstraintKind::PrimaryKey(_) | NewConstraintKind::Unique(_));
    for constraint in constraints().filter(|new| is_key(new)).chain(constraints().filter(|new| !is_key(new))) {
        constraint::add(catalog, &mut table, constraint)?;
    }
    set_options(catalog, &mut table, &new.options)?;
    Ok(Some(table))
}

/// A table without columns, which has its name to itself; `None`: there is one and there may be.
pub fn empty_table(catalog: &mut Catalog, name: &RelationName, if_not_exists: bool) -> Result<Option<Table>> {
    ready(catalog, name)?;
    if catalog.kind_of(&name.name).is_some() {
        return match if_not_exists {
            true => Ok(None),
            false => Err(taken(&name.name).hint("CREATE TABLE IF NOT EXISTS leaves it as it is").at(name.position)),
        };
    }
    refuse_taken(catalog, &name.schema, &name.name).map_err(|error| error.at(name.position))?;
    Ok(Some(Table {
        id: catalog.new_table_id(),
        name: name.name.clone(),
        schema: name.schema.clone(),
        columns: Vec::new(),
        details: Vec::new(),
        next_column_id: 0,
        stored: saki_catalog::StoredColumns::default(),
        layout_version: 0,
        primary_key: Vec::new(),
        primary_key_constraint: None,
        primary_key_comment: None,
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        resident: false,
        tier: saki_catalog::TableTier::Auto,
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
pub fn set_options(catalog: &mut Catalog, table: &mut Table, options: &TableOptions) -> Result<()> {
    let on = options.columns.unwrap_or(true);
    table.segments = on.then(|| SegmentsRoot::empty(catalog.new_tree_id()));
    table.bloom = options.bloom_columns(&table.columns, on, &[])?;
    table.resident = options.resident.unwrap_or(false);
    table.tier = options.tier.unwrap_or_default();
    Ok(())
}
