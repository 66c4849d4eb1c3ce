//! Correlated subqueries as nested loops: for each row outside, the subquery is run with that row's values.
//!
//! The planner makes joins of correlated subqueries, and refuses those of which it cannot. Queries about the system
//! have many of these (one value of another relation in the select list, EXISTS within an expression, lateral sets of a
//! row's array), and read relations so small that a loop over them is fine. So for queries that read system relations
//! every correlated subquery becomes a function of the columns it refers to. For others that is the last resort, where
//! the planner has refused or gets it wrong.

mod function;
mod lateral;
mod outer;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, Volatility, cast,
};

use self::function::{Form, NestedLoop};
use self::outer::parameterized;
use crate::execution::tracked::Untracked;
use crate::native::NativeOptions;
use crate::node::QueryEnv;
use saki_correlated::lifted;

/// Replaces the correlated subqueries of a plan that reads relations of `small` schemas, over which loops are fine.
///
/// # Errors
/// When a subquery refers to columns of which there are none.
pub fn nested_loops(plan: LogicalPlan, state: &SessionState, small: &[&str]) -> Result<LogicalPlan> {
    if has_correlation(&plan)? && reads(&plan, small)? {
        let loops = Loops { state: Arc::new(loop_state(state)), is_last_resort: false };
        return loops.replace(plan);
    }
    if has_misread(&plan)? { last_resort(plan, state) } else { Ok(plan) }
}

/// Replaces the correlated subqueries of a plan, and others that are no conditions.
///
/// # Errors
/// When a subquery refers to columns of which there are none.
pub fn last_resort(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    Loops { state: Arc::new(loop_state(state)), is_last_resort: true }.replace(plan)
}

/// The plan by which a statement runs that works with `env`. Subqueries of which the planner can make no join, not even
/// in another form ([`lifted`]), are run for each row.
///
/// # Errors
/// What the planner says.
pub async fn physical_plan(
    state: &SessionState,
    logical: &LogicalPlan,
    env: &QueryEnv,
) -> saki_catalog::Result<Untracked> {
    // What cannot be put together in another form stays as it is.
    if has_subqueries(logical)?
        && let Ok(Some(lifted)) = lifted(logical)
        && let Ok(plan) = state.create_physical_plan(&lifted).await
    {
        return Ok(Untracked::new(plan, env));
    }
    let plan = match state.create_physical_plan(logical).await {
        Ok(plan) => plan,
        Err(refusal) if !has_subqueries(logical)? => return Err(refusal.into()),
        Err(refusal) => {
            let looped = last_resort(logical.clone(), state)?;
            state.create_physical_plan(&looped).await.map_err(|_| refusal)?
        }
    };
    Ok(Untracked::new(plan, env))
}

/// Whether there is a subquery in any expression, or a lateral one.
///
/// # Errors
/// None that an expression gives.
pub fn has_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let mut found = has_correlation(plan)?;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::SetComparison(_))))?
                || has_in(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether there is an IN that the planner gets wrong: it loses NULLs of a NOT IN that is correlated or about or among
/// constants, and of any IN whose truth something else is made of.
fn has_misread(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let condition = match node {
            LogicalPlan::Filter(filter) => Some(&filter.predicate),
            LogicalPlan::Join(join) => join.filter.as_ref(),
            _ => None,
        };
        found |= condition.is_some_and(|condition| split_conjunction(condition).into_iter().any(is_misread));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_misread(condition: &Expr) -> bool {
    match condition {
        Expr::InSubquery(found) => (found.negated && is_special(found)) || has_in(&found.expr),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(found) => is_special(found) || has_in(&found.expr),
            other => has_in(other),
        },
        other => is_misread_within(other),
    }
}

/// The same of a part of a condition. Of a row that is not found otherwise, whether it is false or unknown that it is
/// among others is all the same; of NOT IN it is not.
fn is_misread_within(condition: &Expr) -> bool {
    match condition {
        Expr::InSubquery(InSubquery { expr, negated: false, .. }) => has_in(expr),
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            is_misread_within(&binary.left) || is_misread_within(&binary.right)
        }
        other => has_in(other),
    }
}

/// Whether a subquery refers to what is outside, or is asked about a constant, which may be NULL, or gives but one: the
/// planner compares these by no key.
fn is_special(found: &InSubquery) -> bool {
    !found.subquery.outer_ref_columns.is_empty()
        || found.expr.column_refs().is_empty()
        || gives_constant(&found.subquery.subquery, 0)
}

/// Whether a column of a plan is the same in all rows, as it is written.
fn gives_constant(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr[column].clone().unalias() {
            Expr::Column(inner) => projection
                .input
                .schema()
                .maybe_index_of_column(&inner)
                .is_some_and(|column| gives_constant(&projection.input, column)),
            made => made.column_refs().is_empty(),
        },
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => {
            plan.inputs().into_iter().all(|input| gives_constant(input, column))
        }
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

fn has_in(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::InSubquery(_)))).unwrap_or(false)
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

fn reads(plan: &LogicalPlan, schemas: &[&str]) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= scan.table_name.schema().is_some_and(|schema| schemas.contains(&schema));
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
    options.extensions.insert(NativeOptions { filter: false, aggregate: false, join: false });
    state
}

struct Loops {
    state: Arc<SessionState>,
    is_last_resort: bool,
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
                Some(side) => {
                    let right = self.replace(side.subquery.subquery.as_ref().clone())?;
                    let rows = |plan| self.looped(Form::Rows, plan);
                    return Ok(Transformed::yes(lateral::unnested(&join, &side, right, rows)?));
                }
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
            let replaced = expr.transform_up(|expr| self.replace_expr(expr, Place { schema: &schema, conditional }))?;
            Ok(replaced.update_data(|expr| name.restore(expr)))
        })?;
        if changed.transformed { Ok(Transformed::yes(changed.data.recompute_schema()?)) } else { Ok(changed) }
    }

    fn replace_expr(&self, expr: Expr, place: Place<'_>) -> Result<Transformed<Expr>> {
        let replaced = match expr {
            Expr::ScalarSubquery(subquery) => match self.call(subquery, place, Form::Value, None)? {
                Called::Loop(call) => call,
                Called::Plain(subquery) => Expr::ScalarSubquery(subquery),
            },
            Expr::Exists(Exists { subquery, negated }) => match self.call(subquery, place, Form::Exists, None)? {
                Called::Loop(call) => negate(call, negated),
                Called::Plain(subquery) => Expr::Exists(Exists { subquery, negated }),
            },
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                match self.call(subquery, place, Form::Contains, Some(&expr))? {
                    Called::Loop(call) => negate(call, negated),
                    Called::Plain(subquery) => Expr::InSubquery(InSubquery { expr, subquery, negated }),
                }
            }
            Expr::SetComparison(SetComparison { expr, subquery, op: Operator::Eq, quantifier: SetQuantifier::Any }) => {
                match self.call(subquery, place, Form::Contains, Some(&expr))? {
                    Called::Loop(call) => call,
                    Called::Plain(subquery) => Expr::InSubquery(InSubquery { expr, subquery, negated: false }),
                }
            }
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::yes(replaced))
    }

    /// The subquery as a function of what it refers to outside.
    fn call(&self, subquery: Subquery, place: Place<'_>, form: Form, needle: Option<&Expr>) -> Result<Called> {
        let plan = self.replace(Arc::unwrap_or_clone(subquery.subquery))?;
        let (plan, arguments) = parameterized(plan, place.schema)?;
        // Without references the planner knows what to do, but for truths that are not conditions, or IN within one.
        let is_known = match form {
            Form::Value => true,
            Form::Contains => place.conditional && !self.is_last_resort,
            Form::Exists | Form::Rows => place.conditional,
        };
        if arguments.is_empty() && is_known {
            return Ok(Called::Plain(Subquery { subquery: Arc::new(plan), ..subquery }));
        }
        let Some(needle) = needle else { return Ok(Called::Loop(self.looped(form, plan)?.call(arguments))) };
        let (plan, needle) = alike(plan, needle.clone(), place.schema)?;
        let arguments = std::iter::once(needle).chain(arguments).collect();
        Ok(Called::Loop(self.looped(form, plan)?.call(arguments)))
    }

    fn looped(&self, form: Form, plan: LogicalPlan) -> Result<NestedLoop> {
        // Where rows are read from pages, nothing may wait for a subquery: what is volatile stays above.
        let volatility = if self.is_last_resort { Volatility::Volatile } else { Volatility::Stable };
        NestedLoop::new(form, plan, Arc::clone(&self.state), volatility)
    }
}

/// A plan's one column and what is looked for in it, of one type.
fn alike(plan: LogicalPlan, needle: Expr, schema: &DFSchema) -> Result<(LogicalPlan, Expr)> {
    let held = plan.schema().field(0).data_type().clone();
    let asked = needle.get_type(schema)?;
    if asked == held {
        return Ok((plan, needle));
    }
    let common = comparison_coercion(&asked, &held).unwrap_or_else(|| held.clone());
    let column = Expr::Column(plan.schema().columns().swap_remove(0));
    let plan = if held == common {
        plan
    } else {
        LogicalPlanBuilder::from(plan).project([cast(column, common.clone())])?.build()?
    };
    Ok((plan, cast(needle, common)))
}

/// Where a subquery stands: columns that are there, and whether truths there are conditions on rows.
#[derive(Clone, Copy)]
struct Place<'s> {
    schema: &'s DFSchema,
    conditional: bool,
}

/// What became of a subquery.
enum Called {
    Loop(Expr),
    /// It refers to nothing outside.
    Plain(Subquery),
}

fn negate(expr: Expr, negated: bool) -> Expr {
    if negated { Expr::Not(Box::new(expr)) } else { expr }
}

#[cfg(test)]
mod tests;
