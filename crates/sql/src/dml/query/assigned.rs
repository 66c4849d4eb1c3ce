//! What SET assigns: to a column its value, and to several at once the values of a row, which a query may give.
//!
//! A query is worked out once for each row that is changed: it is a scalar subquery, whose value is all of its columns
//! as one struct. [`Assigned::spread`] takes that apart again.

use std::sync::Arc;

use arrow::compute::{is_null, nullif};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{Field, Schema};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableAlias, TableFactor, TableWithJoins,
};

use super::columns::column;
use super::find::{named, select};
use saki_catalog::{Catalog, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::constraint::{Defaults, is_default};
use saki_context::planner::logical_plan;
use saki_plan::QueryEnv;
use saki_postgres::dialect::row_values;
use saki_postgres::statement::parse_query;
use saki_postgres::statement::walk::walk_expressions_mut;

/// What SET assigns to columns of a table.
pub struct Assigned(Vec<Part>);

/// What is assigned at once.
struct Part {
    columns: Vec<usize>,
    /// `None`: DEFAULT, to one column.
    value: Option<Expr>,
    /// The query that is a row, as it was written, if only planning it tells how many columns it has.
    unmeasured: Option<Box<Query>>,
}

impl Assigned {
    /// # Errors
    /// 42703 for what is no column; 42601 for a column that is assigned twice, and where there are more columns than
    /// values, or fewer.
    pub fn read(table: &Table, list: &[Assignment]) -> Result<Self> {
        let mut parts: Vec<Part> = Vec::new();
        for Assignment { target, value } in list {
            match target {
                AssignmentTarget::ColumnName(name) => parts.push(Part::value(column(table, name)?.0, value)),
                AssignmentTarget::Tuple(names) => {
                    let columns = names.iter().map(|name| column(table, name)).collect::<Result<Vec<_>>>()?;
                    let place = columns.first().and_then(|(_, place)| *place);
                    let columns: Vec<usize> = columns.into_iter().map(|(column, _)| column).collect();
                    parts.extend(row(columns, value).map_err(|error| error.at(place))?);
                }
            }
        }
        let assigned = Self(parts);
        let columns = assigned.columns();
        if let Some((_, twice)) = columns.iter().enumerate().find(|(at, column)| columns[..*at].contains(column)) {
            let name = &table.columns[*twice].name;
            return Err(SqlError::invalid(format!("multiple assignments to same column {name:?}")).code("42601"));
        }
        Ok(assigned)
    }

    /// The columns, each once, in the order in which they are assigned.
    pub fn columns(&self) -> Vec<usize> {
        self.0.iter().flat_map(|part| part.columns.iter().copied()).collect()
    }

    /// Each column and its value; `None` if one is DEFAULT, or the values of several come from a query.
    pub fn written(&self) -> Option<impl Iterator<Item = (usize, &Expr)>> {
        let is_written = |part: &Part| part.value.is_some() && part.columns.len() == 1;
        let pairs = self.0.iter().filter_map(|part| Some((*part.columns.first()?, part.value.as_ref()?)));
        self.0.iter().all(is_written).then_some(pairs)
    }

    /// The new values as items of a query.
    ///
    /// # Errors
    /// 428C9 for a value for a GENERATED ALWAYS column.
    pub fn items(&self, catalog: &Catalog, table: &Table) -> Result<Vec<SelectItem>> {
        let item = |(place, part): (usize, &Part)| {
            let value = match &part.value {
                Some(value) => {
                    part.columns.iter().try_for_each(|column| Defaults::check_update(table, *column, value))?;
                    value.clone()
                }
                None => Defaults::new(catalog, table).value(part.columns[0])?,
            };
            Ok(named(value, format!("new {place}")))
        };
        self.0.iter().enumerate().map(item).collect()
    }

    /// Changes all expressions that are assigned, those of queries too.
    pub fn change(&mut self, mut change: impl FnMut(&mut Expr)) {
        for value in self.0.iter_mut().filter_map(|part| part.value.as_mut()) {
            let _ = walk_expressions_mut(value, |expr| {
                change(expr);
                std::ops::ControlFlow::<()>::Continue(())
            });
        }
    }

    /// Rows that have [`Self::items`] from column `first` on, with a column for each of [`Self::columns`] in their
    /// place. Where a query gave no row they are NULL.
    ///
    /// # Errors
    /// Of arrays that do not belong together.
    pub fn spread(&self, found: RecordBatch, first: usize) -> Result<RecordBatch> {
        if self.0.iter().all(|part| part.columns.len() == 1) {
            return Ok(found);
        }
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (place, array) in found.columns().iter().enumerate() {
            let part = place.checked_sub(first).and_then(|part| self.0.get(part));
            if part.is_none_or(|part| part.columns.len() <= 1) {
                fields.push(Arc::new(found.schema().field(place).clone()));
                arrays.push(Arc::clone(array));
                continue;
            }
            let rows = array.as_struct_opt().ok_or_else(|| SqlError::internal("a row that is no struct"))?;
            let is_missing = is_null(rows)?;
            for (number, value) in rows.columns().iter().enumerate() {
                let name = format!("new {}", fields.len());
                fields.push(Arc::new(Field::new(name, rows.column(number).data_type().clone(), true)));
                arrays.push(nullif(value, &is_missing)?);
            }
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }

    /// Plans the queries of which their text does not tell how many columns they have, beside `relations`.
    ///
    /// # Errors
    /// 42601 for one that has another number of columns than it is assigned to.
    pub async fn measure(
        &self,
        cx: &StatementContext<'_>,
        env: &Arc<QueryEnv>,
        relations: &[TableWithJoins],
    ) -> Result<()> {
        let mut beside = None;
        for part in &self.0 {
            let Some(query) = &part.unmeasured else { continue };
            let width = match beside {
                Some(width) => width,
                None => *beside.insert(width_of(cx, env, relations.to_vec()).await?),
            };
            let alias =
                TableAlias { explicit: true, name: Ident::with_quote('"', "row"), columns: Vec::new(), at: None };
            let relation =
                TableFactor::Derived { lateral: true, subquery: query.clone(), alias: Some(alias), sample: None };
            let mut all = relations.to_vec();
            all.push(TableWithJoins { relation, joins: Vec::new() });
            if width_of(cx, env, all).await? - width != part.columns.len() {
                return Err(uneven());
            }
        }
        Ok(())
    }
}

impl Part {
    fn value(column: usize, value: &Expr) -> Self {
        let is_default = matches!(value, Expr::Identifier(ident) if is_default(ident));
        Self { columns: vec![column], value: (!is_default).then(|| value.clone()), unmeasured: None }
    }
}

/// How many columns relations have.
async fn width_of(cx: &StatementContext<'_>, env: &Arc<QueryEnv>, relations: Vec<TableWithJoins>) -> Result<usize> {
    let query = select(vec![SelectItem::Wildcard(Default::default())], relations, None)?;
    let statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query))));
    let plan = cx.planner.analyze_in(env, async |state| logical_plan(state, statement).await).await?;
    Ok(plan.schema().fields().len())
}

/// What fills several columns: values that are written, or a query.
fn row(columns: Vec<usize>, source: &Expr) -> Result<Vec<Part>> {
    if let Some(values) = row_values(source) {
        if values.len() != columns.len() {
            return Err(uneven());
        }
        return Ok(columns.into_iter().zip(values).map(|(column, value)| Part::value(column, value)).collect());
    }
    let mut inner = source;
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    let Expr::Subquery(query) = inner else {
        let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
        return Err(SqlError::unsupported(message));
    };
    let width = width_in(&query.body);
    if width.is_some_and(|width| width != columns.len()) {
        return Err(uneven());
    }
    let value = match columns.len() {
        1 => inner.clone(),
        count => Expr::Subquery(Box::new(as_struct(query.as_ref().clone(), count)?)),
    };
    Ok(vec![Part { columns, value: Some(value), unmeasured: width.is_none().then(|| query.clone()) }])
}

fn uneven() -> SqlError {
    SqlError::invalid("number of columns does not match number of values").code("42601")
}

/// How many columns a query has, if its text tells.
fn width_in(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| value_of(item).is_some();
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

fn value_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => Some(value),
        _ => None,
    }
}

/// A query of several columns as one of a struct of them.
fn as_struct(mut query: Query, width: usize) -> Result<Query> {
    if !matches!(query.body.as_ref(), SetExpr::Select(select) if is_plain(&query, select)) {
        let names = (0..width).map(|number| format!("\"value {number}\"")).collect::<Vec<_>>().join(", ");
        query = *parse_query(&format!("SELECT {names} FROM ({query}) AS \"row\" ({names})"))?;
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(SqlError::internal("a query that was made here is none"));
    };
    let values = select.projection.iter().filter_map(value_of).cloned().collect();
    select.projection = vec![SelectItem::UnnamedExpr(Expr::Struct { values, fields: Vec::new() })];
    Ok(query)
}

/// Whether other values may stand in the place of a query's: nothing else in it names them, or counts them.
fn is_plain(query: &Query, select: &Select) -> bool {
    let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let is_named = |item: &SelectItem| !matches!(item, SelectItem::UnnamedExpr(_));
    let is_single = matches!(&select.from[..], [from] if from.joins.is_empty());
    let is_ordered_by_others = query.order_by.as_ref().is_none_or(|order| match &order.kind {
        OrderByKind::Expressions(keys) => {
            is_single && keys.iter().all(|key| !matches!(key.expr, Expr::Value(_) | Expr::Nested(_)))
        }
        OrderByKind::All(_) => false,
    });
    select.distinct.is_none() && is_ungrouped && is_ordered_by_others && !select.projection.iter().any(is_named)
}
