//! Casts to `regclass` and its like. In PostgreSQL such a value is an oid that shows itself as a name; here it is the
//! one or the other, by what is done with it: what is compared, cast to a number or asked about is an oid, and what is
//! shown is a name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator as Op, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem,
    SetExpr, VisitorMut,
};

use super::syntax::{arguments, function_name, literal, string, system_name};
use saki_catalog::SqlError;
use saki_statement::{call, take};
use saki_system::functions::{REG_FIND, REG_OID, REG_TEXT};

/// The function whose value is a type's name here, of type regtype in PostgreSQL.
const TYPE_OF: &str = "pg_typeof";

const KINDS: [&str; 10] = [
    "regclass",
    "regcollation",
    "regconfig",
    "regdictionary",
    "regnamespace",
    "regoper",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
];

/// Which of the types it is, if it is one.
pub fn kind(data_type: &DataType) -> Option<&'static str> {
    let name = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        DataType::Custom(name, _) => system_name(name)?,
        _ => return None,
    };
    KINDS.into_iter().find(|kind| *kind == name)
}

pub struct References;

impl VisitorMut for References {
    type Break = SqlError;

    /// Operands that are wanted as oids, before the rest is taken to be shown.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::BinaryOp { left, op: Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq, right }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => beside(&mut [left, right]),
            Expr::InList { expr, list, .. } => {
                beside(&mut std::iter::once(&mut **expr).chain(list).collect::<Vec<_>>());
            }
            Expr::InSubquery { expr, subquery, .. } => {
                as_oid(expr);
                rows_as_oids(&mut subquery.body);
            }
            Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => {
                as_oid(left);
                as_oid(right);
            }
            Expr::Array(array) => array.elem.iter_mut().for_each(as_oid),
            Expr::Cast { expr, data_type, .. } if is_number(data_type) => as_oid(expr),
            Expr::Function(function) if function_name(function).is_some_and(|name| asks_about_oids(&name)) => {
                if let FunctionArguments::List(list) = &mut function.args {
                    for arg in &mut list.args {
                        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg {
                            as_oid(expr);
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        become_call(expr, REG_TEXT);
        ControlFlow::Continue(())
    }
}

/// Operands that are compared. Beside the type of a value a text without a type is an oid, and one of several is the
/// name of a type: so PostgreSQL resolves `=` and IN.
fn beside(operands: &mut [&mut Expr]) {
    let any_type = operands.iter().any(|operand| is_type_of(operand));
    let is_one = operands.len() == 2;
    for operand in operands {
        if !any_type || literal(operand).is_none() {
            as_oid(operand);
        } else if is_one {
            let (kind, expr, data_type) = (CastKind::Cast, Box::new(take(operand)), DataType::BigInt(None));
            **operand = Expr::Cast { kind, expr, data_type, array: false, format: None };
        } else {
            **operand = call(REG_OID, vec![string("regtype"), take(operand)]);
        }
    }
}

/// Whether it is `pg_typeof(…)`.
fn is_type_of(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_type_of(inner),
        Expr::Function(function) => function_name(function).is_some_and(|name| name == TYPE_OF),
        _ => false,
    }
}

/// What a query gives to be compared.
fn rows_as_oids(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => select.projection.iter_mut().for_each(|item| {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                as_oid(expr);
            }
        }),
        SetExpr::Values(values) => values.rows.iter_mut().flat_map(|row| row.iter_mut()).for_each(as_oid),
        SetExpr::SetOperation { left, right, .. } => {
            rows_as_oids(left);
            rows_as_oids(right);
        }
        SetExpr::Query(query) => rows_as_oids(&mut query.body),
        _ => {}
    }
}

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::BigInt(_) | DataType::Int8(_) | DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => true,
        DataType::Custom(name, _) => {
            system_name(name).is_some_and(|name| matches!(name.as_str(), "oid" | "int8" | "int4"))
        }
        _ => false,
    }
}

fn asks_about_oids(function: &str) -> bool {
    // What finds an oid by a name asks about the name.
    function != REG_OID
        && ["pg_", "has_", "obj_description", "col_description"].iter().any(|prefix| function.starts_with(prefix))
}

fn as_oid(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => as_oid(inner),
        // It gives a name, and that of a type is one.
        Expr::Function(_) if is_type_of(expr) => *expr = call(REG_OID, vec![string("regtype"), take(expr)]),
        Expr::Function(function) => {
            let found = function_name(function).and_then(|name| {
                let kind = name.strip_prefix("to_").and_then(|kind| KINDS.into_iter().find(|known| *known == kind))?;
                Some(call(REG_FIND, vec![string(kind), (*arguments(function).first()?).clone()]))
            });
            if let Some(found) = found {
                *expr = found;
            }
        }
        _ => become_call(expr, REG_OID),
    }
}

fn become_call(expr: &mut Expr, function: &str) {
    if let Expr::Cast { expr: inner, data_type, .. } = expr
        && let Some(kind) = kind(data_type)
    {
        as_oid(inner);
        *expr = call(function, vec![string(kind), take(inner)]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::passed;
    use super::References;
    use crate::fixture::{check, library};

    #[test]
    fn what_is_compared_is_an_oid_and_what_is_shown_a_name() {
        check(
            &[
                ("SELECT oid::regclass", "SELECT pg_reg_text('regclass', oid)"),
                ("SELECT a = 'b'::regclass", "SELECT a = pg_reg_oid('regclass', 'b')"),
                ("SELECT a <> ('b'::regclass)", "SELECT a <> (pg_reg_oid('regclass', 'b'))"),
                ("SELECT a IN ('b'::regtype)", "SELECT a IN (pg_reg_oid('regtype', 'b'))"),
                ("SELECT 'b'::regclass::int", "SELECT pg_reg_oid('regclass', 'b')::INT"),
                ("SELECT 'b'::regclass::text", "SELECT pg_reg_text('regclass', 'b')::TEXT"),
                ("SELECT pg_f('b'::regclass)", "SELECT pg_f(pg_reg_oid('regclass', 'b'))"),
                ("SELECT upper('b'::regclass)", "SELECT upper(pg_reg_text('regclass', 'b'))"),
                ("SELECT a = ANY(ARRAY['b'::regclass])", "SELECT a = ANY(ARRAY[pg_reg_oid('regclass', 'b')])"),
                ("SELECT 'b'::pg_catalog.regnamespace", "SELECT pg_reg_text('regnamespace', 'b')"),
                ("SELECT 'b'::text", "SELECT 'b'::TEXT"),
            ],
            |sql| passed(sql, &mut References),
        );
    }

    #[test]
    fn names_are_found_as_postgresql_finds_them() {
        library().check(&[
            ("select 'book'::regclass, 'public.book'::regclass, 'pg_class'::regclass", "book|book|pg_class"),
            ("select 'shop.\"Order\"'::regclass", "shop.\"Order\""),
            ("select 'pg_class'::regclass::oid, 'int4'::regtype::oid, 'integer'::regtype", "1259|23|integer"),
            ("select relname from pg_class where oid in (select 'book'::regclass)", "book"),
            ("select to_regclass('nosuch') is null, to_regclass('book') is null", "true|false"),
            ("select 1259::regclass, 25::regtype", "pg_class|text"),
            ("select pg_typeof(1) = 'int4'::regtype, pg_typeof(1) = '23', pg_typeof(1) <> 'text'::regtype", {
                "true|true|true"
            }),
            (
                "select pg_typeof(1) = pg_typeof(2), pg_typeof(1) in ('bigint', 'int4'), pg_typeof(1)",
                "true|true|integer",
            ),
            (
                "select pg_typeof(1)::oid, pg_typeof(1.5)::text, pg_typeof(array[1]) = 'int[]'::regtype",
                "23|numeric|true",
            ),
            ("select typname from pg_type where oid = pg_typeof('a'::text)", "text"),
            ("select pg_typeof(1) is not distinct from 'integer'::regtype", "true"),
        ]);
        library().check_refused(&[
            ("select 'nosuch'::regclass", "42P01"),
            ("select 'nosuch'::regtype", "42704"),
            ("select pg_typeof(1) = 'integer'", "22P02"),
        ]);
    }
}
