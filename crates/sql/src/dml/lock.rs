//! SELECT … FOR UPDATE inside of a transaction: the rows are written anew as they are, so that nobody else changes them
//! before it ends.
//!
//! All rows that the condition meets are held, whatever LIMIT says; NOWAIT fails on one that another transaction holds,
//! where the statement would wait otherwise. With SKIP LOCKED it takes the rows in their order, passes over those that
//! others hold, and stops when LIMIT has its rows: these are held, and are the answer. FOR SHARE holds rows as FOR
//! UPDATE does. Outside of a transaction there is nothing to hold them for.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::sql::sqlparser::ast::{self, Expr, LimitClause, NonBlock, OrderByKind, SelectItem, SetExpr, Value};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::change::{ChangeStatement, Concern, Work, change};
use super::query::{Returning, Target, old_columns, old_readers, select, table_batch};
use super::rows::RowWriter;
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::constraint::RowChecks;
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv, Conflict, Refusal};
use saki_postgres::statement::name_of;

/// The rows of a table that a query is about.
struct Lock {
    target: Target,
    selection: Option<Expr>,
    /// Whether a row that another transaction holds is an error.
    fails: bool,
}

impl ChangeStatement for Lock {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(plan_lock(cx, env, self))
    }
}

/// Holds the rows that a query asks to be held, and takes its wish away. What it gives back is the query's answer, if
/// that is what could be held.
pub async fn hold_rows(cx: &StatementContext<'_>, query: &mut ast::Query) -> Result<Option<StatementResult>> {
    let locks = std::mem::take(&mut query.locks);
    if locks.is_empty() {
        return Ok(None);
    }
    let lock = Lock::read(query, &locks)?;
    if locks.iter().any(|lock| lock.nonblock == Some(NonBlock::SkipLocked)) {
        let pick = Pick::read(lock, query)?;
        change(cx, Concern::Table(&pick.lock.target.name), &pick).await?;
        let picked = pick.picked.lock().take().ok_or_else(|| SqlError::internal("rows were held and are not there"))?;
        return Ok(Some(StatementResult::of_batch(picked.schema(), picked)));
    }
    if cx.transactions.outlives_statement() {
        change(cx, Concern::Table(&lock.target.name), &lock).await?;
    }
    Ok(None)
}

async fn plan_lock(cx: &StatementContext<'_>, env: &ChangeEnv<'_>, lock: &Lock) -> Result<Work> {
    let table = Arc::clone(env.generation.catalog.table(&lock.target.name)?);
    let columns = old_columns(&table, &lock.target);
    let query = select(columns, vec![lock.target.relation.clone()], lock.selection.clone())?;
    let found = cx.rows_of(&env.with_row_id(&table), query).await?;
    let rows = table_batch(&found, &table, 0)?;
    let rows = RowChecks::new(&cx.planner.state(), &table)?.complete(&rows)?;
    let fails = lock.fails;
    Ok(Box::new(move |change: &mut Change<'_, '_>| {
        let mut writer = RowWriter::of_change(change, &table)?;
        let entries = writer.entries(&old_readers(&rows, &found, &table)?, rows.num_rows())?;
        for (key, row) in &entries {
            match writer.update(change.transaction, key, row, row) {
                Err(Refusal::Conflict(Conflict { holder: Some(_), .. })) if fails => {
                    let message = format!("could not obtain lock on row in relation {:?}", table.name);
                    return Err(SqlError::invalid(message).code("55P03").into());
                }
                held => held?,
            }
        }
        Ok(StatementResult::done("SELECT", entries.len() as u64))
    }))
}

impl Lock {
    /// # Errors
    /// `Unsupported` for what is not plainly the rows of one table.
    fn read(query: &ast::Query, locks: &[ast::LockClause]) -> Result<Self> {
        let refused = || {
            SqlError::unsupported("FOR UPDATE is not supported for joins, groups, subqueries and sets")
                .hint("hold the rows of one table at a time")
        };
        let SetExpr::Select(select) = query.body.as_ref() else { return Err(refused()) };
        let is_grouped = match &select.group_by {
            ast::GroupByExpr::All(_) => true,
            ast::GroupByExpr::Expressions(list, _) => !list.is_empty(),
        };
        let [from] = &select.from[..] else { return Err(refused()) };
        let is_plain = query.with.is_none() && select.distinct.is_none() && !is_grouped && select.having.is_none();
        if !is_plain || !from.joins.is_empty() || !matches!(from.relation, ast::TableFactor::Table { .. }) {
            return Err(refused());
        }
        let fails = locks.iter().any(|lock| lock.nonblock == Some(NonBlock::Nowait));
        Ok(Self { target: Target::read(from)?, selection: select.selection.clone(), fails })
    }
}

/// The first rows of a query that nobody else holds.
struct Pick {
    lock: Lock,
    items: Vec<SelectItem>,
    order: Vec<ast::OrderByExpr>,
    limit: Option<Expr>,
    offset: Option<Expr>,
    /// What was held, once that is done.
    picked: Arc<Mutex<Option<RecordBatch>>>,
}

impl ChangeStatement for Pick {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(plan_pick(cx, env, self))
    }
}

async fn plan_pick(cx: &StatementContext<'_>, env: &ChangeEnv<'_>, pick: &Pick) -> Result<Work> {
    let target = &pick.lock.target;
    let table = Arc::clone(env.generation.catalog.table(&target.name)?);
    let (limit, offset) =
        (pick.count(cx, env, pick.limit.as_ref()).await?, pick.count(cx, env, pick.offset.as_ref()).await?);
    let offset = offset.unwrap_or(0);
    let most = limit.map_or(usize::MAX, |limit| limit.saturating_add(offset));
    let columns = old_columns(&table, target);
    let mut query = select(columns, vec![target.relation.clone()], pick.lock.selection.clone())?;
    if !pick.order.is_empty() {
        query.order_by = Some(ast::OrderBy { kind: OrderByKind::Expressions(pick.order.clone()), interpolate: None });
    }
    let found = cx.rows_of(&env.with_row_id(&table), query).await?;
    let rows = table_batch(&found, &table, 0)?;
    let shown = Returning::new(&pick.items, &[])?.of_found(cx, env, target, &rows, &found).await?;
    let rows = RowChecks::new(&cx.planner.state(), &table)?.complete(&rows)?;
    let picked = Arc::clone(&pick.picked);
    Ok(Box::new(move |change: &mut Change<'_, '_>| {
        let writer = RowWriter::of_change(change, &table)?;
        let entries = writer.entries(&old_readers(&rows, &found, &table)?, rows.num_rows())?;
        let mut held = Vec::new();
        for (at, (key, row)) in entries.iter().enumerate() {
            if held.len() >= most {
                break;
            }
            match writer.hold(change.transaction, key, row) {
                Ok(()) => held.push(at as u32),
                Err(Refusal::Conflict(Conflict { holder: Some(_), .. })) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        let count = held.len() as u64;
        let answer = take_record_batch(&shown, &UInt32Array::from(held.split_off(offset.min(held.len()))));
        *picked.lock() = Some(answer.map_err(SqlError::from)?);
        Ok(StatementResult::done("SELECT", count))
    }))
}

impl Pick {
    /// # Errors
    /// `Unsupported` for rows that the query does not give one by one.
    fn read(lock: Lock, query: &ast::Query) -> Result<Self> {
        let refused = |what: String| SqlError::unsupported(format!("{what} is not supported beside SKIP LOCKED"));
        let SetExpr::Select(select) = query.body.as_ref() else { return Err(refused("a set".to_owned())) };
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.clone(), offset.as_ref().map(|offset| offset.value.clone()))
            }
            Some(other) => return Err(refused(other.to_string())),
        };
        let limit = match &query.fetch {
            None => limit,
            Some(fetch) if !fetch.with_ties && !fetch.percent => {
                Some(fetch.quantity.clone().unwrap_or_else(|| Expr::value(Value::Number("1".to_owned(), false))))
            }
            Some(fetch) => return Err(refused(fetch.to_string())),
        };
        let keys = match query.order_by.as_ref().map(|order| &order.kind) {
            None => Vec::new(),
            Some(OrderByKind::Expressions(keys)) => keys.clone(),
            Some(OrderByKind::All(_)) => return Err(refused("ORDER BY ALL".to_owned())),
        };
        let items = select.projection.clone();
        let order = keys.into_iter().map(|key| ast::OrderByExpr { expr: of_table(key.expr.clone(), &items), ..key });
        Ok(Self { lock, order: order.collect(), items, limit, offset, picked: Arc::default() })
    }

    /// A number of rows; `None`: all.
    ///
    /// # Errors
    /// 2201W for one below zero.
    async fn count(
        &self,
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        count: Option<&Expr>,
    ) -> Result<Option<usize>> {
        use arrow_array::cast::AsArray;
        use arrow_array::types::Int64Type;
        let Some(count) = count else { return Ok(None) };
        let number = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(count.clone()),
            data_type: ast::DataType::BigInt(None),
            array: false,
            format: None,
        };
        let found = cx.rows_of(env, select(vec![SelectItem::UnnamedExpr(number)], Vec::new(), None)?).await?;
        let number = found.column(0).as_primitive::<Int64Type>().iter().next().flatten();
        let below_zero = |_| SqlError::data("LIMIT must not be negative").code("2201W");
        number.map(|number| usize::try_from(number).map_err(below_zero)).transpose()
    }
}

/// A key of ORDER BY over the table's columns, where it is one of the result: by its place or by its name.
fn of_table(key: Expr, items: &[SelectItem]) -> Expr {
    let place = match &key {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1)),
            _ => None,
        },
        Expr::Identifier(name) => items.iter().position(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => name_of(alias) == name_of(name),
            _ => false,
        }),
        _ => None,
    };
    match place.and_then(|place| items.get(place)) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr.clone(),
        _ => key,
    }
}
