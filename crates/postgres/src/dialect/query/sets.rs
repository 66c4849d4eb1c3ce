//! EXCEPT ALL and INTERSECT ALL, which keep count of equal rows: the planner knows both only without counting. With a
//! number within its equals, every row is different from every other.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Query, SelectItem, SetExpr, SetOperator, SetQuantifier, VisitorMut};

use crate::column_names::{UNNAMED, called};
use crate::statement::{name_of, parse_query, quoted};
use saki_catalog::SqlError;

pub struct Sets;

impl VisitorMut for Sets {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match numbered(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn numbered(body: &mut SetExpr) -> Result<(), SqlError> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(()) };
    numbered(left)?;
    numbered(right)?;
    let word = match (&op, &set_quantifier) {
        (SetOperator::Except | SetOperator::Minus, SetQuantifier::All) => "EXCEPT",
        (SetOperator::Intersect, SetQuantifier::All) => "INTERSECT",
        _ => return Ok(()),
    };
    // What a wildcard brings is not known yet.
    let Some(names) = names(left) else { return Ok(()) };
    let columns: Vec<String> = (1..=names.len()).map(|number| format!("c{number}")).collect();
    let columns = columns.join(", ");
    let side = |side: &SetExpr| {
        format!("SELECT {columns}, row_number() OVER (PARTITION BY {columns}) FROM ({side}) AS side ({columns})")
    };
    let named = names.iter().enumerate().map(|(at, name)| format!("c{} AS {}", at + 1, quoted(name)));
    let named = named.collect::<Vec<_>>().join(", ");
    let text = format!("SELECT {named} FROM ({} {word} {}) AS counted ({columns}, number)", side(left), side(right));
    *body = *parse_query(&text)?.body;
    Ok(())
}

/// Names of a query's columns; `None` if they are not all written there.
fn names(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => select
            .projection
            .iter()
            .map(|item| match item {
                SelectItem::UnnamedExpr(expr) => Some(called(expr).unwrap_or_else(|| UNNAMED.to_owned())),
                SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
                _ => None,
            })
            .collect(),
        SetExpr::Query(query) => names(&query.body),
        SetExpr::SetOperation { left, .. } => names(left),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect;
    use crate::fixture::{answer, bare, check, parsed, sorted};

    const LEFT: &str = "SELECT a FROM (VALUES (1), (1), (1), (2), (NULL), (NULL)) AS l(a)";
    const RIGHT: &str = "SELECT b FROM (VALUES (1), (1), (3), (NULL)) AS r(b)";

    #[test]
    fn equal_rows_are_counted_where_all_of_them_are_wanted() {
        check(
            &[
                (format!("{LEFT} EXCEPT ALL {RIGHT}"), "1 2 NULL"),
                (format!("{LEFT} INTERSECT ALL {RIGHT}"), "1 1 NULL"),
                (format!("{RIGHT} EXCEPT ALL {LEFT}"), "3"),
                (format!("{LEFT} EXCEPT {RIGHT}"), "2"),
                (format!("{LEFT} INTERSECT {RIGHT}"), "1 NULL"),
                (format!("{LEFT} EXCEPT ALL {RIGHT} EXCEPT ALL SELECT 2"), "1 NULL"),
                (format!("{LEFT} EXCEPT ALL ({RIGHT} INTERSECT ALL SELECT 1)"), "1 1 2 NULL NULL"),
                (format!("SELECT count(*) FROM ({LEFT} EXCEPT ALL {RIGHT}) AS t"), "3"),
            ],
            sorted,
        );
    }

    #[test]
    fn results_have_the_names_of_the_first_query() {
        let names = |sql: &str| answer(bare(), sql).unwrap().0.join(", ");
        check(
            &[
                ("SELECT 1 AS a, 2 EXCEPT ALL SELECT 3 AS b, 4", "a, ?column?"),
                ("SELECT upper('a') INTERSECT ALL SELECT lower('b')", "upper"),
                ("SELECT 1 AS \"A b\" EXCEPT ALL SELECT 2", "A b"),
                ("(SELECT 1 AS x) INTERSECT ALL (SELECT 2 AS y)", "x"),
            ],
            names,
        );
    }

    #[test]
    fn what_needs_no_counting_stays_as_it_is() {
        for sql in ["SELECT 1 EXCEPT SELECT 2", "SELECT 1 UNION ALL SELECT 2", "SELECT * FROM t EXCEPT ALL SELECT 1"] {
            let mut statement = parsed(sql);
            dialect::pass(&mut statement, &mut super::Sets).unwrap();
            assert_eq!(statement.to_string(), sql);
        }
    }
}
