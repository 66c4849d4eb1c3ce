//! CREATE [OR REPLACE] VIEW.

use std::collections::BTreeMap;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, CreateTableOptions};

use super::enumeration::refuse_taken;
use crate::names::{refuse_external, taken};
use crate::schema::ready;
use saki_catalog::{Catalog, RelationKind, Result, SqlError, View, ViewColumn};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::{StatementResult, spell_types};
use saki_parameters::is_temporary;
use saki_postgres::statement::name_of;
use saki_postgres::types::stored_as;
use saki_postgres::{RelationName, dialect};
use saki_store::locks::{LockMode, Policy};

/// A view to be made.
struct NewView {
    name: RelationName,
    or_replace: bool,
    if_not_exists: bool,
    sql: String,
    columns: Vec<ViewColumn>,
    relations: Vec<String>,
    uses: BTreeMap<u32, Vec<u32>>,
}

pub async fn create_view(cx: &StatementContext<'_>, create: &ast::CreateView) -> Result<StatementResult> {
    refuse_other_clauses(create)?;
    let name = RelationName::read(&create.name)?;
    refuse_external(cx, &name)?;
    let _named = cx.transactions.lock_name(&name.name).await?;
    let statement = Statement::Statement(Box::new(ast::Statement::Query(create.query.clone())));
    let mut relations = named(cx, &name, &statement)?;
    let mut wanted: Vec<_> = relations.iter().map(|relation| (relation.clone(), LockMode::AccessShare)).collect();
    wanted.extend(create.or_replace.then(|| (name.name.clone(), LockMode::AccessExclusive)));
    let _held = cx.transactions.lock_tables(&wanted, Policy::Wait).await?;
    // Only now: what it names stays as it is found.
    let (plan, seen) = cx.logical_plan(statement).await?;
    let columns = columns(create, &plan)?;
    let optimized = cx.planner.context.state().optimize(&plan)?;
    let uses = uses(&seen.catalog, &optimized)?;
    // System relations depend on nobody.
    relations.retain(|relation| seen.catalog.kind_of(relation).is_some());
    let new = NewView {
        name,
        or_replace: create.or_replace,
        if_not_exists: create.if_not_exists,
        sql: spelled(&create.query, &seen.catalog),
        columns,
        relations,
        uses,
    };
    cx.change_catalog(move |db| publish(db, new, &seen.catalog)).await?;
    Ok(StatementResult::done("CREATE VIEW", 0))
}

/// A view's query as the catalog keeps it.
fn spelled(query: &ast::Query, catalog: &Catalog) -> String {
    let mut query = query.clone();
    spell_types(&mut query, catalog);
    query.to_string()
}

/// Tables and views that a view's query names.
fn named(cx: &StatementContext<'_>, name: &RelationName, statement: &Statement) -> Result<Vec<String>> {
    let references = cx.planner.context.state().resolve_table_references(statement)?;
    let mut relations = Vec::new();
    for reference in references {
        let schema = reference.schema().unwrap_or(saki_catalog::PUBLIC);
        let relation = saki_catalog::qualified(schema, reference.table());
        if cx.planner.names.is_external(&relation) {
            return Err(SqlError::unsupported(format!("view {:?} over external table {relation:?}", name.name))
                .hint("external tables are a session's"));
        }
        if is_temporary(schema) && !is_temporary(&name.schema) {
            return Err(SqlError::unsupported(format!(
                "view {:?} would outlive temporary table {relation:?}",
                name.name
            ))
            .hint("CREATE TEMPORARY VIEW makes one that goes with it"));
        }
        if !relations.contains(&relation) {
            relations.push(relation);
        }
    }
    Ok(relations)
}

/// `seen` is what it was planned with.
fn publish(db: &Stoppable<'_>, new: NewView, seen: &Catalog) -> Result<()> {
    db.write(|writer| {
        let catalog = &mut writer.catalog;
        let NewView { name, or_replace, if_not_exists, sql, columns, relations, uses } = new;
        ready(catalog, &name)?;
        let id = match catalog.kind_of(&name.name) {
            None => {
                refuse_taken(catalog, &name.schema, &name.name).map_err(|error| error.at(name.position))?;
                catalog.new_table_id()
            }
            Some(RelationKind::View) if or_replace => replace(catalog, &name, &columns)?,
            Some(_) if if_not_exists => return Ok(()),
            Some(RelationKind::View) | Some(_) if !or_replace => return Err(taken(&name.name).at(name.position)),
            Some(_) => {
                return Err(SqlError::invalid(format!("{:?} is not a view", name.name))
                    .code("42809")
                    .at(name.position));
            }
        };
        refuse_changed(seen, catalog, &relations)?;
        let RelationName { schema, name, .. } = name;
        catalog.put_view(View { id, name: name.clone(), schema, sql, columns, relations, uses, comment: None });
        catalog.refuse_deep(&name)
    })
}

/// A snapshot that the transaction keeps may be older than what the view is going to be over.
fn refuse_changed(seen: &Catalog, now: &Catalog, relations: &[String]) -> Result<()> {
    let is_same = |name: &&String| match (seen.get(name), now.get(name), seen.view(name), now.view(name)) {
        (Some(seen), Some(now), ..) => seen.id == now.id && seen.columns == now.columns,
        (None, None, Some(seen), Some(now)) => seen.id == now.id && seen.columns == now.columns,
        _ => false,
    };
    match relations.iter().find(|name| !is_same(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("could not serialize access: relation {name:?} has changed since the snapshot");
            Err(SqlError::invalid(message).code("40001").hint("repeat the transaction"))
        }
    }
}

/// The id of the view to be replaced, whose columns must stay the first of the new one.
fn replace(catalog: &Catalog, name: &RelationName, columns: &[ViewColumn]) -> Result<saki_base::TableId> {
    let invalid = |message: String| Err(SqlError::invalid(message).code("42P16").at(name.position));
    let Some(before) = catalog.view(&name.name) else { return Err(SqlError::internal("a view is gone")) };
    if columns.len() < before.columns.len() {
        return invalid("cannot drop columns from view".into());
    }
    for (old, new) in before.columns.iter().zip(columns) {
        if old.name != new.name {
            return invalid(format!("cannot change name of view column {:?} to {:?}", old.name, new.name));
        }
        if old.data_type != new.data_type {
            return invalid(format!("cannot change data type of view column {:?}", old.name));
        }
    }
    Ok(before.id)
}

/// Names and types of a view's columns.
fn columns(create: &ast::CreateView, plan: &LogicalPlan) -> Result<Vec<ViewColumn>> {
    let fields = plan.schema().fields();
    if create.columns.len() > fields.len() {
        return Err(SqlError::invalid("CREATE VIEW specifies more column names than columns").code("42601"));
    }
    let mut columns: Vec<ViewColumn> = Vec::with_capacity(fields.len());
    for (position, field) in fields.iter().enumerate() {
        let name = create
            .columns
            .get(position)
            .map_or_else(|| dialect::unmarked(field.name()), |column| name_of(&column.name));
        if columns.iter().any(|column| column.name == name || column.source == *field.name()) {
            return Err(SqlError::invalid(format!("column {name:?} specified more than once"))
                .code("42701")
                .hint("give each column of the query a name of its own"));
        }
        columns.push(ViewColumn { name, source: field.name().clone(), data_type: stored_as(field.data_type()) });
    }
    Ok(columns)
}

/// The columns of tables that a plan needs, by table: those it reads, and those that its conditions on a scan name.
fn uses(catalog: &Catalog, plan: &LogicalPlan) -> Result<BTreeMap<u32, Vec<u32>>> {
    let mut uses: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let schema = scan.table_name.schema().unwrap_or(saki_catalog::PUBLIC);
            let name = saki_catalog::qualified(schema, scan.table_name.table());
            let known = catalog.get(&name);
            if let Some(table) = known {
                let mut positions = match &scan.projection {
                    Some(projection) => projection.clone(),
                    None => (0..table.width()).collect(),
                };
                let named = scan.filters.iter().flat_map(|filter| filter.column_refs());
                positions.extend(named.filter_map(|column| table.column(&column.name)));
                let used = uses.entry(table.id.0).or_default();
                used.extend(positions.into_iter().filter_map(|position| Some(table.details.get(position)?.id)));
                used.sort_unstable();
                used.dedup();
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(uses)
}

fn refuse_other_clauses(create: &ast::CreateView) -> Result<()> {
    let refused = if create.materialized {
        "MATERIALIZED"
    } else if create.secure
        || create.or_alter
        || create.to.is_some()
        || create.params.is_some()
        || create.with_no_schema_binding
        || !create.cluster_by.is_empty()
        || create.copy_grants
    {
        "a clause of another dialect"
    } else if !matches!(create.options, CreateTableOptions::None) {
        "an option"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(format!("CREATE VIEW: {refused} is not supported")))
}
