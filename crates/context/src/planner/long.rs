//! Long texts of a statement, kept from the planner: it sees parameters in their places until names and types are
//! resolved, and held constants after that ([`saki_plan::constants`]). What it computes itself and is long becomes a
//! held constant at once.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, cast};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Query, SetExpr, Value, VisitorMut};
use saki_base::memory::Pool;
use saki_plan::constants::{LONG_BYTES, held, is_long};
use saki_postgres::statement::walk::walk_mut;

/// The first parameter's number that stands for a text: beyond those that a client can give.
const FIRST: usize = 1 << 17;

/// The long texts that were taken out of a statement, by their parameters' order.
#[derive(Default)]
pub struct Texts {
    taken: Vec<String>,
    /// How many VALUES the visit is in: the types of their rows are found out otherwise.
    in_values: usize,
}

impl Texts {
    /// Puts parameters in the place of long texts.
    pub fn take_out(statement: &mut Statement) -> Self {
        let mut texts = Self::default();
        if let Statement::Statement(statement) = statement {
            let _ = walk_mut(statement.as_mut(), &mut texts);
        }
        texts
    }

    /// Puts the texts, as held constants, in the place of their parameters.
    ///
    /// # Errors
    /// 53200 if there is no memory to hold them; what the planner says.
    pub fn put_back(self, plan: LogicalPlan, memory: &Arc<Pool>) -> Result<LogicalPlan> {
        if self.taken.is_empty() {
            return Ok(plan);
        }
        let texts = self.taken.into_iter().map(|text| held(ScalarValue::Utf8(Some(text)), memory));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let constant = |expr: Expr| match &expr {
            Expr::Placeholder(Placeholder { id, field }) => {
                let Some(text) = number(id).and_then(|at| texts.get(at)) else { return Ok(Transformed::no(expr)) };
                let of = field.as_ref().map(|field| field.data_type().clone());
                Ok(Transformed::yes(match of {
                    Some(of) if !of.is_string() => cast(text.clone(), of),
                    _ => text.clone(),
                }))
            }
            _ => Ok(Transformed::no(expr)),
        };
        let plan = plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            let node = node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expr.transform_up(constant)?.update_data(|expr| name.restore(expr)))
            })?;
            node.transform_data(|node| node.recompute_schema().map(Transformed::yes))
        })?;
        Ok(plan.data)
    }
}

/// Which text a parameter stands for.
fn number(parameter: &str) -> Option<usize> {
    parameter.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(FIRST)
}

fn is_values(query: &Query) -> bool {
    matches!(query.body.as_ref(), SetExpr::Values(_))
}

impl VisitorMut for Texts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.in_values += usize::from(is_values(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.in_values -= usize::from(is_values(query));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        let ast::Expr::Value(value) = expr else { return ControlFlow::Continue(()) };
        if let Value::SingleQuotedString(text) = &mut value.value
            && text.len() >= LONG_BYTES
            && self.in_values == 0
        {
            let parameter = format!("${}", FIRST + self.taken.len());
            self.taken.push(std::mem::take(text));
            value.value = Value::Placeholder(parameter);
        }
        ControlFlow::Continue(())
    }
}

/// Holds the long constants that the planner has computed.
#[derive(Debug)]
pub struct LongConstants {
    pub memory: Arc<Pool>,
}

impl OptimizerRule for LongConstants {
    fn name(&self) -> &str {
        "saki_long_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if matches!(plan, LogicalPlan::Values(_)) {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let is_literal = |expr: &Expr| Ok(matches!(expr, Expr::Literal(value, _) if is_long(value)));
            if !expr.exists(is_literal)? {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let constant = |expr| match expr {
                Expr::Literal(value, _) if is_long(&value) => held(value, &self.memory).map(Transformed::yes),
                other => Ok(Transformed::no(other)),
            };
            Ok(expr.transform_up(constant)?.update_data(|expr| name.restore(expr)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(sql: &str) -> (Vec<usize>, String) {
        let mut statement = saki_postgres::statement::parse(sql).unwrap().remove(0);
        let texts = Texts::take_out(&mut statement);
        (texts.taken.iter().map(String::len).collect(), statement.to_string())
    }

    #[test]
    fn long_texts_are_parameters_while_names_are_resolved() {
        let long = "x".repeat(LONG_BYTES);
        let sql = format!("SELECT length('{long}'), 'short' FROM t WHERE a = '{long}y'");
        let expected = format!("SELECT length(${FIRST}), 'short' FROM t WHERE a = ${}", FIRST + 1);
        assert_eq!(taken(&sql), (vec![LONG_BYTES, LONG_BYTES + 1], expected));
        assert_eq!(number(&format!("${}", FIRST + 1)), Some(1));
        assert_eq!(number("$1"), None);
        let rows = format!("SELECT a FROM (VALUES ('{long}')) AS v (a)");
        assert_eq!(taken(&rows), (vec![], rows.clone()), "rows of VALUES stay");
    }
}
