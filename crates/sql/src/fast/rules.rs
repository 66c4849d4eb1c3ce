//! What stands beside a change of rows: conditions on what they become, and keys between tables.
//!
//! They are planned once and kept with the statement, for as long as the catalog and the session's parameters stay the
//! same. A condition that says something else from one time to the next, such as one that asks for the time, is
//! planned for each statement, and so is the statement.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{self};

use crate::dml::{decoded, related};
use saki_catalog::{Catalog, ColumnReader, EntryDecoder, EntryEncoder, ForeignKey, ReferentialAction, Result, Table};
use saki_context::constraint::{ActionRules, ForeignKeys, RowChecks};
use saki_context::planner::Planner;
use saki_parameters::{Parameters, State};
use saki_postgres::statement::parse_expression;
use saki_postgres::statement::walk::walk_expressions;
use saki_store::{Entry, Generation, Identity};

/// The rules of a table, ready to be looked at.
#[derive(Default)]
pub struct Rules {
    /// `None`: it has no conditions, and no hidden columns.
    checks: Option<RowChecks>,
    /// For rows that change since they refer to its own.
    pub actions: ActionRules,
    /// Tables that a change of its rows may look at or change, by name, itself first; none if it has no keys.
    pub related: Vec<String>,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("related", &self.related).finish_non_exhaustive()
    }
}

/// The rules as they were in a generation, for a session with these parameters.
#[derive(Debug)]
pub struct KeptRules {
    generation: Identity,
    state: Arc<State>,
    rules: Arc<Rules>,
}

/// What rules are planned with.
pub struct RulePlanner<'s> {
    pub planner: &'s Planner,
    pub parameters: &'s Parameters,
}

impl KeptRules {
    /// The rules of a table; `None` if they do not keep.
    ///
    /// # Errors
    /// When a condition or a default cannot be planned.
    pub fn plan(with: &RulePlanner<'_>, generation: &Generation, table: &Arc<Table>) -> Result<Option<Self>> {
        let (catalog, state) = (&generation.catalog, with.parameters.state());
        let has_keys = !ForeignKeys::new(catalog, table)?.is_empty();
        let related = if has_keys { related(catalog, table) } else { Vec::new() };
        let tables = related.iter().filter_map(|name| catalog.get(name)).chain([table]);
        if !last(&with.planner.state(), catalog, tables)? {
            return Ok(None);
        }
        let checks = match table.checks.is_empty() && !table.has_filled() {
            true => None,
            false => Some(RowChecks::new(&with.planner.state(), table)?),
        };
        let actions = ActionRules::new(|| with.planner.state(), catalog, table)?;
        let rules = Arc::new(Rules { checks, actions, related });
        Ok(Some(Self { generation: generation.identity, state, rules }))
    }

    /// The rules, if they still hold.
    pub fn rules(&self, with: &RulePlanner<'_>, generation: &Generation) -> Option<Arc<Rules>> {
        let is_same = self.generation == generation.identity
            && with.parameters.ask_state(|state| Arc::ptr_eq(&self.state, state));
        is_same.then(|| Arc::clone(&self.rules))
    }
}

impl Rules {
    /// Checks rows as they are going to be, and gives their hidden columns the values that belong to the others.
    ///
    /// # Errors
    /// 23514, and what an expression says.
    pub fn complete(&self, table: &Table, rows: &mut [Entry]) -> Result<()> {
        let Some(checks) = self.checks.as_ref().filter(|_| !rows.is_empty()) else { return Ok(()) };
        let seen = decoded(table, rows)?;
        checks.check(&seen)?;
        if !table.has_filled() {
            return Ok(());
        }
        let complete = checks.complete(&seen)?;
        let readers = ColumnReader::of_batch(&complete, table, 0)?;
        let layout = Arc::new(table.primary_layout());
        let (mut decoder, mut encoder) = (EntryDecoder::new(Arc::clone(&layout)), EntryEncoder::new(layout));
        let hidden = table.width()..table.columns.len();
        for (at, (key, row)) in rows.iter_mut().enumerate() {
            decoder.decode(table, key, row, |values| {
                let value = |column| if hidden.contains(&column) { readers[column].value(at) } else { values[column] };
                encoder.encode(&mut Vec::new(), value)
            })??;
            row.clone_from(&encoder.row);
        }
        Ok(())
    }

    /// Whether there are none.
    pub fn is_free(&self) -> bool {
        self.checks.is_none() && !self.has_keys()
    }

    /// Whether tables have keys that rows refer to each other by.
    pub fn has_keys(&self) -> bool {
        !self.related.is_empty()
    }
}

/// Whether the conditions of tables, and the defaults that actions set, say the same at any time.
fn last<'t>(state: &SessionState, catalog: &Catalog, tables: impl Iterator<Item = &'t Arc<Table>>) -> Result<bool> {
    for table in tables {
        let sets = |key: &&ForeignKey| [key.on_delete, key.on_update].contains(&ReferentialAction::SetDefault);
        let set = table.foreign_keys.iter().filter(sets).flat_map(|key| &key.columns);
        let defaults = set.filter_map(|column| table.default_of(catalog, *column));
        for text in table.checks.iter().map(|check| check.expression.clone()).chain(defaults) {
            if !is_lasting(state, &parse_expression(&text)?) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether an expression calls nothing but functions whose results depend on their arguments alone.
fn is_lasting(state: &SessionState, expression: &ast::Expr) -> bool {
    let is_immutable = |function: &ast::Function| {
        let found = state.udf(&function.name.to_string().to_lowercase());
        found.is_ok_and(|function| function.signature().volatility == Volatility::Immutable)
    };
    let visited = walk_expressions(expression, |part| match part {
        ast::Expr::Function(function) if !is_immutable(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    visited.is_continue()
}
