//! WITH RECURSIVE: which forms PostgreSQL takes (`checkWellFormedRecursion`), and that the types of the recursive term
//! are those of the other one. The planner takes more forms, some of which never end, and casts.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result as PlannerResult, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr as Planned, ExprSchemable, LogicalPlan, RecursiveQuery};
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, JoinOperator, LimitClause, ObjectName, Query, Select, SelectItem, SetExpr, SetOperator, TableFactor,
    TableWithJoins, Value, VisitorMut,
};

use super::once::names;
use crate::dialect::query::groups::twins::{APART, is_aggregate};
use crate::statement::{call, name_of, take};
use saki_catalog::{Result, SqlError};
use saki_statement::walk::walk_expressions;
use saki_system::type_name;

/// What an item of a recursive term is called until its type has been looked at.
const MARK: &str = "item of a recursive term";

/// Checks them, and marks their items.
pub struct Recursions;

impl VisitorMut for Recursions {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return ControlFlow::Continue(()) };
        let refused =
            refuse_mutual(&with.cte_tables).and_then(|()| with.cte_tables.iter_mut().try_for_each(recursion)).err();
        match refused {
            Some(error) => ControlFlow::Break(error),
            None => ControlFlow::Continue(()),
        }
    }
}

fn bad(message: String) -> SqlError {
    SqlError::invalid(message).code("42P19")
}

/// # Errors
/// 0A000 for queries that name each other.
fn refuse_mutual(tables: &[Cte]) -> Result<()> {
    let of: Vec<String> = tables.iter().map(|table| name_of(&table.alias.name)).collect();
    let asks = |from: usize, to: usize| names(tables[from].query.as_ref(), |name| name == of[to]) > 0;
    for start in 0..of.len() {
        let (mut reached, mut next) = (HashSet::new(), vec![start]);
        while let Some(at) = next.pop() {
            let others = (0..of.len()).filter(|to| *to != at && asks(at, *to));
            next.extend(others.filter(|to| reached.insert(*to)));
        }
        if reached.contains(&start) {
            return Err(SqlError::unsupported("mutual recursion between WITH items is not implemented"));
        }
    }
    Ok(())
}

/// One query of the list, if it names itself.
fn recursion(table: &mut Cte) -> Result<()> {
    let name = name_of(&table.alias.name);
    let query = table.query.as_mut();
    let is_own = |found: &str| found == name;
    if names(query, is_own) == 0 {
        return Ok(());
    }
    let refused = |what: &str| Err(SqlError::unsupported(format!("{what} in a recursive query is not implemented")));
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = query.body.as_mut() else {
        let form = "does not have the form non-recursive-term UNION [ALL] recursive-term";
        return Err(bad(format!("recursive query {name:?} {form}")));
    };
    if names(left.as_ref(), is_own) > 0 {
        let message = format!("recursive reference to query {name:?} must not appear within its non-recursive term");
        return Err(bad(message));
    }
    if query.order_by.is_some() {
        return refused("ORDER BY");
    }
    if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
        return refused(if offset.is_some() && limit.is_none() { "OFFSET" } else { "LIMIT" });
    }
    if query.fetch.is_some() {
        return refused("LIMIT");
    }
    if !query.locks.is_empty() {
        return refused("FOR UPDATE/SHARE");
    }
    let mut found = Vec::new();
    references(right, &name, Place::Free, &mut found);
    let message = |place: &str| format!("recursive reference to query {name:?} must not appear {place}");
    if let Some(place) = found.iter().find_map(|place| place.refused()) {
        return Err(bad(message(place)));
    }
    if found.len() > 1 {
        return Err(bad(message("more than once")));
    }
    if let SetExpr::Select(select) = right.as_mut() {
        select.projection.iter_mut().for_each(mark);
    }
    refuse_aggregates(right, &name)
}

/// Where a query is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    OuterJoin,
    Subquery,
    Except,
    Intersect,
}

impl Place {
    /// How it is refused, if it is.
    fn refused(self) -> Option<&'static str> {
        match self {
            Self::Free => None,
            Self::OuterJoin => Some("within an outer join"),
            Self::Subquery => Some("within a subquery"),
            Self::Except => Some("within EXCEPT"),
            Self::Intersect => Some("within INTERSECT"),
        }
    }
}

/// The places where a term names it.
fn references(term: &SetExpr, name: &str, place: Place, found: &mut Vec<Place>) {
    match term {
        SetExpr::Select(select) => select_references(select, name, place, found),
        SetExpr::Query(query) => query_references(query, name, place, found),
        SetExpr::SetOperation { op, left, right, set_quantifier } => {
            let all = set_quantifier.to_string().contains("ALL");
            let (first, second) = match op {
                SetOperator::Except | SetOperator::Minus if all => (Place::Except, Place::Except),
                SetOperator::Except | SetOperator::Minus => (place, Place::Except),
                SetOperator::Intersect if all => (Place::Intersect, Place::Intersect),
                _ => (place, place),
            };
            references(left, name, first, found);
            references(right, name, second, found);
        }
        other => found.extend(vec![Place::Subquery; names(other, |own| own == name)]),
    }
}

fn query_references(query: &Query, name: &str, place: Place, found: &mut Vec<Place>) {
    let within = query.with.iter().flat_map(|with| &with.cte_tables);
    if within.clone().any(|table| name_of(&table.alias.name) == name) {
        return;
    }
    within.for_each(|table| query_references(&table.query, name, place, found));
    references(&query.body, name, place, found);
    let rest = query.order_by.as_ref().map_or(0, |order| names(order, |own| own == name));
    found.extend(vec![Place::Subquery; rest]);
}

fn select_references(select: &Select, name: &str, place: Place, found: &mut Vec<Place>) {
    let before = found.len();
    select.from.iter().for_each(|from| join_references(from, name, place, found));
    // What FROM does not name is named by queries within expressions.
    let all = names(select, |own| own == name);
    found.extend(vec![Place::Subquery; all.saturating_sub(found.len() - before)]);
}

fn join_references(from: &TableWithJoins, name: &str, place: Place, found: &mut Vec<Place>) {
    let start = found.len();
    factor_references(&from.relation, name, place, found);
    for join in &from.joins {
        let (left, right) = match join.join_operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (place, Place::OuterJoin),
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (Place::OuterJoin, place),
            JoinOperator::FullOuter(_) => (Place::OuterJoin, Place::OuterJoin),
            _ => (place, place),
        };
        if left == Place::OuterJoin {
            found[start..].fill(left);
        }
        factor_references(&join.relation, name, right, found);
    }
}

fn factor_references(factor: &TableFactor, name: &str, place: Place, found: &mut Vec<Place>) {
    match factor {
        TableFactor::Derived { subquery, .. } => query_references(subquery, name, place, found),
        TableFactor::NestedJoin { table_with_joins, .. } => join_references(table_with_joins, name, place, found),
        other => found.extend(vec![place; names(other, |own| own == name)]),
    }
}

/// # Errors
/// 42P19 for aggregates over the rows of the last step.
fn refuse_aggregates(term: &SetExpr, name: &str) -> Result<()> {
    let SetExpr::Select(select) = term else { return Ok(()) };
    let is_own = |factor: &TableFactor| match factor {
        TableFactor::Table { name: found, args: None, .. } => is_name(found, name),
        _ => false,
    };
    let reads = |from: &TableWithJoins| is_own(&from.relation) || from.joins.iter().any(|join| is_own(&join.relation));
    let mut is_called = |expr: &Expr| match expr {
        Expr::Function(call) if call.over.is_none() && is_aggregate(expr) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let has = walk_expressions(&select.projection, &mut is_called).is_break()
        || walk_expressions(&select.having, &mut is_called).is_break();
    match select.from.iter().any(reads) && has {
        true => Err(bad("aggregate functions are not allowed in a recursive query's recursive term".to_owned())),
        false => Ok(()),
    }
}

fn is_name(found: &ObjectName, name: &str) -> bool {
    matches!(&found.0[..], [part] if part.as_ident().is_some_and(|ident| name_of(ident) == name))
}

/// Marks an item, so that a cast that the planner puts around it is known from one that is written.
fn mark(item: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
        *expr = call(APART, vec![take(expr), Expr::value(Value::SingleQuotedString(MARK.to_owned()))]);
    }
}

/// A recursion whose two terms have the same types, without the marks.
///
/// # Errors
/// 42804 for other types; 0A000 for decimals of another scale, which the cast would round.
pub fn typed(mut recursion: RecursiveQuery) -> PlannerResult<RecursiveQuery> {
    let first = Arc::clone(recursion.static_term.schema());
    if let LogicalPlan::Projection(items) = recursion.recursive_term.as_ref() {
        for (at, item) in items.expr.iter().enumerate() {
            let bare = if let Planned::Alias(alias) = item { &alias.expr } else { item };
            if let Planned::Cast(cast) = bare
                && let Some(inner) = marked(&cast.expr)
            {
                let found = inner.get_type(items.input.schema())?;
                refuse_other(&recursion.name, at + 1, first.field(at).data_type(), &found)?;
            }
        }
    }
    let bare = Arc::unwrap_or_clone(recursion.recursive_term).transform_up(|plan| {
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let bare = expr.transform_up(|expr| match marked(&expr) {
                Some(inner) => Ok(Transformed::yes(inner.clone())),
                None => Ok(Transformed::no(expr)),
            })?;
            Ok(bare.update_data(|expr| name.restore(expr)))
        })
    })?;
    recursion.recursive_term = Arc::new(bare.data);
    Ok(recursion)
}

/// What stands within a mark.
fn marked(expr: &Planned) -> Option<&Planned> {
    match expr {
        Planned::ScalarFunction(call) if call.name() == APART => match &call.args[..] {
            [inner, Planned::Literal(ScalarValue::Utf8(Some(mark)), _)] if mark == MARK => Some(inner),
            _ => None,
        },
        _ => None,
    }
}

fn refuse_other(name: &str, column: usize, first: &DataType, found: &DataType) -> PlannerResult<()> {
    use DataType::{Decimal128, Null, Timestamp, Utf8, Utf8View};
    let is_same = match (first, found) {
        (Null, _) | (_, Null) | (Utf8 | Utf8View, Utf8 | Utf8View) => true,
        (Timestamp(_, zone), Timestamp(_, other)) => zone.is_some() == other.is_some(),
        (Decimal128(_, scale), Decimal128(_, other)) if scale == other => true,
        (Decimal128(..), Decimal128(..)) => {
            let message = format!("recursive query {name:?} whose column {column} changes its scale is not supported");
            return Err(SqlError::unsupported(message).hint("cast both terms to one numeric(precision, scale)").into());
        }
        (one, other) => one == other,
    };
    if is_same {
        return Ok(());
    }
    let (one, other) = (type_name(first), type_name(found));
    let message = format!(
        "recursive query {name:?} column {column} has type {one} in non-recursive term but type {other} overall"
    );
    let hint = "Cast the output of the non-recursive term to the correct type.";
    Err(SqlError::invalid(message).code("42804").hint(hint).into())
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn forms_that_postgresql_refuses_are_refused() {
        let of = |term: &str| format!("WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL {term}) SELECT * FROM x");
        let cases = [
            ("SELECT n + 1 FROM x WHERE n < 3", "1 2 3"),
            ("SELECT n + 0.5 FROM x WHERE n < 3", "42804"),
            ("SELECT n + 1::bigint FROM x WHERE n < 3", "42804"),
            ("SELECT (n + 1)::text FROM x WHERE n < 3", "42804"),
            ("SELECT (n + 0.5)::int FROM x WHERE n < 3", "1 2 3"),
            ("SELECT x.n + 1 FROM (VALUES (1)) v(a) LEFT JOIN x ON x.n = v.a", "42P19"),
            ("SELECT x.n + 1 FROM x LEFT JOIN (VALUES (1)) v(a) ON x.n = v.a WHERE n < 3", "1 2 3"),
            ("SELECT x.n + 1 FROM x RIGHT JOIN (VALUES (1)) v(a) ON x.n = v.a", "42P19"),
            ("SELECT x.n + 1 FROM x FULL JOIN (VALUES (1)) v(a) ON x.n = v.a", "42P19"),
            ("SELECT count(*)::int FROM x", "42P19"),
            ("SELECT (SELECT max(n) FROM x) FROM x WHERE n < 3", "42P19"),
            ("SELECT a FROM (VALUES (1)) v(a) WHERE a IN (SELECT n FROM x)", "42P19"),
            ("SELECT n + 1 FROM (SELECT n FROM x WHERE n < 3) y", "1 2 3"),
            ("SELECT a.n FROM x a, x b WHERE a.n < 3", "42P19"),
            ("(SELECT n + 1 FROM x WHERE n < 3 EXCEPT SELECT n FROM x)", "42P19"),
            ("SELECT n + 1 FROM x ORDER BY 1", "0A000"),
            ("SELECT n + 1 FROM x LIMIT 3", "0A000"),
            ("SELECT n + 1 FROM x OFFSET 3", "0A000"),
        ];
        let owned: Vec<(String, &str)> = cases.iter().map(|(term, expected)| (of(term), *expected)).collect();
        let cases: Vec<(&str, &str)> = owned.iter().map(|(sql, expected)| (sql.as_str(), *expected)).collect();
        check(&cases, shown);
        check(
            &[
                ("WITH RECURSIVE x(n) AS (SELECT n FROM x) SELECT * FROM x", "42P19"),
                ("WITH RECURSIVE x(n) AS (SELECT 1 INTERSECT SELECT n FROM x) SELECT * FROM x", "42P19"),
                ("WITH RECURSIVE x(n) AS (SELECT n FROM x UNION ALL SELECT 1) SELECT * FROM x", "42P19"),
                (
                    "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM y), \
                     y(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT * FROM x",
                    "0A000",
                ),
                ("WITH RECURSIVE x(n) AS (SELECT 1.5 UNION ALL SELECT n * 1.5 FROM x) SELECT * FROM x", "0A000"),
                ("WITH RECURSIVE x AS (SELECT 1 AS n), y AS (SELECT n FROM x) SELECT * FROM y", "1"),
            ],
            shown,
        );
    }
}
