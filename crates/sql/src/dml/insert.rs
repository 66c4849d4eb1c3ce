//! INSERT INTO table [(columns)] [OVERRIDING …] {VALUES … | SELECT … | DEFAULT VALUES} [ON CONFLICT …] [RETURNING …].

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::sql::sqlparser::ast::{self, Expr, Query, SetExpr, TableObject, Value};
use futures::future::BoxFuture;

use super::bulk::{is_unreferred, load_stream};
use super::change::{ChangeStatement, Concern, Work, change};
use super::conflict::{OnConflict, Resolved, resolve};
use super::planned::{PlannedChange, Written};
use super::query::{Returning, columns, first_columns, width_of};
use super::rows::RowWriter;
use saki_base::DataType;
use saki_catalog::columns::check_lengths;
use saki_catalog::convert::conform;
use saki_catalog::{Position, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::constraint::{ActionRules, Defaults, RowChecks};
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv, Refusal};
use saki_plan::QueryEnv;
use saki_postgres::statement::{Overriding, object_name, parse_expression};
use saki_postgres::types::spelled;
use saki_store::Entry;

/// Rows encoded at a time.
const PIECE_ROWS: usize = 8192;

/// An INSERT, its table, and where that is named.
pub struct Insertion {
    insert: ast::Insert,
    name: String,
    position: Option<Position>,
}

impl ChangeStatement for Insertion {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(async move { Ok(self.planned(cx, env).await?.into_work()) })
    }
}

impl Insertion {
    /// # Errors
    /// `Unsupported` for what is no INSERT of PostgreSQL's; 42P01.
    pub fn read(cx: &StatementContext<'_>, insert: ast::Insert) -> Result<Self> {
        refuse_other_clauses(&insert)?;
        let (name, position) = table_name(&insert)?;
        if cx.planner.names.is_external(&name) {
            return Err(SqlError::invalid(format!("table {name:?} is external: its file is only read")));
        }
        cx.generation()?.catalog.table(&name).map_err(|error| error.at(position))?;
        Ok(Self { insert, name, position })
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.name
    }

    /// Makes the rows, and finds those that are there already.
    ///
    /// # Errors
    /// Of the query that makes them, and what the table's constraints say.
    pub async fn planned(&self, cx: &StatementContext<'_>, env: &ChangeEnv<'_>) -> Result<PlannedChange> {
        plan_insert(cx, env, &self.insert, &self.name).await.map_err(|error| error.at(self.position))
    }
}

pub async fn insert(cx: &StatementContext<'_>, insert: ast::Insert) -> Result<StatementResult> {
    let insertion = Insertion::read(cx, insert)?;
    if is_bulk(cx, &insertion.insert, &insertion.name)? {
        return insert_in_bulk(cx, &insertion.insert, &insertion.name, insertion.position).await;
    }
    change(cx, Concern::Related(&insertion.name), &insertion).await
}

/// Whether the rows may go straight to the base: many into a table without any, in a transaction by itself.
fn is_bulk(cx: &StatementContext<'_>, insert: &ast::Insert, name: &str) -> Result<bool> {
    let is_query = insert.source.as_ref().is_some_and(|query| !matches!(query.body.as_ref(), SetExpr::Values(_)));
    let is_plain = insert.on.is_none() && insert.returning.is_none();
    let generation = cx.generation()?;
    let is_empty = generation.catalog.get(name).is_some_and(|table| {
        is_unreferred(table) && table.root.is_empty() && generation.delta(table).is_none_or(|delta| delta.rows() == 0)
    });
    Ok(is_query && is_plain && is_empty && !cx.transactions.outlives_statement())
}

async fn insert_in_bulk(
    cx: &StatementContext<'_>,
    insert: &ast::Insert,
    name: &str,
    position: Option<Position>,
) -> Result<StatementResult> {
    let table = Arc::clone(cx.generation()?.catalog.table(name)?);
    let env = Arc::new(cx.env().await?);
    let source = Source::read(cx, &env, insert, &table).await?;
    let statement = ast::Statement::Query(Box::new(source.query));
    let planned = cx.plan(&statement).await?;
    fit(planned.plan.schema().fields().len(), &source.columns, &table).map_err(|error| error.at(position))?;
    // Parts of the plan run from here on: none of them may wait for the publication that waits for it.
    let _publishing = cx.sequences.publishing();
    let stream = cx.start(planned)?;
    let inserted = load_stream(cx, stream, table, source.columns).await?;
    Ok(StatementResult::done("INSERT", inserted))
}

async fn plan_insert(
    cx: &StatementContext<'_>,
    env: &ChangeEnv<'_>,
    insert: &ast::Insert,
    name: &str,
) -> Result<PlannedChange> {
    let table = Arc::clone(env.generation.catalog.table(name)?);
    let on_conflict = OnConflict::read(insert.on.as_ref(), &table)?;
    let source = Source::read(cx, env, insert, &table).await?;
    let found = cx.rows_of(env, source.query).await?;
    fit(found.num_columns(), &source.columns, &table)?;
    let rows = conform(&found, &table, &source.columns, 1, &cx.parameters.time())?;
    check_lengths(&rows, &table, 1)?;
    let checks = RowChecks::new(&cx.planner.state(), &table)?;
    checks.check(&rows)?;
    let alias = insert.table_alias.as_ref().map_or_else(|| name.to_owned(), |alias| alias.alias.value.clone());
    let resolved = match on_conflict {
        OnConflict::Refuse => Resolved::all_new(rows),
        on_conflict => resolve(cx, env, &table, &alias, rows, on_conflict, &checks).await?,
    };
    let returned = match &insert.returning {
        None => None,
        Some(items) => Some(Returning::new(items, &[])?.of_rows(cx, env, &alias, resolved.rows()?).await?),
    };
    let rules = ActionRules::new(|| cx.planner.state(), &env.generation.catalog, &table)?;
    let added = checks.complete(&resolved.new)?;
    let write = move |change: &mut Change<'_, '_>| {
        let mut writer = RowWriter::of_change(change, &table)?;
        let new = add(&mut writer, change, &added, 1)?;
        for pair in &resolved.updated {
            writer.update(change.transaction, &pair.after.0, &pair.before.1, &pair.after.1)?;
        }
        drop(writer);
        let rows = resolved.new.num_rows() + resolved.updated.len();
        let updated = resolved.updated.into_iter().map(|pair| (Some(pair.before), Some(pair.after)));
        let pairs = new.into_iter().map(|entry| (None, Some(entry))).chain(updated).collect();
        Ok(Written { table, rows, pairs, rules })
    };
    Ok(PlannedChange { tag: "INSERT", returned, write: Box::new(write) })
}

/// Adds complete rows of the table's own types; `first_row` counts them for messages. They are given back if foreign
/// keys are to be seen to.
pub fn add(
    writer: &mut RowWriter<'_>,
    change: &mut Change<'_, '_>,
    rows: &RecordBatch,
    first_row: u64,
) -> Result<Vec<Entry>, Refusal> {
    let has_references = !writer.finder.table.is_free_of_references();
    let mut added = Vec::new();
    let mut start = 0;
    while start < rows.num_rows() {
        let length = PIECE_ROWS.min(rows.num_rows() - start);
        let entries = writer.encode(&rows.slice(start, length), first_row + start as u64)?;
        for (key, row) in &entries {
            writer.insert(change.transaction, key, row)?;
        }
        added.extend(entries.into_iter().filter(|_| has_references));
        start += length;
    }
    Ok(added)
}

/// Where the rows of an INSERT come from.
struct Source {
    query: Query,
    /// Table columns that are named, or all.
    columns: Vec<usize>,
}

impl Source {
    async fn read(cx: &StatementContext<'_>, env: &Arc<QueryEnv>, insert: &ast::Insert, table: &Table) -> Result<Self> {
        let mut columns = columns(table, &insert.columns)?;
        let defaults = Defaults::new(&env.generation.catalog, table).overriding(Overriding::of(insert));
        let Some(query) = &insert.source else {
            let (query, columns) = defaults.row()?;
            return Ok(Self { query, columns });
        };
        if columns.is_empty() {
            let width = match Defaults::width(query) {
                Some(width) => width,
                None => width_of(cx, env, query).await?,
            };
            columns = first_columns(table, width)?;
        }
        let (mut query, columns) = defaults.complete(query.as_ref().clone(), &columns)?;
        one_by_one(&mut query, &columns, table)?;
        Ok(Self { query, columns })
    }
}

/// Values of an INSERT become what their column is one by one, where those of a query by itself would have to be of one
/// type: a column of texts takes `VALUES (1), ('a')`.
fn one_by_one(query: &mut Query, columns: &[usize], table: &Table) -> Result<()> {
    let SetExpr::Values(values) = query.body.as_mut() else { return Ok(()) };
    let is_text = |expr: &Expr| match expr {
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
        _ => false,
    };
    let says_nothing = |expr: &Expr| match expr {
        Expr::Value(value) => matches!(value.value, Value::Null | Value::Placeholder(_)),
        _ => false,
    };
    for (at, column) in columns.iter().enumerate() {
        let cells = || values.rows.iter().filter_map(|row| row.content.get(at)).filter(|cell| !says_nothing(cell));
        if !cells().any(is_text) || cells().all(is_text) {
            continue;
        }
        let data_type = match table.columns.get(*column).map(|column| column.data_type) {
            Some(DataType::Text | DataType::Varchar(_) | DataType::Char(_)) | None => DataType::Text,
            Some(data_type) => data_type,
        };
        for cell in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            if !says_nothing(cell) {
                *cell = parse_expression(&format!("CAST(({cell}) AS {})", spelled(data_type)))?;
            }
        }
    }
    Ok(())
}

/// A source must have a value for each column.
fn fit(found: usize, columns: &[usize], table: &Table) -> Result<()> {
    if found != columns.len() {
        return Err(SqlError::invalid(format!("{found} values for {} columns of table {}", columns.len(), table.name))
            .code("42601"));
    }
    Ok(())
}

fn table_name(insert: &ast::Insert) -> Result<(String, Option<Position>)> {
    match &insert.table {
        TableObject::TableName(name) => object_name(name),
        other => Err(SqlError::unsupported(format!("INSERT INTO {other} is not supported"))),
    }
}

fn refuse_other_clauses(insert: &ast::Insert) -> Result<()> {
    let refused = if insert.overwrite {
        "OVERWRITE"
    } else if insert.replace_into || insert.or.is_some() || insert.ignore {
        "a conflict clause of another dialect"
    } else if insert.insert_alias.is_some() {
        "an alias of the new rows"
    } else if !insert.assignments.is_empty() {
        "SET"
    } else if insert.partitioned.is_some() && Overriding::of(insert).is_none() {
        "PARTITION"
    } else if insert.output.is_some() {
        "OUTPUT"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(format!("INSERT: {refused} is not supported")))
}

impl Resolved {
    /// All rows that there are after the statement, those that stay as they were left out.
    fn rows(&self) -> Result<RecordBatch> {
        Ok(arrow::compute::concat_batches(&self.new.schema(), [&self.new, &self.changed])?)
    }
}
