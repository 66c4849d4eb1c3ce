//! What plans are made with: the rules, functions and settings of the planner.

use std::sync::Arc;

use datafusion::common::config::Dialect;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::TableSource;
use datafusion::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::{PhysicalOptimizer, PhysicalOptimizerRule};
use datafusion::prelude::SessionConfig;

use super::alternatives::Alternatives;
use super::bounded;
use super::interrupt::{Interruptible, WhileResolving};
use super::long::LongConstants;
use super::rules::{FLOAT_KEYS, MODEST_TOPS, PushFilters, SERIES_IN_ORDER};
use saki_base::DataType;
use saki_base::memory::Pool;
use saki_plan::{
    ALIKE_ROWS, COUNTED_INPUTS, ImpliedConditions, IndexJoinRule, KEYLESS_JOINS, MergeFilters, NARROW_BATCHES,
    NativeOptions, NativeRule, OrderedPlanner, RECURSIONS, Settings, SnapshotTable, UNIONS_IN_TURN,
};
use saki_postgres::dialect::{self, CharColumns};
use saki_postgres::{Operators, TypeNames};

/// What a sort keeps back at most, to merge what it has spilled.
const SORT_RESERVATION_BYTES: usize = 10 << 20;

/// The state of a session that has set nothing.
pub fn new_state(memory: &Arc<Pool>) -> SessionState {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema("saki", "public")
        .with_create_default_catalog_and_schema(false)
        // Ours has what PostgreSQL's has.
        .with_information_schema(false)
        .with_extension(Arc::new(CharColumns(char_length)))
        // What holds long constants.
        .with_extension(Arc::clone(memory));
    let options = config.options_mut();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    // 0.06 + 0.01 is 0.07 in SQL.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.collect_spans = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    // LIMIT, array_agg and row_number over a subquery see its rows in its order.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.execution.parquet.schema_force_view_types = false;
    // Of `x IS TRUE` the planner knows that it is never NULL, and its operator does not: to group by it is right.
    options.execution.skip_physical_aggregate_schema_check = true;
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = PhysicalOptimizer::new().rules;
    for rule in rules.iter_mut().filter(|rule| rule.name() == "FilterPushdown") {
        *rule = Arc::new(PushFilters);
    }
    let after = rules.iter().position(|rule| rule.name() == "join_selection").map_or(0, |position| position + 1);
    rules.insert(after, Arc::new(IndexJoinRule));
    let mut logical_rules = Optimizer::new().rules;
    logical_rules.insert(0, Arc::new(ImpliedConditions));
    let after = logical_rules.iter().position(|rule| rule.name() == "simplify_expressions").map_or(0, |at| at + 1);
    logical_rules.insert(after, Arc::new(LongConstants { memory: Arc::clone(memory) }));
    logical_rules.push(Arc::new(Alternatives));
    // It takes the groups of a join for determined by one table's key, and sorts them by that alone.
    logical_rules.retain(|rule| rule.name() != "eliminate_duplicated_expr");
    // Before rows are distributed over partitions for operators that need it.
    let before = rules.iter().position(|rule| rule.name() == "EnsureRequirements").unwrap_or(rules.len());
    rules.insert(before, Arc::new(FLOAT_KEYS));
    rules.insert(before, Arc::new(NativeRule));
    rules.insert(before, Arc::new(NARROW_BATCHES));
    rules.insert(before, Arc::new(UNIONS_IN_TURN));
    rules.insert(before, Arc::new(RECURSIONS));
    rules.push(Arc::new(SERIES_IN_ORDER));
    rules.push(Arc::new(MergeFilters));
    rules.push(Arc::new(MODEST_TOPS));
    rules.push(Arc::new(ALIKE_ROWS));
    rules.push(Arc::new(KEYLESS_JOINS));
    rules.push(Arc::new(COUNTED_INPUTS));
    let rules = rules.into_iter().map(Interruptible::physical).collect();
    let logical_rules = logical_rules.into_iter().map(Interruptible::logical).collect();
    let mut planners = SessionStateDefaults::default_expr_planners();
    planners.insert(0, Arc::new(Operators));
    planners.insert(0, Arc::new(WhileResolving));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_expr_planners(planners)
        .with_relation_planners(vec![Arc::new(WhileResolving)])
        .with_type_planner(Arc::new(TypeNames))
        .with_optimizer_rules(logical_rules)
        .with_physical_optimizer_rules(rules)
        .with_query_planner(Arc::new(OrderedPlanner))
        .build();
    dialect::register(&mut state);
    bounded::register(&mut state, memory);
    state
}

/// The length of a column of a table of ours that is of type char(n).
fn char_length(source: &Arc<dyn TableSource>, column: &str) -> Option<u32> {
    let provider = source_as_provider(source).ok()?;
    let SnapshotTable { table, .. } = provider.downcast_ref::<SnapshotTable>()?;
    match table.columns[table.column(column)?].data_type {
        DataType::Char(length) => Some(length),
        _ => None,
    }
}

/// The state with a session's settings.
pub fn with_settings(mut state: SessionState, settings: &Settings) -> SessionState {
    let config = state.config().clone().with_target_partitions(settings.partitions);
    *state.config_mut() = config.with_batch_size(settings.batch_rows);
    let options = state.config_mut().options_mut();
    options.optimizer.prefer_hash_join = settings.operators != saki_plan::Operators::Spilling;
    if let Some(bytes) = settings.query_memory {
        // What a sort keeps back for merging has to fit beside what it sorts.
        options.execution.sort_spill_reservation_bytes = SORT_RESERVATION_BYTES.min(bytes / 64);
    }
    options.optimizer.enable_dynamic_filter_pushdown = settings.dynamic_filters;
    options.extensions.insert(NativeOptions::from(settings));
    state
}
