//! EXPLAIN of statements that change rows: the plan that finds them.

use std::slice::from_ref;

use datafusion::sql::sqlparser::ast::{self, FromTable, SelectItem, SetExpr, UpdateTableFromKind};

use super::find::{Target, merged, select};
use saki_catalog::{Result, SqlError};
use saki_context::query::explanation::Explanation;
use saki_context::statement::StatementResult;
use saki_context::{StatementContext, query};
use saki_postgres::statement::{object_name, when_clauses};

/// How a statement finds the rows that it changes; `None` if it changes none. `compiled`: how it runs without a plan,
/// as long as it is small.
///
/// # Errors
/// Of planning; `Unsupported` for EXPLAIN ANALYZE, which would change them.
pub async fn explain_change(
    cx: &StatementContext<'_>,
    statement: &ast::Statement,
    analyze: bool,
    format: Option<&ast::AnalyzeFormatKind>,
    compiled: Option<&str>,
) -> Result<Option<StatementResult>> {
    let Some((heading, rows)) = rows_of(statement)? else { return Ok(None) };
    if analyze {
        return Err(
            SqlError::unsupported("EXPLAIN ANALYZE takes a query").hint("EXPLAIN shows how a change finds its rows")
        );
    }
    let plan = match rows {
        Some(rows) => query::explained(cx, &ast::Statement::Query(Box::new(rows))).await?,
        None => String::new(),
    };
    let plan = plan.lines().fold(heading, |plan, line| format!("{plan}\n  {line}"));
    let notes = compiled.map(str::to_owned).into_iter().collect();
    Explanation { plan, notes }.answer(format).map(Some)
}

/// What a statement does to which table, and the query of the rows that it does it to; none of rows that are listed.
fn rows_of(statement: &ast::Statement) -> Result<Option<(String, Option<ast::Query>)>> {
    let (verb, table, others, condition) = match statement {
        ast::Statement::Insert(ast::Insert { table: ast::TableObject::TableName(name), source, .. }) => {
            let rows = source.as_deref().filter(|query| !matches!(*query.body, SetExpr::Values(_)));
            return Ok(Some((format!("Insert on {}", object_name(name)?.0), rows.cloned())));
        }
        ast::Statement::Update(update) => {
            let others = match &update.from {
                Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from.as_slice(),
                None => &[],
            };
            ("Update", &update.table, others, &update.selection)
        }
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let [table] = &from[..] else { return Ok(None) };
            ("Delete", table, delete.using.as_deref().unwrap_or_default(), &delete.selection)
        }
        ast::Statement::Merge(merge) => {
            let all = SelectItem::Wildcard(Default::default());
            let is_outer = when_clauses(merge)?.iter().any(|clause| !clause.is_matched);
            let ast::TableFactor::Table { name, .. } = &merge.table else { return Ok(None) };
            let heading = format!("Merge on {}", object_name(name)?.0);
            return Ok(Some((heading, Some(select(vec![all], vec![merged(merge, is_outer)], None)?))));
        }
        _ => return Ok(None),
    };
    let target = Target::read(table)?;
    let all =
        select(vec![SelectItem::Wildcard(Default::default())], [from_ref(table), others].concat(), condition.clone())?;
    Ok(Some((format!("{verb} on {}", target.name), Some(all))))
}
