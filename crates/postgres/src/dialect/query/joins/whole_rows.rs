//! `row_to_json(t)` and its like: a relation's name is a value of all its columns.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, Select, TableFactor,
    Value, VisitorMut,
};

use super::relations::Relations;
use crate::statement::{call, name_of};
use saki_catalog::SqlError;
use saki_functions::json::WHOLE_ROW;
use saki_statement::walk::walk_expressions_mut;

/// Puts the columns in the place of their relation.
pub struct WholeRows {
    /// As for joins.
    scopes: Vec<Relations>,
}

impl WholeRows {
    pub fn new(relations: Relations) -> Self {
        Self { scopes: vec![relations] }
    }

    fn scope(&self) -> Relations {
        self.scopes.last().cloned().unwrap_or_default()
    }
}

/// The name that a call has for its argument, if it may be a relation's.
pub fn named_whole(function: &Function) -> Option<Ident> {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of)?;
    let FunctionArguments::List(list) = &function.args else { return None };
    if !WHOLE_ROW.contains(&name.as_str()) {
        return None;
    }
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(ident))) => Some(ident.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(ObjectName(parts))) => {
            parts.last()?.as_ident().cloned().filter(|_| parts.len() == 1)
        }
        _ => None,
    }
}

impl VisitorMut for WholeRows {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.push(self.scope().within(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let scope = self.scope();
        let factors = select
            .from
            .iter()
            .flat_map(|tables| std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation)));
        let known: Vec<(Ident, Vec<String>)> =
            factors.filter_map(|factor| Some((called(factor)?, scope.of_factor(factor)?))).collect();
        let whole = |ident: &Ident| {
            let name = name_of(ident);
            let is_column = known.iter().any(|(_, columns)| columns.contains(&name));
            let (relation, columns) = known.iter().find(|(relation, _)| name_of(relation) == name)?;
            (!is_column).then(|| row(relation, columns))
        };
        let each = |expr: &mut Expr| {
            if let Expr::Function(function) = expr
                && let Some(row) = named_whole(function).and_then(|ident| whole(&ident))
                && let FunctionArguments::List(list) = &mut function.args
                && let Some(first) = list.args.first_mut()
            {
                *first = FunctionArg::Unnamed(FunctionArgExpr::Expr(row));
            }
            ControlFlow::<()>::Continue(())
        };
        let _ = walk_expressions_mut(&mut select.projection, each);
        ControlFlow::Continue(())
    }
}

/// What a relation of FROM is called.
fn called(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, args: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

fn row(relation: &Ident, columns: &[String]) -> Expr {
    let fields = columns.iter().flat_map(|column| {
        let of = Expr::CompoundIdentifier(vec![relation.clone(), Ident::with_quote('"', column)]);
        [Expr::value(Value::SingleQuotedString(column.clone())), of]
    });
    call("named_struct", fields.collect())
}
