//! Values of type char(n), which end with blanks that do not count: stored and shown without them, they are equal to
//! constants that have any number of them.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};

use saki_functions::blanks::BPCHAR;

/// Tells which columns of tables are of type char(n): their fields are texts as others. The session's planner has it
/// as an extension of its configuration.
#[derive(Clone, Copy)]
pub struct CharColumns(pub fn(&Arc<dyn TableSource>, &str) -> bool);

impl fmt::Debug for CharColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CharColumns")
    }
}

/// Columns of a plan's inputs that are of type char(n).
pub fn char_columns(plan: &LogicalPlan, known: Option<&CharColumns>) -> Vec<Column> {
    let Some(known) = known else { return Vec::new() };
    match plan {
        LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_) => {
            let of = |input: &LogicalPlan| {
                input.schema().columns().into_iter().filter(|column| is_char(input, column, known)).collect::<Vec<_>>()
            };
            plan.inputs().into_iter().flat_map(of).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a column of a plan is one of such a table's.
fn is_char(plan: &LogicalPlan, column: &Column, known: &CharColumns) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => match scan.source.get_logical_plan() {
            Some(view) => view
                .schema()
                .columns()
                .iter()
                .any(|of_view| of_view.name == column.name && is_char(&view, of_view, known)),
            None => (known.0)(&scan.source, &column.name),
        },
        LogicalPlan::Projection(projection) => {
            let expr = plan.schema().maybe_index_of_column(column).and_then(|at| projection.expr.get(at));
            matches!(expr.map(unaliased), Some(Expr::Column(inner)) if is_char(&projection.input, inner, known))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let expr = plan.schema().maybe_index_of_column(column).and_then(|at| aggregate.group_expr.get(at));
            matches!(expr.map(unaliased), Some(Expr::Column(inner)) if is_char(&aggregate.input, inner, known))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let below = alias.input.schema().columns();
            let at = plan.schema().maybe_index_of_column(column);
            at.and_then(|at| below.get(at)).is_some_and(|inner| is_char(&alias.input, inner, known))
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Window(_) => {
            let input = plan.inputs().into_iter().find(|input| input.schema().has_column(column));
            input.is_some_and(|input| is_char(input, column, known))
        }
        _ => false,
    }
}

fn unaliased(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}

/// Takes the blanks off the ends of constants without a type that stand beside a char(n), of which `columns` are known.
pub fn trim(sides: &mut [&mut Expr], columns: &[Column]) {
    let is_char = |expr: &&mut Expr| match &**expr {
        Expr::Column(column) => columns.contains(column),
        Expr::ScalarFunction(call) => call.name() == BPCHAR,
        _ => false,
    };
    if !sides.iter().any(is_char) {
        return;
    }
    for side in sides {
        if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = &mut **side {
            text.truncate(text.trim_end_matches(' ').len());
        }
    }
}
