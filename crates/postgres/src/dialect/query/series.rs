//! `FROM generate_series(1, 3) AS g`: the one column of a function is called what the function is called there.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut};
use saki_catalog::SqlError;

/// Functions of the planner's that give rows of one value.
const FUNCTIONS: [&str; 2] = ["generate_series", "range"];

pub struct Series;

impl VisitorMut for Series {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::Table { name, alias: Some(alias), args: Some(_), with_ordinality: false, .. }
        | TableFactor::Function { name, alias: Some(alias), .. } = factor
        {
            name_column(name, alias);
        }
        ControlFlow::Continue(())
    }
}

fn name_column(function: &ObjectName, alias: &mut TableAlias) {
    let last = function.0.last().and_then(|part| part.as_ident());
    let is_known = last.is_some_and(|name| FUNCTIONS.iter().any(|known| name.value.eq_ignore_ascii_case(known)));
    if is_known && alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn a_functions_column_is_called_after_its_alias() {
        check(
            &[
                ("SELECT sum(g) FROM generate_series(1, 3) g", "6"),
                ("SELECT max(g.g) FROM generate_series(1, 3) AS g", "3"),
                ("SELECT \"G h\" FROM generate_series(4, 4) AS \"G h\"", "4"),
                ("SELECT count(b) FROM generate_series(1, 3) AS g(b)", "3"),
                ("SELECT a + b FROM generate_series(1, 1) a, generate_series(2, 2) b", "3"),
            ],
            shown,
        );
    }
}
