//! `WITH … INSERT`, `UPDATE` and `DELETE`: the statement itself, with the queries of WITH in the place of their names.
//! The parser takes it for a query whose body changes rows.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, FromTable, Ident, ObjectName, Query, SetExpr, TableAlias, TableFactor, VisitorMut, With,
};

use crate::syntax::{Syntax, name_of};
use crate::walk::walk_mut;
use datafusion::sql::sqlparser::parser::Parser;
use saki_catalog::{Result, SqlError};

/// A statement without WITH before what changes rows. Where a query of WITH changes rows itself it stays.
///
/// # Errors
/// Of the parser, for text that it has written itself.
pub fn put_in_place(statement: Statement) -> Result<Statement> {
    let Statement::Statement(inner) = statement else { return Ok(statement) };
    let ast::Statement::Query(mut query) = *inner else { return Ok(Statement::Statement(inner)) };
    let changes = |query: &Query| {
        matches!(*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
    };
    let is_plain = |with: &With| !with.cte_tables.iter().any(|table| changes(&table.query));
    let Some(with) = query.with.take_if(|with| is_plain(with)) else {
        return Ok(Statement::Statement(Box::new(ast::Statement::Query(query))));
    };
    match *query.body {
        SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) | SetExpr::Merge(change) => {
            Ok(Statement::Statement(Box::new(replaced(change, &with)?)))
        }
        body => {
            query.body = Box::new(body);
            query.with = Some(with);
            Ok(Statement::Statement(Box::new(ast::Statement::Query(query))))
        }
    }
}

fn replaced(mut change: ast::Statement, with: &With) -> Result<ast::Statement> {
    let names = with.cte_tables.iter().map(|table| name_of(&table.alias.name)).collect();
    let mut places = Places { names, with, hidden: Vec::new() };
    // What is changed is a table, whatever WITH calls so.
    let kept: Vec<TableFactor> = targets(&mut change).iter().map(|target| (**target).clone()).collect();
    for target in targets(&mut change) {
        if let TableFactor::Table { name, .. } = target {
            *name = ObjectName::from(vec![Ident::with_quote('"', "\u{1}target")]);
        }
    }
    if let ControlFlow::Break(error) = walk_mut(&mut change, &mut places) {
        return Err(error);
    }
    for (target, kept) in targets(&mut change).into_iter().zip(kept) {
        *target = kept;
    }
    Ok(change)
}

/// The tables that an UPDATE, a DELETE or a MERGE changes.
fn targets(change: &mut ast::Statement) -> Vec<&mut TableFactor> {
    match change {
        ast::Statement::Update(update) => vec![&mut update.table.relation],
        ast::Statement::Merge(merge) => vec![&mut merge.table],
        ast::Statement::Delete(delete) => match &mut delete.from {
            FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => {
                from.iter_mut().map(|table| &mut table.relation).collect()
            }
        },
        _ => Vec::new(),
    }
}

struct Places<'w> {
    names: HashSet<String>,
    with: &'w With,
    /// Names that queries around give to others.
    hidden: Vec<HashSet<String>>,
}

impl Places<'_> {
    /// The query that a name stands for.
    fn query_of(&self, name: &Ident) -> Result<Box<Query>> {
        let text = format!("{} SELECT * FROM {name}", self.with);
        Ok(Parser::new(&Syntax).try_with_sql(&text)?.parse_query()?)
    }
}

impl VisitorMut for Places<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let own = query.with.iter().flat_map(|with| &with.cte_tables).map(|table| name_of(&table.alias.name));
        self.hidden.push(own.collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let [part] = &name.0[..] else { return ControlFlow::Continue(()) };
        let Some(ident) = part.as_ident() else { return ControlFlow::Continue(()) };
        let called = name_of(ident);
        if !self.names.contains(&called) || self.hidden.iter().any(|names| names.contains(&called)) {
            return ControlFlow::Continue(());
        }
        let alias = alias.clone().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: ident.clone(),
            columns: Vec::new(),
            at: None,
        });
        match self.query_of(ident) {
            Ok(subquery) => {
                *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn queries_stand_in_the_place_of_their_names() {
        check(
            &[
                (
                    "WITH q AS (SELECT 1 AS a) INSERT INTO t SELECT a FROM q",
                    "INSERT INTO t SELECT a FROM (WITH q AS (SELECT 1 AS a) SELECT * FROM q) AS q",
                ),
                (
                    "WITH q (a) AS (SELECT 1) UPDATE t SET b = 2 FROM q AS p WHERE t.a = p.a",
                    "UPDATE t SET b = 2 FROM (WITH q (a) AS (SELECT 1) SELECT * FROM q) AS p WHERE t.a = p.a",
                ),
                (
                    "WITH t AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM t)",
                    "DELETE FROM t WHERE a IN (SELECT a FROM (WITH t AS (SELECT 1 AS a) SELECT * FROM t) AS t)",
                ),
                (
                    "WITH q AS (SELECT 1) DELETE FROM t WHERE a IN (WITH q AS (SELECT 2) SELECT * FROM q)",
                    "DELETE FROM t WHERE a IN (WITH q AS (SELECT 2) SELECT * FROM q)",
                ),
                ("WITH q AS (SELECT 1) SELECT * FROM q", "WITH q AS (SELECT 1) SELECT * FROM q"),
                (
                    "WITH q AS (DELETE FROM u RETURNING a) INSERT INTO t SELECT a FROM q",
                    "WITH q AS (DELETE FROM u RETURNING a) INSERT INTO t SELECT a FROM q",
                ),
            ],
            read,
        );
    }
}
