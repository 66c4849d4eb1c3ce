//! Correlated subqueries as nested loops: for each row outside, the subquery is run with that row's values.
//!
//! The planner makes joins of correlated subqueries, and refuses those of which it cannot. Queries about the system
//! have many of these (one value of another relation in the select list, EXISTS within an expression, lateral sets of a
//! row's array), and read relations so small that a loop over them is fine. So for queries that read system relations,
//! and only for them, every correlated subquery becomes a function of the columns it refers to.

mod function;
mod lateral;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::{InSubquery, Placeholder, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Subquery, cast};

use self::function::{Form, NestedLoop};
use super::schema;

/// Replaces the correlated subqueries of a plan that reads system relations.
///
/// # Errors
/// When a subquery refers to columns of which there are none.
pub fn nested_loops(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    if !has_correlation(&plan)? || !reads_system(&plan)? {
        return Ok(plan);
    }
    let loops = Loops { state: Arc::new(loop_state(state)) };
    loops.replace(plan)
}

/// Whether any subquery refers to columns outside of it, or is a truth that is no condition.
fn has_correlation(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty());
        let conditional = matches!(node, LogicalPlan::Filter(_));
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| {
                Ok(match expr {
                    Expr::OuterReferenceColumn(..) => true,
                    Expr::Exists(_) | Expr::InSubquery(_) => !conditional,
                    _ => false,
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn reads_system(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= scan.table_name.schema().is_some_and(|schema| schema::NAMES.contains(&schema));
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// How subqueries are run: in one thread, by operators that may run again.
fn loop_state(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    let config = state.config().clone().with_target_partitions(1);
    *state.config_mut() = config;
    let options = state.config_mut().options_mut();
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.extensions.insert(crate::native::NativeOptions { filter: false, aggregate: false, join: false });
    state
}

struct Loops {
    state: Arc<SessionState>,
}

impl Loops {
    fn replace(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let replaced = plan.transform_up(|node| self.replace_node(node))?.data;
        // A lateral query that refers to nothing beside it is an ordinary one.
        let ordinary = replaced.transform_up(|node| {
            Ok(match node {
                LogicalPlan::Subquery(subquery) => Transformed::yes(Arc::unwrap_or_clone(subquery.subquery)),
                other => Transformed::no(other),
            })
        })?;
        Ok(ordinary.data)
    }

    fn replace_node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let node = match node {
            LogicalPlan::Join(join) => match lateral::side(&join) {
                Some(side) => return Ok(Transformed::yes(lateral::unnested(self, &join, &side)?)),
                None => LogicalPlan::Join(join),
            },
            other => other,
        };
        let mut schema = DFSchema::empty();
        for input in node.inputs() {
            schema.merge(input.schema());
        }
        let conditional = matches!(node, LogicalPlan::Filter(_));
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| self.replace_expr(expr, (&schema, conditional)))?;
            Ok(replaced.update_data(|expr| name.restore(expr)))
        })?;
        if changed.transformed { Ok(Transformed::yes(changed.data.recompute_schema()?)) } else { Ok(changed) }
    }

    fn replace_expr(&self, expr: Expr, place: (&DFSchema, bool)) -> Result<Transformed<Expr>> {
        let call = match &expr {
            Expr::ScalarSubquery(subquery) => self.call(subquery, place, Form::Value, None)?,
            Expr::Exists(exists) => {
                self.call(&exists.subquery, place, Form::Exists, None)?.map(|call| negate(call, exists.negated))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                self.call(subquery, place, Form::Contains, Some(expr))?.map(|call| negate(call, *negated))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op: Operator::Eq, quantifier: SetQuantifier::Any }) => {
                self.call(subquery, place, Form::Contains, Some(expr))?
            }
            _ => None,
        };
        Ok(call.map_or_else(|| Transformed::no(expr), Transformed::yes))
    }

    /// The subquery as a function of what it refers to outside; `None`: it refers to nothing.
    fn call(
        &self,
        subquery: &Subquery,
        (schema, conditional): (&DFSchema, bool),
        form: Form,
        needle: Option<&Expr>,
    ) -> Result<Option<Expr>> {
        let plan = self.replace(subquery.subquery.as_ref().clone())?;
        let (plan, arguments) = parameterized(plan, schema)?;
        // Without references the planner knows what to do, but for truths that are not conditions.
        if arguments.is_empty() && (conditional || form == Form::Value) {
            return Ok(None);
        }
        let needle = needle.map(|needle| cast(needle.clone(), plan.schema().field(0).data_type().clone()));
        let arguments = needle.into_iter().chain(arguments).collect();
        Ok(Some(NestedLoop::new(form, plan, Arc::clone(&self.state))?.call(arguments)))
    }
}

fn negate(expr: Expr, negated: bool) -> Expr {
    if negated { Expr::Not(Box::new(expr)) } else { expr }
}

/// The plan with parameters for the columns it refers to outside, and what these are: columns of the schema, or, of
/// what is further out, references still.
fn parameterized(plan: LogicalPlan, schema: &DFSchema) -> Result<(LogicalPlan, Vec<Expr>)> {
    let mut outer: Vec<Column> = Vec::new();
    let mut arguments = Vec::new();
    let replaced = plan.transform_up(|node| {
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| {
                let Expr::OuterReferenceColumn(field, column) = expr else { return Ok(Transformed::no(expr)) };
                let at = outer.iter().position(|known| *known == column).unwrap_or_else(|| {
                    outer.push(column.clone());
                    arguments.push(if schema.has_column(&column) {
                        Expr::Column(column.clone())
                    } else {
                        Expr::OuterReferenceColumn(Arc::clone(&field), column.clone())
                    });
                    outer.len() - 1
                });
                Ok(Transformed::yes(Expr::Placeholder(Placeholder::new_with_field(parameter(at), Some(field)))))
            })?;
            Ok(replaced.update_data(|expr| name.restore(expr)))
        })?;
        if changed.transformed { Ok(Transformed::yes(changed.data.recompute_schema()?)) } else { Ok(changed) }
    })?;
    Ok((replaced.data, arguments))
}

/// What the parameter for an argument is called.
fn parameter(at: usize) -> String {
    format!("$outer{at}")
}
