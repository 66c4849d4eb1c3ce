//! Names of system relations and functions: relations get their schema, functions lose it, and the columns that
//! PostgreSQL's tables have besides those they show become what they would be.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Statement, TableFactor, Visitor, VisitorMut,
};

use super::syntax::{number, system_name};
use saki_catalog::SqlError;
use saki_statement::name_of;
use saki_statement::walk::{walk, walk_mut};
use saki_system::definition;

/// Names that the statement itself defines by WITH.
pub fn defined(statement: &Statement) -> HashSet<String> {
    struct Defined(HashSet<String>);
    impl Visitor for Defined {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            for table in query.with.iter().flat_map(|with| &with.cte_tables) {
                self.0.insert(name_of(&table.alias.name));
            }
            ControlFlow::Continue(())
        }
    }
    let mut defined = Defined(HashSet::new());
    // It never breaks.
    let _: ControlFlow<()> = walk(statement, &mut defined);
    defined.0
}

pub struct Names {
    pub defined: HashSet<String>,
}

impl VisitorMut for Names {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => unqualify(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<SqlError> {
        if let [ObjectNamePart::Identifier(ident)] = &relation.0[..] {
            let name = name_of(ident);
            if !self.defined.contains(&name) && definition::find("pg_catalog", &name).is_some() {
                relation.0.insert(0, ObjectNamePart::Identifier(Ident::new("pg_catalog")));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::Function(function) = expr {
            unqualify(&mut function.name);
        }
        ControlFlow::Continue(())
    }
}

fn unqualify(name: &mut ObjectName) {
    if name.0.len() == 2 && system_name(name).is_some() {
        name.0.remove(0);
    }
}

/// Puts values in the place of `tableoid`, which is the relation's oid for every row of it, and of `xmin`, which is
/// that of rows as old as the database.
pub fn system_columns(statement: &mut Statement) {
    let mut relations = Relations(HashMap::new());
    // Neither visitor breaks.
    let _: ControlFlow<()> = walk(&*statement, &mut relations);
    if !relations.0.is_empty() {
        let _: ControlFlow<()> = walk_mut(statement, &mut SystemColumns(relations.0));
    }
}

/// System relations by what the statement calls them.
struct Relations(HashMap<String, i64>);

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [schema, relation] =
                &name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect::<Vec<_>>()[..]
            && let Some(definition) = definition::find(schema, relation)
        {
            let called = alias.as_ref().map_or_else(|| relation.clone(), |alias| name_of(&alias.name));
            self.0.insert(called, definition.oid);
        }
        ControlFlow::Continue(())
    }
}

struct SystemColumns(HashMap<String, i64>);

impl VisitorMut for SystemColumns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        /// The oldest transaction there is.
        const FROZEN: i64 = 2;
        let (column, oid) = match &*expr {
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [table, column] => (name_of(column), self.0.get(&name_of(table)).copied()),
                _ => return ControlFlow::Continue(()),
            },
            Expr::Identifier(column) if self.0.len() == 1 => (name_of(column), self.0.values().next().copied()),
            _ => return ControlFlow::Continue(()),
        };
        match (column.as_str(), oid) {
            ("tableoid", Some(oid)) => *expr = number(oid),
            ("xmin", Some(_)) => *expr = number(FROZEN),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::passed;
    use super::{Names, defined, system_columns};
    use crate::fixture::{check, library, parsed};

    fn named(sql: &str) -> String {
        let mut names = Names { defined: defined(&parsed(sql)) };
        passed(sql, &mut names)
    }

    #[test]
    fn relations_get_their_schema_and_functions_lose_it() {
        check(
            &[
                ("SELECT 1 FROM pg_class", "SELECT 1 FROM pg_catalog.pg_class"),
                ("SELECT 1 FROM PG_CLASS c", "SELECT 1 FROM pg_catalog.PG_CLASS c"),
                ("SELECT 1 FROM public.pg_class", "SELECT 1 FROM public.pg_class"),
                ("SELECT 1 FROM book, tables", "SELECT 1 FROM book, tables"),
                ("SELECT pg_catalog.upper(a)", "SELECT upper(a)"),
                ("SELECT shop.upper(a)", "SELECT shop.upper(a)"),
                ("SELECT 1 FROM pg_catalog.generate_series(1, 2)", "SELECT 1 FROM generate_series(1, 2)"),
                (
                    "SELECT 1 WHERE EXISTS (WITH pg_type AS (SELECT 1) SELECT 1 FROM pg_type, pg_enum)",
                    "SELECT 1 WHERE EXISTS (WITH pg_type AS (SELECT 1) SELECT 1 FROM pg_type, pg_catalog.pg_enum)",
                ),
            ],
            named,
        );
    }

    #[test]
    fn columns_that_are_not_shown_have_values() {
        let shown = |sql: &str| {
            let mut statement = parsed(sql);
            system_columns(&mut statement);
            statement.to_string()
        };
        check(
            &[
                ("SELECT tableoid FROM pg_catalog.pg_class", "SELECT 1259 FROM pg_catalog.pg_class"),
                ("SELECT c.tableoid, c.xmin FROM pg_catalog.pg_class c", "SELECT 1259, 2 FROM pg_catalog.pg_class c"),
                (
                    "SELECT b.tableoid FROM book b, pg_catalog.pg_class c",
                    "SELECT b.tableoid FROM book b, pg_catalog.pg_class c",
                ),
                ("SELECT tableoid, xmin FROM book", "SELECT tableoid, xmin FROM book"),
            ],
            shown,
        );
        library().check(&[
            ("select distinct tableoid from pg_class", "1259"),
            ("select distinct t.tableoid, t.xmin from pg_type t", "1247|2"),
            ("select distinct tableoid::regclass from pg_attribute", "pg_attribute"),
        ]);
    }
}
