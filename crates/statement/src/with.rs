//! `WITH` before what changes rows, and queries of WITH that do so themselves.
//!
//! The parser takes `WITH … INSERT`, `UPDATE`, `DELETE` and `MERGE` for a query whose body changes rows. They become
//! the statement itself, with the queries of WITH in the place of their names. Where queries of WITH change rows
//! ([`ChangingWith`]), their statements are carried out one after another, and a relation of what they return stands in
//! the place of their names.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, FromTable, Ident, ObjectName, Query, SelectItem, SetExpr, TableAlias, TableFactor, UpdateTableFromKind,
    Visitor, VisitorMut, With,
};

use crate::syntax::{Syntax, name_of};
use crate::walk::{walk, walk_mut};
use datafusion::sql::sqlparser::parser::Parser;
use saki_catalog::{Result, SqlError};

/// A statement without WITH before what changes rows. Where a query of WITH changes rows itself it stays.
///
/// # Errors
/// Of the parser, for text that it has written itself.
pub fn put_in_place(statement: Statement) -> Result<Statement> {
    let Statement::Statement(inner) = statement else { return Ok(statement) };
    let ast::Statement::Query(query) = *inner else { return Ok(Statement::Statement(inner)) };
    let is_plain = changes_of(&query).next().is_none();
    let inner = match (change_in(&query), &query.with) {
        (Some(change), Some(with)) if is_plain => replaced(change.clone(), with, &HashSet::new())?,
        _ => ast::Statement::Query(query),
    };
    Ok(Statement::Statement(Box::new(inner)))
}

/// The statement that a query is which changes rows.
fn change_in(query: &Query) -> Option<&ast::Statement> {
    match query.body.as_ref() {
        SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) | SetExpr::Merge(change) => {
            Some(change)
        }
        _ => None,
    }
}

/// A statement with queries of WITH that change rows.
pub struct ChangingWith {
    /// In their order.
    pub changes: Vec<NamedChange>,
    /// What the statement itself is: one that changes rows, or a query.
    pub main: ast::Statement,
}

/// A query of WITH that changes rows.
pub struct NamedChange {
    /// What the relation is called that stands for its rows; no table has the name.
    pub relation: String,
    pub statement: ast::Statement,
}

/// The statements of WITH that change rows, of a query that has any.
pub fn changes_of(query: &Query) -> impl Iterator<Item = &ast::Statement> {
    query.with.iter().flat_map(|with| &with.cte_tables).filter_map(|table| change_in(&table.query))
}

impl ChangingWith {
    /// The statements one after another; `None` if no query of WITH changes rows. Each names the relations of those
    /// before it.
    ///
    /// # Errors
    /// 0A000 for the name of one that returns nothing.
    pub fn read(query: &Query) -> Result<Option<Self>> {
        Self::with_relations(query, |relation, _| {
            let name = Ident::with_quote('"', relation);
            Ok(Parser::new(&Syntax).try_with_sql(&format!("SELECT * FROM {name}"))?.parse_query()?)
        })
    }

    /// The same for who only asks what they read, and what columns they have: in the place of a change stands a query
    /// of the rows that it would be about.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn probing(query: &Query) -> Result<Option<Self>> {
        Self::with_relations(query, |_, statement| {
            Ok(Parser::new(&Syntax).try_with_sql(&returned(statement))?.parse_query()?)
        })
    }

    fn with_relations(
        query: &Query,
        stands_for: impl Fn(&str, &ast::Statement) -> Result<Box<Query>>,
    ) -> Result<Option<Self>> {
        let Some(with) = query.with.as_ref().filter(|_| changes_of(query).next().is_some()) else { return Ok(None) };
        let mut plain = With { cte_tables: Vec::new(), ..with.clone() };
        let (mut changes, mut silent) = (Vec::new(), HashSet::new());
        for table in &with.cte_tables {
            let mut table = table.clone();
            let name = name_of(&table.alias.name);
            let Some(change) = change_in(&table.query) else {
                refuse_silent(table.query.as_mut(), &plain, &silent)?;
                plain.cte_tables.push(table);
                continue;
            };
            let (relation, statement) = (format!("rows of {name}"), replaced(change.clone(), &plain, &silent)?);
            if returning_of(&statement).is_some() {
                table.query = stands_for(&relation, &statement)?;
                plain.cte_tables.push(table);
            } else {
                silent.insert(name);
            }
            changes.push(NamedChange { relation, statement });
        }
        let mut rest = query.clone();
        rest.with = None;
        let main = match change_in(&rest) {
            Some(change) => replaced(change.clone(), &plain, &silent)?,
            None => {
                refuse_silent(&mut rest, &plain, &silent)?;
                rest.with = (!plain.cte_tables.is_empty()).then_some(plain);
                ast::Statement::Query(Box::new(rest))
            }
        };
        Ok(Some(Self { changes, main }))
    }
}

/// What RETURNING of a statement says.
fn returning_of(statement: &ast::Statement) -> Option<&[SelectItem]> {
    match statement {
        ast::Statement::Insert(insert) => insert.returning.as_deref(),
        ast::Statement::Update(update) => update.returning.as_deref(),
        ast::Statement::Delete(delete) => delete.returning.as_deref(),
        _ => None,
    }
}

/// A query with the columns that a statement returns, over what it reads to find its rows.
fn returned(statement: &ast::Statement) -> String {
    fn list<T: ToString>(parts: &[T]) -> String {
        parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
    let items = list(returning_of(statement).unwrap_or_default());
    let (from, selection) = match statement {
        ast::Statement::Insert(insert) => {
            let alias = insert.table_alias.as_ref().map(|alias| format!(" AS {}", alias.alias)).unwrap_or_default();
            (format!("{}{alias}", insert.table), &None)
        }
        ast::Statement::Update(update) => match &update.from {
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                (format!("{}, {}", update.table, list(from)), &update.selection)
            }
            None => (update.table.to_string(), &update.selection),
        },
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let using = delete.using.iter().flatten().map(|using| format!(", {using}")).collect::<String>();
            (format!("{}{using}", list(from)), &delete.selection)
        }
        _ => (String::new(), &None),
    };
    let condition = selection.as_ref().map(|selection| format!(" WHERE {selection}")).unwrap_or_default();
    format!("SELECT {items} FROM {from}{condition}")
}

/// Refuses names of what returns nothing.
fn refuse_silent(query: &mut Query, with: &With, silent: &HashSet<String>) -> Result<()> {
    let mut places = Places { names: HashSet::new(), silent, with, hidden: Vec::new() };
    match walk_mut(query, &mut places) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Refuses queries of WITH that change rows anywhere but in a statement's own WITH.
///
/// # Errors
/// 0A000.
pub fn refuse_changes_within(statement: &Statement) -> Result<()> {
    let Statement::Statement(statement) = statement else { return Ok(()) };
    match walk(statement, &mut Within { depth: 0, statement }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Within<'s> {
    /// Of queries around.
    depth: usize,
    statement: &'s ast::Statement,
}

impl Visitor for Within<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        if changes_of(query).next().is_none() {
            return ControlFlow::Continue(());
        }
        use ast::Statement as Sql;
        let message = match self.statement {
            _ if self.depth > 1 => "WITH clause containing a data-modifying statement must be at the top level",
            Sql::Query(_) | Sql::Prepare { .. } => return ControlFlow::Continue(()),
            Sql::CreateView(_) => "views must not contain data-modifying statements in WITH",
            Sql::Declare { .. } => "DECLARE CURSOR must not contain data-modifying statements in WITH",
            Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) => {
                "WITH clause containing a data-modifying statement must be at the top level"
            }
            _ => "data-modifying statements in WITH are not supported here",
        };
        ControlFlow::Break(SqlError::unsupported(message))
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

fn replaced(mut change: ast::Statement, with: &With, silent: &HashSet<String>) -> Result<ast::Statement> {
    let names = with.cte_tables.iter().map(|table| name_of(&table.alias.name)).collect();
    let mut places = Places { names, silent, with, hidden: Vec::new() };
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
    /// Names of what returns nothing.
    silent: &'w HashSet<String>,
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
        if self.hidden.iter().any(|names| names.contains(&called)) {
            return ControlFlow::Continue(());
        }
        if self.silent.contains(&called) {
            let message = format!("WITH query {called:?} does not have a RETURNING clause");
            return ControlFlow::Break(SqlError::unsupported(message));
        }
        if !self.names.contains(&called) {
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
    use super::*;
    use crate::fixture::{check, parsed, read, refused};

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

    fn split(sql: &str) -> String {
        let ast::Statement::Query(query) = parsed(sql) else { return "no query".to_owned() };
        match ChangingWith::read(&query) {
            Ok(Some(ChangingWith { changes, main })) => {
                let named = changes.iter().map(|change| format!("{}: {}", change.relation, change.statement));
                named.chain([main.to_string()]).collect::<Vec<_>>().join("; ")
            }
            Ok(None) => "no changes".to_owned(),
            Err(error) => error.sqlstate().to_owned(),
        }
    }

    #[test]
    fn changes_are_statements_one_after_another() {
        check(
            &[
                ("WITH q AS (SELECT 1) SELECT * FROM q", "no changes"),
                (
                    "WITH q AS (DELETE FROM u RETURNING a) SELECT a FROM q",
                    "rows of q: DELETE FROM u RETURNING a; \
                     WITH q AS (SELECT * FROM \"rows of q\") SELECT a FROM q",
                ),
                ("WITH q AS (DELETE FROM u) SELECT 1", "rows of q: DELETE FROM u; SELECT 1"),
                ("WITH q AS (DELETE FROM u) SELECT * FROM q", "0A000"),
                ("WITH q AS (DELETE FROM u), r AS (SELECT * FROM q) SELECT 1", "0A000"),
                ("WITH q AS (DELETE FROM u), r AS (DELETE FROM v USING q) SELECT 1", "0A000"),
                (
                    "WITH q AS (DELETE FROM u RETURNING a) INSERT INTO t SELECT a FROM q",
                    "rows of q: DELETE FROM u RETURNING a; INSERT INTO t SELECT a FROM \
                     (WITH q AS (SELECT * FROM \"rows of q\") SELECT * FROM q) AS q",
                ),
            ],
            split,
        );
    }

    #[test]
    fn changes_stand_in_the_statements_own_with() {
        let nested = "WITH q AS (DELETE FROM u RETURNING a) SELECT a FROM q";
        for sql in [
            format!("SELECT * FROM ({nested}) AS s"),
            format!("INSERT INTO t {nested}"),
            format!("CREATE VIEW v AS {nested}"),
            format!("DECLARE c CURSOR FOR {nested}"),
            format!("EXPLAIN {nested}"),
            format!("CREATE TABLE t AS {nested}"),
            format!("WITH r AS ({nested}) SELECT * FROM r"),
        ] {
            assert_eq!(refused(&sql).sqlstate(), "0A000", "{sql}");
        }
    }
}
