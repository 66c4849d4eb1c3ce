//! Values of type char(n), which end with blanks that do not count: stored and shown without them, they are equal to
//! constants that have any number of them.

use std::fmt;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::functions::unicode::character_length;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, TableSource, binary_expr, cast, lit};

use saki_functions::blanks::BPCHAR;

/// Tells which columns of tables are of type char(n), and how long: their fields are texts as others. The session's
/// planner has it as an extension of its configuration.
#[derive(Clone, Copy)]
pub struct CharColumns(pub fn(&Arc<dyn TableSource>, &str) -> Option<u32>);

/// A column of type char(n), and its length in characters.
pub type CharColumn = (Column, u32);

impl fmt::Debug for CharColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CharColumns")
    }
}

/// Columns of a plan's inputs that are of type char(n).
pub fn char_columns(plan: &LogicalPlan, known: Option<&CharColumns>) -> Vec<CharColumn> {
    let Some(known) = known else { return Vec::new() };
    match plan {
        LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_) => {
            let of = |input: &LogicalPlan| {
                let sized = |column: Column| char_length(input, &column, known).map(|length| (column, length));
                input.schema().columns().into_iter().filter_map(sized).collect::<Vec<_>>()
            };
            plan.inputs().into_iter().flat_map(of).collect()
        }
        _ => Vec::new(),
    }
}

/// The length of a column of a plan that is one of such a table's.
fn char_length(plan: &LogicalPlan, column: &Column, known: &CharColumns) -> Option<u32> {
    match plan {
        LogicalPlan::TableScan(scan) => match scan.source.get_logical_plan() {
            Some(view) => view
                .schema()
                .columns()
                .iter()
                .find(|of_view| of_view.name == column.name)
                .and_then(|of_view| char_length(&view, of_view, known)),
            None => (known.0)(&scan.source, &column.name),
        },
        LogicalPlan::Projection(projection) => {
            let expr = plan.schema().maybe_index_of_column(column).and_then(|at| projection.expr.get(at));
            expr.and_then(column_of).and_then(|inner| char_length(&projection.input, inner, known))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let expr = plan.schema().maybe_index_of_column(column).and_then(|at| aggregate.group_expr.get(at));
            expr.and_then(column_of).and_then(|inner| char_length(&aggregate.input, inner, known))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let below = alias.input.schema().columns();
            let at = plan.schema().maybe_index_of_column(column);
            at.and_then(|at| below.get(at)).and_then(|inner| char_length(&alias.input, inner, known))
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Window(_) => {
            let input = plan.inputs().into_iter().find(|input| input.schema().has_column(column));
            input.and_then(|input| char_length(input, column, known))
        }
        _ => None,
    }
}

fn column_of(mut expr: &Expr) -> Option<&Column> {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    if let Expr::Column(column) = expr { Some(column) } else { None }
}

/// How many characters a value of type char(n) has, with its blanks; `None` for one of another type.
fn length_of(expr: &Expr, columns: &[CharColumn]) -> Option<u32> {
    match expr {
        Expr::Column(column) => columns.iter().find(|(of_char, _)| of_char == column).map(|(_, length)| *length),
        Expr::ScalarFunction(call) if call.name() == BPCHAR => match call.args.get(1)? {
            Expr::Literal(ScalarValue::Int64(Some(length)), _) => u32::try_from(*length).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// How many blanks a value of type char(n) ends with, which are not stored; `None` for one of another type.
pub fn blanks_of(expr: &Expr, columns: &[CharColumn]) -> Option<Expr> {
    let length = lit(i32::try_from(length_of(expr, columns)?).ok()?);
    let letters = cast(character_length().call(vec![expr.clone()]), DataType::Int32);
    Some(binary_expr(length, Operator::Minus, letters))
}

/// Takes the blanks off the ends of constants without a type that stand beside a char(n), of which `columns` are known.
pub fn trim(sides: &mut [&mut Expr], columns: &[CharColumn]) {
    if !sides.iter().any(|expr| length_of(expr, columns).is_some()) {
        return;
    }
    for side in sides {
        if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = &mut **side {
            text.truncate(text.trim_end_matches(' ').len());
        }
    }
}
