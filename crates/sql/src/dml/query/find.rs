//! The queries by which a statement finds the rows that it changes, and what becomes of them.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, TableWithJoins,
};

use saki_catalog::convert::{Plain, conform};
use saki_catalog::{Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::planner::logical_plan;
use saki_plan::QueryEnv;
use saki_postgres::statement::{name_of, object_name, parse_query};

/// The target of an UPDATE or DELETE.
pub struct Target {
    pub name: String,
    /// What its columns are called by.
    pub alias: Ident,
    pub relation: TableWithJoins,
}

impl Target {
    /// # Errors
    /// `Unsupported` for anything but a table.
    pub fn read(relation: &TableWithJoins) -> Result<Self> {
        let TableFactor::Table { name, alias, .. } = &relation.relation else {
            return Err(SqlError::unsupported(format!("{} is no table whose rows can be changed", relation.relation)));
        };
        if !relation.joins.is_empty() {
            return Err(SqlError::unsupported("a join cannot be changed").hint("name other tables in FROM or USING"));
        }
        let (table, _) = object_name(name)?;
        // Its own name, without its schema's.
        let own = name.0.last().and_then(|part| part.as_ident()).map_or_else(|| table.clone(), name_of);
        let alias = alias.as_ref().map_or_else(|| Ident::with_quote('"', own), |alias| alias.name.clone());
        Ok(Self { name: table, alias, relation: relation.clone() })
    }

    /// A column of the target, as an expression.
    pub fn column(&self, name: &str) -> Expr {
        Expr::CompoundIdentifier(vec![self.alias.clone(), Ident::with_quote('"', name)])
    }

    /// What stands for its alias in RETURNING.
    pub fn alias_name(&self) -> String {
        name_of(&self.alias)
    }
}

/// An expression under a name that no column of a user's has.
pub fn named(expr: Expr, name: String) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

/// `SELECT items FROM relations WHERE selection`.
pub fn select(items: Vec<SelectItem>, relations: Vec<TableWithJoins>, selection: Option<Expr>) -> Result<Query> {
    let mut query = *parse_query("SELECT 1")?;
    let select = body(&mut query)?;
    select.projection = items;
    select.from = relations;
    select.selection = selection;
    Ok(query)
}

fn body(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(SqlError::internal("a query that was made here is none")),
    }
}

/// A table under an alias.
pub fn relation(name: &str, alias: Option<&Ident>) -> Result<TableWithJoins> {
    let mut query = *parse_query("SELECT 1 FROM t")?;
    let select = body(&mut query)?;
    let mut relation = select.from.pop().ok_or_else(|| SqlError::internal("a query lost its table"))?;
    if let TableFactor::Table { name: place, alias: alias_place, .. } = &mut relation.relation {
        *place = ObjectName::from(vec![Ident::with_quote('"', name)]);
        *alias_place =
            alias.map(|alias| TableAlias { explicit: true, name: alias.clone(), columns: Vec::new(), at: None });
    }
    Ok(relation)
}

/// The source of a MERGE beside the rows of the table that it meets; `is_outer`: rows that meet none, too.
pub fn merged(merge: &ast::Merge, is_outer: bool) -> TableWithJoins {
    let on = JoinConstraint::On(Expr::clone(&merge.on));
    let join_operator = if is_outer { JoinOperator::LeftOuter(on) } else { JoinOperator::Inner(on) };
    let joins = vec![Join { relation: merge.table.clone(), global: false, join_operator }];
    TableWithJoins { relation: merge.source.clone(), joins }
}

/// Rows as a table that a query can name.
pub fn stand_in(batch: RecordBatch) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

/// Rows of which columns from `first` on that share a name, so that it means none of them, have names that nobody
/// writes.
pub fn distinctly_named(batch: &RecordBatch, first: usize) -> Result<RecordBatch> {
    let schema = batch.schema();
    let of_name = |name: &String| schema.fields()[first..].iter().filter(|field| field.name() == name).count();
    let own = |(place, field): (usize, &Arc<Field>)| match place >= first && of_name(field.name()) > 1 {
        true => Arc::new(field.as_ref().clone().with_name(format!("{} of {place}", field.name()))),
        false => Arc::clone(field),
    };
    let named: Vec<Arc<Field>> = schema.fields().iter().enumerate().map(own).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(named)), batch.columns().to_vec(), &options)?)
}

/// How many columns a query gives.
pub async fn width_of(cx: &StatementContext<'_>, env: &Arc<QueryEnv>, query: &Query) -> Result<usize> {
    let statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query.clone()))));
    let (plan, _) = cx.planner.plan_in(env, async |state| logical_plan(state, statement).await).await?;
    Ok(plan.schema().fields().len())
}

/// Columns of a batch from `first` on as a batch of all columns of a table that statements see.
pub fn table_batch(batch: &RecordBatch, table: &Table, first: usize) -> Result<RecordBatch> {
    let columns: Vec<usize> = (first..first + table.width()).collect();
    let all: Vec<usize> = (0..table.width()).collect();
    conform(&batch.project(&columns)?, table, &all, 1, &Plain)
}
