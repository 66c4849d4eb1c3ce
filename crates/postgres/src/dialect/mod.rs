//! What statements mean to PostgreSQL's users where the planner means something else.
//!
//! ```text
//!   statement ─► columns (names) ─► literals (widths) ─► casts (types the planner does not know) ─► plan
//!                                                              operators: operands' types while planning ─┘
//!   plan ─► resolution (what stands together gets one type, by PostgreSQL's rules)
//!        ─► meaning (checked arithmetic, rounding; types stay) ─► optimizer
//! ```
//!
//! Everything here happens once per planned statement; what a row costs is in `functions`.

mod calls;
mod casts;
mod condition;
mod folds;
mod literals;
mod meaning;
mod operators;
mod query;
mod resolution;
mod spellings;
#[cfg(test)]
mod tests;
mod types;
mod with;

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::functions::math;
use datafusion::functions_aggregate::bool_and_or::bool_and_udaf;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, VisitorMut};

pub use self::calls::{called_rows, refuse_foreign, refuse_sets};
pub use self::condition::{check_default, condition, default, expression, lasting, simplified};
pub use self::operators::Operators;
use self::query::groups::{gathered, having, objects, twins};
pub use self::query::rows::row as row_values;
pub use self::query::times::is_relative;
use self::query::{emptiness, joins, lists, order, quantified, rows, series, sets, times, values, wildcards, windows};
pub use self::resolution::CharColumns;
pub use self::with::mark;
use crate::column_names::Columns;
pub use crate::column_names::{UNNAMED, called, shown, unmarked, with_shown_names};
use crate::rewrite;
use saki_catalog::{Result, SqlError};
pub use saki_functions::blanks::BPCHAR;
use saki_functions::sets::ordered::ordered_sets;
use saki_functions::{
    arithmetic, arrays, blanks, bytes, choices, domains, encodings, json, letters, numbers, numeric, patterns,
    row_wise, to_char,
};
use saki_parameters::SessionTime;
use saki_statement::size;
pub use saki_statement::size::{is_large, is_long};
use saki_statement::walk::walk_mut;
pub use saki_times::{TimeOption, session_time};

/// Makes functions and rewrites known to a session's planner.
pub fn register(state: &mut SessionState) {
    // The rewrite of sets has its own; this one would make lists of any length where nothing is rewritten.
    let _ = state.deregister_udf("generate_series");
    // A state takes whatever it is given; what had the name before gives way.
    let _ = state.register_function_rewrite(Arc::new(meaning::Meaning));
    let _ = state.register_udf(Arc::new(arithmetic::numeric_function()));
    let alias = |function: &ScalarUDF, name| function.clone().with_aliases([name]);
    let random_uuid = alias(&datafusion::functions::string::uuid(), "gen_random_uuid");
    let every = bool_and_udaf().as_ref().clone().with_aliases(["every"]);
    for aggregate in numeric::deviations().chain([every, numeric::average()]).chain(ordered_sets()) {
        let _ = state.register_udaf(Arc::new(aggregate));
    }
    for function in numbers::all() {
        let _ = state.register_udwf(Arc::new(function));
    }
    let of_floats = domains::all().chain([math::exp(), math::power()].map(|function| function.as_ref().clone()));
    for function in of_floats
        .map(numeric::exact)
        .chain(arithmetic::whole_functions())
        .chain(numeric::divisors::functions())
        .chain([numeric::buckets::function()])
        .chain(numeric::whole::functions())
        .chain(numeric::scales::functions())
        .chain([arrays::fill::function(), arrays::remove::function()])
        .chain(arrays::labels::functions())
        .chain(letters::functions())
        .chain(row_wise::overloads::functions())
        .chain(row_wise::functions())
        .chain([random_uuid, twins::apart(), folds::function(), patterns::function(), blanks::function()])
        .chain([saki_functions::sets::series::function()])
        .chain(patterns::regexps::functions())
        .chain(patterns::search::functions())
        .chain(bytes::functions())
        .chain(choices::all())
        .chain(encodings::functions())
        .chain(json::functions())
        .chain(saki_times::all())
        .chain(to_char::function())
        .chain([to_char::to_number()])
    {
        let _ = state.register_udf(Arc::new(function));
    }
}

/// The logical plan of a statement.
///
/// # Errors
/// What the planner says, and of literals that cannot be read. 42883 for functions that PostgreSQL does not have, 54001
/// for a plan that is too large.
pub async fn plan(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    if let Statement::Statement(statement) = &mut statement {
        size::refuse_doubled(statement)?;
        refuse_foreign(statement.as_ref())?;
        calls::refuse_misplaced(statement.as_ref())?;
        with::mark_repeated(statement)?;
        pass(statement, &mut with::Recursions)?;
        rewrite::rewrite(statement)?;
    }
    let relations = match joins::are_in(&statement) {
        true => joins::Relations::of(state, &statement).await?,
        false => joins::Relations::default(),
    };
    if let Statement::Statement(statement) = &mut statement {
        rewrite(statement, relations, session_time(state.config_options()))?;
    }
    let plan = state.statement_to_plan(statement).await?;
    size::refuse_large(&plan)?;
    let plan = resolution::resolved(plan, state.config().get_extension().as_deref())?;
    let plan = resolution::called_last(resolution::kept(plan)?)?;
    Ok(emptiness::settled(plan)?)
}

/// The columns that a plan gives, as clients see them: their types are known once its expressions' have been brought
/// together.
pub fn result_schema(state: &SessionState, plan: LogicalPlan) -> SchemaRef {
    let schema = SchemaRef::new(plan.schema().as_arrow().clone());
    let analyzed = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {});
    let schema = analyzed.map_or(schema, |plan| SchemaRef::new(plan.schema().as_arrow().clone()));
    shown(&schema)
}

fn rewrite(statement: &mut ast::Statement, relations: joins::Relations, session: &SessionTime) -> Result<()> {
    pass(statement, &mut sets::Sets)?;
    pass(statement, &mut series::Series)?;
    pass(statement, &mut joins::Joins::new(relations.clone()))?;
    pass(statement, &mut wildcards::Wildcards)?;
    pass(statement, &mut order::Order::default())?;
    // Columns are called after what was written, not after what it becomes.
    pass(statement, &mut Columns::default())?;
    pass(statement, &mut joins::WholeRows::new(relations))?;
    pass(statement, &mut objects::Objects)?;
    pass(statement, &mut windows::Windows)?;
    pass(statement, &mut having::Having)?;
    pass(statement, &mut quantified::Quantified)?;
    pass(statement, &mut casts::Calls)?;
    pass(statement, &mut times::Times { style: &session.style })?;
    pass(statement, &mut spellings::Spellings)?;
    pass(statement, &mut twins::Twins)?;
    pass(statement, &mut gathered::Gathered)?;
    pass(statement, &mut lists::Lists)?;
    pass(statement, &mut values::Values)?;
    pass(statement, &mut rows::Rows)?;
    let mut literals = literals::Literals::of(statement);
    pass(statement, &mut literals)?;
    pass(statement, &mut casts::Casts)?;
    pass(statement, &mut folds::Folds)
}

fn pass(statement: &mut ast::Statement, visitor: &mut impl VisitorMut<Break = SqlError>) -> Result<()> {
    match walk_mut(statement, visitor) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
