//! `c.*` beside other columns of the same names. PostgreSQL gives both; the planner refuses two columns of a name, so
//! the wildcard of a system relation becomes its columns, which then get names of their own.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, VisitorMut,
};

use super::syntax::system_name;
use saki_catalog::SqlError;
use saki_statement::name_of;
use saki_system::definition::{self, Definition};

pub struct Wildcards;

impl VisitorMut for Wildcards {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let wild = |item: &SelectItem| matches!(item, SelectItem::QualifiedWildcard(..));
        if select.projection.len() > 1 && select.projection.iter().any(wild) {
            let relations = relations(&select.from);
            select.projection = std::mem::take(&mut select.projection)
                .into_iter()
                .flat_map(|item| expanded(item, &relations))
                .collect();
        }
        ControlFlow::Continue(())
    }
}

/// The system relations of a FROM, by what they are called there.
fn relations(from: &[TableWithJoins]) -> HashMap<String, &'static Definition> {
    let factors =
        from.iter().flat_map(|item| std::iter::once(&item.relation).chain(item.joins.iter().map(|j| &j.relation)));
    let relation = |factor: &TableFactor| {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        let bare = system_name(name)?;
        let definition =
            definition::find("pg_catalog", &bare).or_else(|| definition::find("information_schema", &bare))?;
        Some((alias.as_ref().map_or(bare, |alias| name_of(&alias.name)), definition))
    };
    factors.filter_map(relation).collect()
}

fn expanded(item: SelectItem, relations: &HashMap<String, &'static Definition>) -> Vec<SelectItem> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = &item else {
        return vec![item];
    };
    let called = name.0.last().and_then(|part| part.as_ident()).map(name_of);
    let Some((called, definition)) = called.and_then(|called| relations.get(&called).map(|found| (called, *found)))
    else {
        return vec![item];
    };
    let column = |column: &definition::ColumnDefinition| {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![Ident::new(called.clone()), Ident::new(column.name)]))
    };
    definition.columns.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::super::passed;
    use super::Wildcards;
    use crate::fixture::{answer, check, library};

    #[test]
    fn wildcards_beside_others_become_their_columns() {
        check(
            &[
                ("SELECT i.* FROM pg_inherits i", "SELECT i.* FROM pg_inherits i"),
                (
                    "SELECT 1, i.* FROM pg_inherits i",
                    "SELECT 1, i.inhrelid, i.inhparent, i.inhseqno, i.inhdetachpending FROM pg_inherits i",
                ),
                (
                    "SELECT a, pg_inherits.* FROM t JOIN pg_catalog.pg_inherits ON true",
                    "SELECT a, pg_inherits.inhrelid, pg_inherits.inhparent, pg_inherits.inhseqno, \
                     pg_inherits.inhdetachpending FROM t JOIN pg_catalog.pg_inherits ON true",
                ),
                ("SELECT 1, t.* FROM t, pg_inherits i", "SELECT 1, t.* FROM t, pg_inherits i"),
                ("SELECT 1, * FROM pg_inherits", "SELECT 1, * FROM pg_inherits"),
            ],
            |sql| passed(sql, &mut Wildcards),
        );
    }

    #[test]
    fn columns_of_both_are_given() {
        let library = library();
        let (names, rows) = answer(&library.context, "select i.inhrelid, i.* from pg_inherits i").unwrap();
        assert_eq!(names, ["inhrelid", "inhrelid", "inhparent", "inhseqno", "inhdetachpending"]);
        assert!(rows.is_empty());
    }
}
