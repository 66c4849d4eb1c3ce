//! Aggregates that make JSON: each is a function of the array that is gathered, so what holds of `array_agg` (its
//! order, FILTER, DISTINCT, windows) holds of them. And `string_agg`, whose values have the planner's long texts as
//! their type, which is that of `jsonb` here: they are made texts.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, VisitorMut,
};

use crate::statement::{call, name_of, take};
use saki_catalog::SqlError;
use saki_functions::json::GATHERED;

pub struct Objects;

impl VisitorMut for Objects {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if named(function).as_deref() == Some("string_agg") {
            let (inner, data_type) = (Box::new(take(expr)), DataType::Text);
            *expr = Expr::Cast { kind: CastKind::Cast, expr: inner, data_type, array: false, format: None };
            return ControlFlow::Continue(());
        }
        let Some((_, whole, of_row)) = aggregate(function) else { return ControlFlow::Continue(()) };
        let mut gathered = function.clone();
        gathered.name = ObjectName::from(vec![Ident::new("array_agg")]);
        if let (Some(of_row), FunctionArguments::List(list)) = (of_row, &mut gathered.args) {
            let arguments = list.args.drain(..).filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
                _ => None,
            });
            let row = call(of_row, arguments.collect());
            list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(row))];
        }
        *expr = call(whole, vec![Expr::Function(gathered)]);
        ControlFlow::Continue(())
    }
}

fn named(function: &Function) -> Option<String> {
    function.name.0.last().and_then(|part| part.as_ident()).map(name_of)
}

fn aggregate(function: &Function) -> Option<(&'static str, &'static str, Option<&'static str>)> {
    let name = named(function)?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let (known, whole, of_row) = GATHERED.iter().find(|(known, ..)| *known == name)?;
    let count = if of_row.is_some() { 2 } else { 1 };
    (list.args.len() == count).then_some((*known, *whole, *of_row))
}
