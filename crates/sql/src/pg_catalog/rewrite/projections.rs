//! Names of columns that a query does not name: PostgreSQL's, each once. The planner has names of its own for them,
//! and refuses two that are the same.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Ident, Query, Select, SelectItem, SetExpr, VisitorMut,
};

use super::column_name;
use crate::error::SqlError;
use crate::statement::name_of;

pub struct Projections;

impl VisitorMut for Projections {
    type Break = SqlError;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let mut taken = HashSet::new();
        for item in &mut select.projection {
            name_item(item, &mut taken);
        }
        ControlFlow::Continue(())
    }
}

fn name_item(item: &mut SelectItem, taken: &mut HashSet<String>) {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            // The planner tells columns of different tables apart.
            let exact = expr.to_string();
            if column_name(expr).is_some() && taken.insert(exact) {
                taken.extend(column_name(expr));
                return;
            }
            let alias = Ident::with_quote('"', unique(called(expr).unwrap_or_else(|| "?column?".to_owned()), taken));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        SelectItem::ExprWithAlias { alias, .. } => {
            let name = name_of(alias);
            let free = unique(name.clone(), taken);
            if free != name {
                *alias = Ident::with_quote('"', free);
            }
        }
        _ => {}
    }
}

fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let mut free = name.clone();
    let mut number = 0;
    while !taken.insert(free.clone()) {
        number += 1;
        free = format!("{name}_{number}");
    }
    free
}

/// What PostgreSQL calls the column of an expression; `None`: `?column?`.
fn called(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => called(inner),
        Expr::Cast { expr, data_type, .. } => own_name(expr).or_else(|| type_name(data_type)),
        Expr::Case { .. } => own_name(expr).or_else(|| Some("case".to_owned())),
        _ => own_name(expr),
    }
}

/// A name that a cast around the expression keeps.
fn own_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => column_name(expr),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } | Expr::Cast { expr: inner, .. } => own_name(inner),
        Expr::Function(function) => function.name.0.last()?.as_ident().map(name_of),
        Expr::Case { else_result, .. } => else_result.as_deref().and_then(own_name),
        Expr::Array(_) => Some("array".to_owned()),
        Expr::Exists { .. } => Some("exists".to_owned()),
        Expr::Subquery(query) => only_column(query),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let named = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(ident)) => Some(name_of(ident)),
                _ => None,
            });
            named.or_else(|| own_name(root))
        }
        _ => None,
    }
}

fn type_name(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Custom(name, _) => name.0.last()?.as_ident().map(name_of),
        DataType::Text => Some("text".to_owned()),
        DataType::Boolean | DataType::Bool => Some("bool".to_owned()),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Some("int4".to_owned()),
        DataType::BigInt(_) | DataType::Int8(_) => Some("int8".to_owned()),
        DataType::SmallInt(_) | DataType::Int2(_) => Some("int2".to_owned()),
        DataType::Varchar(_) | DataType::CharacterVarying(_) => Some("varchar".to_owned()),
        DataType::Regclass => Some("regclass".to_owned()),
        _ => None,
    }
}

fn only_column(query: &Query) -> Option<String> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        SelectItem::UnnamedExpr(expr) => called(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
        _ => None,
    }
}
