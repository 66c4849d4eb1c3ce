//! `e` of `FROM jsonb_array_elements(list) AS e`: what is called as the function is means its one column, as a row of
//! one value is that value to PostgreSQL.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Select, SelectItem, Statement, TableAlias, TableFactor, Visitor, VisitorMut,
};

use super::syntax::system_name;
use saki_functions::json::SETS;
use saki_statement::name_of;
use saki_statement::walk::{walk, walk_expressions_mut, walk_mut};

/// Names the columns that are meant.
pub fn name_elements(statement: &mut Statement) {
    let mut found = Found(HashMap::new());
    let _ = walk(statement, &mut found);
    let Found(columns) = found;
    if columns.is_empty() {
        return;
    }
    let mut items = Items(columns);
    let _ = walk_mut(statement, &mut items);
    let Items(columns) = items;
    let _ = walk_expressions_mut(statement, |expr| {
        if let Expr::Identifier(ident) = expr
            && let Some(column) = columns.get(&name_of(ident))
        {
            *expr = Expr::CompoundIdentifier(vec![ident.clone(), column.clone()]);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// What stands by itself in a select list keeps its name.
struct Items(HashMap<String, Ident>);

impl VisitorMut for Items {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Identifier(ident)) = item
                && self.0.contains_key(&name_of(ident))
            {
                let (expr, alias) = (Expr::Identifier(ident.clone()), ident.clone());
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }
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
