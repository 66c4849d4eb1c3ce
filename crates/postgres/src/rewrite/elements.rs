//! `e` of `FROM jsonb_array_elements(list) AS e`: what is called as the function is means its one column, as a row of
//! one value is that value to PostgreSQL.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Statement, TableAlias, TableFactor, Visitor};

use super::syntax::system_name;
use saki_functions::json::SETS;
use saki_statement::name_of;
use saki_statement::walk::{walk, walk_expressions_mut};

/// Names the columns that are meant.
pub fn name_elements(statement: &mut Statement) {
    let mut found = Found(HashMap::new());
    let _ = walk(statement, &mut found);
    let Found(columns) = found;
    if columns.is_empty() {
        return;
    }
    let _ = walk_expressions_mut(statement, |expr| {
        if let Expr::Identifier(ident) = expr
            && let Some(column) = columns.get(&name_of(ident))
        {
            *expr = Expr::CompoundIdentifier(vec![ident.clone(), column.clone()]);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Names of functions in FROM, each with that of its column.
struct Found(HashMap<String, Ident>);

impl Found {
    fn add(&mut self, function: &ObjectName, alias: Option<&TableAlias>) {
        let name = system_name(function).unwrap_or_default();
        if let Some((_, [(own, _)])) = SETS.iter().find(|(set, _)| *set == name)
            && let Some(alias) = alias
        {
            let stated = alias.columns.first().map(|column| column.name.clone());
            let own = (!own.is_empty()).then(|| Ident::new(*own));
            if let Some(column) = stated.or(own) {
                self.0.insert(name_of(&alias.name), column);
            }
        }
    }
}

impl Visitor for Found {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), alias, .. } | TableFactor::Function { name, alias, .. } => {
                self.add(name, alias.as_ref());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
