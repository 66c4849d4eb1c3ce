//! Native operators against DataFusion's own, on the same batches.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::execution::context::SessionContext;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionConfig;
use proptest::prelude::*;

use super::NativeRule;
use crate::fixture::{SmallRow, block_on, small_batch, small_schema, sorted_rows};
use crate::native::NativeOptions;
use crate::node::Plan;

/// Partitions of batches of a table.
type Partitions = Vec<Vec<RecordBatch>>;

fn context(native: bool, batch_rows: usize, tables: &[(&str, &Partitions)]) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(2).with_batch_size(batch_rows);
    let options = config.options_mut();
    options.sql_parser.map_string_types_to_utf8view = false;
    // Small tables are joined by hash like others.
    options.optimizer.hash_join_single_partition_threshold = 0;
    options.extensions.insert(NativeOptions { filter: native, aggregate: native, join: native });
    let mut rules = PhysicalOptimizer::new().rules;
    let before = rules.iter().position(|rule| rule.name() == "EnsureRequirements").unwrap();
    rules.insert(before, Arc::new(NativeRule));
    let state =
        SessionStateBuilder::new().with_config(config).with_default_features().with_physical_optimizer_rules(rules);
    let context = SessionContext::new_with_state(state.build());
    for (name, partitions) in tables {
        let table = MemTable::try_new(small_schema(), (*partitions).clone()).unwrap();
        context.register_table(*name, Arc::new(table)).unwrap();
    }
    context
}

fn plan(context: &SessionContext, sql: &str) -> Plan {
    block_on(async { context.sql(sql).await?.create_physical_plan().await })
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn nodes(plan: &Plan) -> Vec<String> {
    let mut names = vec![plan.name().to_owned()];
    names.extend(plan.children().into_iter().flat_map(nodes));
    names
}

fn rows(context: &SessionContext, plan: Plan) -> Result<Vec<String>, String> {
    let collected = block_on(collect(plan, context.task_ctx()));
    collected.map(|batches| sorted_rows(&batches)).map_err(|error| error.to_string())
}

/// Runs a query both ways; `expected` are nodes that the native plan must have.
fn compare(sql: &str, batch_rows: usize, tables: &[(&str, &Partitions)], expected: &[&str]) {
    let (ours, others) = (context(true, batch_rows, tables), context(false, batch_rows, tables));
    let (native, foreign) = (plan(&ours, sql), plan(&others, sql));
    let found = nodes(&native);
    for name in expected {
        assert!(found.iter().any(|node| node == name), "{sql}: no {name} in {found:?}");
    }
    assert!(nodes(&foreign).iter().all(|node| !node.starts_with("Native")), "{sql}");
    match (rows(&ours, native), rows(&others, foreign)) {
        (Ok(ours), Ok(others)) => assert_eq!(ours, others, "{sql}"),
        (ours, others) => assert_eq!(ours.is_err(), others.is_err(), "{sql}: {ours:?} {others:?}"),
    }
}

fn row() -> impl Strategy<Value = SmallRow> {
    let word = prop::sample::select(&["", "a", "b", "ab", "longer than sixteen bytes", "é"][..]);
    (
        prop::option::weighted(0.8, -3_i64..4),
        prop::option::weighted(0.8, -100..100_i32),
        prop::option::weighted(0.8, word),
    )
}

/// Rows of a table cut into partitions and batches, some of them empty.
fn table() -> impl Strategy<Value = Partitions> {
    let batch = prop::collection::vec(row(), 0..6).prop_map(|rows| small_batch(&rows));
    prop::collection::vec(prop::collection::vec(batch, 0..3), 1..3)
}

fn batch_rows() -> impl Strategy<Value = usize> {
    prop::sample::select(&[1_usize, 2, 7, 8192][..])
}

const AGGREGATES: [&str; 10] = [
    "SELECT count(*) FROM l",
    "SELECT count(k), sum(k), min(v), max(s), avg(v) FROM l",
    "SELECT k, count(*), sum(v), min(s), max(v), avg(k) FROM l GROUP BY k",
    "SELECT s, k, count(v) FROM l GROUP BY s, k",
    "SELECT s, count(*) FILTER (WHERE v > 0), sum(v) FILTER (WHERE k = 1) FROM l GROUP BY s",
    "SELECT k + 1, max(v * 2) FROM l GROUP BY k + 1",
    "SELECT k FROM l GROUP BY k HAVING count(*) > 1 AND max(v) < 50",
    "SELECT DISTINCT s FROM l",
    "SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM l GROUP BY k) x GROUP BY n",
    "SELECT upper(s), count(*) FROM l GROUP BY upper(s)",
];

const JOIN_KINDS: [&str; 4] = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];

const JOIN_CONDITIONS: [&str; 14] = [
    "l.k = r.k",
    "l.k = r.k AND l.s = r.s",
    "l.s = r.s",
    "l.k = r.k AND l.v < r.v",
    "l.k = r.k AND l.v + r.v > 10",
    "l.k + 1 = r.k",
    "l.k = r.k AND l.s LIKE 'a%' AND r.v IS NOT NULL",
    "l.k < r.k",
    "l.k BETWEEN r.k AND r.k + 2",
    "r.v >= l.v AND r.v < l.v + 40 AND l.s <> r.s",
    "l.s > r.s",
    "l.k = r.k AND l.v BETWEEN r.v - 50 AND r.v + 50 AND l.s <> r.s",
    "l.s = r.s AND l.v <= r.v",
    "l.v > r.v AND l.k <= r.k",
];

const EXISTENCE: [&str; 11] = [
    "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v < l.v)",
    "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.s <> l.s)",
    "SELECT * FROM l WHERE l.v IN (SELECT v FROM r)",
    "SELECT l.k FROM l WHERE l.v > 5 OR EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k BETWEEN l.k AND l.k + 1)",
    "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k < l.k AND r.s <> l.s)",
    "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.v > l.v)",
    "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE l.v BETWEEN r.v - 9 AND r.v AND l.s = r.s)",
    "SELECT l.k FROM l WHERE l.v > 5 OR EXISTS (SELECT 1 FROM r WHERE r.k > l.k)",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn aggregates_find_the_same_groups(l in table(), rows in batch_rows()) {
        for sql in AGGREGATES {
            compare(sql, rows, &[("l", &l)], &[]);
        }
    }

    #[test]
    fn joins_find_the_same_pairs(l in table(), r in table(), rows in batch_rows()) {
        for kind in JOIN_KINDS {
            for condition in JOIN_CONDITIONS {
                let sql = format!("SELECT l.k, l.v, l.s, r.k, r.v, r.s FROM l {kind} r ON {condition}");
                compare(&sql, rows, &[("l", &l), ("r", &r)], &[]);
            }
        }
    }

    #[test]
    fn semi_and_anti_joins_find_the_same_rows(l in table(), r in table(), rows in batch_rows()) {
        for sql in EXISTENCE {
            compare(sql, rows, &[("l", &l), ("r", &r)], &[]);
        }
    }

    #[test]
    fn filters_and_projections_over_native_rows_are_the_same(l in table(), r in table(), rows in batch_rows()) {
        for condition in ["a.n > 1", "a.k IS NULL OR a.t = 3", "a.n % 2 = 0 AND NOT (a.k < 0)", "a.k IN (1, 2, NULL)"] {
            let case = "CASE WHEN a.n > 2 THEN 'many' ELSE r.s END";
            for output in ["*", "a.k + a.n, -a.t", case, "a.k, a.k AS again, r.v"] {
                let grouped = "SELECT k, count(*) AS n, sum(v) AS t FROM l GROUP BY k";
                let joined = format!("({grouped}) a JOIN r ON r.k = a.k AND r.v > a.n");
                let sql = format!("SELECT {output} FROM {joined} WHERE {condition}");
                compare(&sql, rows, &[("l", &l), ("r", &r)], &[]);
            }
        }
    }
}

/// Three rows of each in two partitions.
fn few() -> (Partitions, Partitions) {
    let left = vec![
        vec![small_batch(&[(Some(1), Some(10), Some("a")), (Some(2), None, None)])],
        vec![small_batch(&[(None, Some(30), Some("c"))])],
    ];
    let right = vec![vec![small_batch(&[
        (Some(1), Some(5), Some("a")),
        (Some(1), Some(50), Some("b")),
        (None, Some(7), Some("c")),
    ])]];
    (left, right)
}

#[test]
fn operators_are_native_where_they_can_be() {
    let (l, r) = few();
    let tables = [("l", &l), ("r", &r)];
    let cases: [(&str, &[&str]); 13] = [
        ("SELECT l.k FROM l JOIN r ON l.k = r.k", &["NativeHashJoinExec"]),
        ("SELECT l.k + 1 FROM l JOIN r ON l.k = r.k", &["NativeProjectExec", "NativeHashJoinExec"]),
        ("SELECT count(*) FROM l JOIN r ON l.k = r.k", &["NativeAggregateExec", "NativeHashJoinExec"]),
        ("SELECT k FROM l GROUP BY k HAVING count(*) > 0", &["NativeFilterExec", "NativeAggregateExec"]),
        ("SELECT l.k FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v", &["NativeHashJoinExec"]),
        ("SELECT k FROM l WHERE k IN (SELECT k FROM r)", &["NativeHashJoinExec"]),
        ("SELECT sum(k) FILTER (WHERE v > 1) FROM l", &["NativeAggregateExec"]),
        ("SELECT l.k FROM l JOIN r ON l.k BETWEEN r.k AND r.k + 2", &["NativeRangeJoinExec"]),
        ("SELECT l.k FROM l LEFT JOIN r ON l.k <= r.k AND l.s <> r.s", &["NativeRangeJoinExec"]),
        ("SELECT l.k FROM l FULL JOIN r ON l.s > r.s", &["NativeRangeJoinExec"]),
        ("SELECT k FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.v > l.v)", &["NativeRangeJoinExec"]),
        ("SELECT k FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.v > l.v)", &["NativeRangeJoinExec"]),
        ("SELECT count(*) FROM l, r WHERE l.v < r.v", &["NativeAggregateExec", "NativeRangeJoinExec"]),
    ];
    for (sql, expected) in cases {
        compare(sql, 8192, &tables, expected);
    }
}

#[test]
fn what_has_no_native_operator_stays_datafusions() {
    let (l, r) = few();
    let tables = [("l", &l), ("r", &r)];
    for sql in [
        "SELECT k FROM l WHERE v > 1",
        "SELECT array_agg(v ORDER BY v) FROM l GROUP BY k",
        "SELECT k, count(*) FROM l GROUP BY GROUPING SETS ((k), ())",
        "SELECT stddev(v) FROM l",
        "SELECT count(*) OVER () FROM l JOIN r ON l.k <> r.k",
        "SELECT l.k FROM l JOIN r ON l.k + r.k > 3",
        "SELECT l.k FROM l LEFT JOIN r ON l.k < r.k + random()",
        // Whether 1 / v can be worked out is for v <> 0 to say, which may not be asked before there is a pair.
        "SELECT l.k FROM l LEFT JOIN r ON l.v + 0 <> 0 AND r.k > 1 / l.v",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n JOIN l ON l.k = n.i WHERE i < 3) \
         SELECT i FROM n",
    ] {
        let context = context(true, 8192, &tables);
        let found = nodes(&plan(&context, sql));
        assert!(found.iter().all(|node| !node.starts_with("Native")), "{sql}: {found:?}");
    }
}

#[test]
fn a_null_key_has_no_partner_but_a_group() {
    let (l, r) = few();
    let tables = [("l", &l), ("r", &r)];
    let context = context(true, 8192, &tables);
    let found = |sql: &str| rows(&context, plan(&context, sql)).unwrap();
    assert_eq!(found("SELECT l.k, r.v FROM l JOIN r ON l.k = r.k"), ["1|5", "1|50"]);
    assert_eq!(
        found("SELECT l.v, r.v FROM l FULL JOIN r ON l.k = r.k"),
        ["10|5", "10|50", "30|NULL", "NULL|7", "NULL|NULL"]
    );
    assert_eq!(found("SELECT k, count(*) FROM r GROUP BY k"), ["1|2", "NULL|1"]);
    assert_eq!(found("SELECT l.s FROM l WHERE l.k NOT IN (SELECT k FROM r WHERE k IS NOT NULL)"), ["NULL"]);
}

#[test]
fn an_error_in_an_expression_fails_the_query_with_its_condition() {
    let (l, r) = few();
    let context = context(true, 8192, &[("l", &l), ("r", &r)]);
    let sql = "SELECT k / (n - n) FROM (SELECT k, count(*) AS n FROM l GROUP BY k) g WHERE k IS NOT NULL";
    let plan = plan(&context, sql);
    assert!(nodes(&plan).iter().any(|node| node == "NativeProjectExec"));
    let error = block_on(collect(plan, context.task_ctx())).unwrap_err();
    assert_eq!(saki_catalog::SqlError::from(error).sqlstate(), "22012");
}

#[test]
fn plans_say_what_a_range_is_of() {
    let (l, r) = few();
    let context = context(true, 8192, &[("l", &l), ("r", &r)]);
    let shown = |sql: &str| {
        let plan = plan(&context, sql);
        datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string()
    };
    let text = shown("SELECT l.k, r.s FROM l JOIN r ON r.k BETWEEN l.k AND l.v AND l.s <> r.s");
    assert!(text.contains("NativeRangeJoinExec: Inner on k@0 >= "), "{text}");
    assert!(text.contains("k@0 <= ") && text.contains(", where s@"), "{text}");
    let text = shown("SELECT l.v, r.v FROM l JOIN r ON l.k = r.k AND l.v < r.v");
    assert!(text.contains("NativeHashJoinExec: Inner on k@0 = k@0, v@1 "), "{text}");
}

/// A few rows have all the pairs: they come in batches all the same.
#[test]
fn pairs_of_a_range_come_in_batches() {
    let rows: Vec<SmallRow> = (0..3_000).map(|k| (Some(k), Some(1), Some("a text"))).collect();
    let many = vec![vec![small_batch(&rows)]];
    let few = vec![vec![small_batch(&[(Some(-1), None, None), (Some(1_000), None, None), (None, None, None)])]];
    let context = context(true, 100, &[("l", &many), ("r", &few)]);
    for (sql, expected) in [
        ("SELECT l.s, r.k FROM l JOIN r ON l.k > r.k", 3_000 + 1_999),
        ("SELECT l.s, r.k FROM r LEFT JOIN l ON l.k > r.k AND l.v = 1", 3_000 + 1_999 + 1),
        ("SELECT l.s, r.k FROM l LEFT JOIN r ON l.k > r.k AND l.v + r.k < 0", 3_000),
    ] {
        let batches = block_on(collect(plan(&context, sql), context.task_ctx())).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), expected, "{sql}");
        assert!(batches.iter().all(|batch| batch.num_rows() <= 100), "{sql}");
    }
}

#[test]
fn operators_that_hold_too_much_say_that_memory_is_short() {
    let rows: Vec<SmallRow> = (0..20_000).map(|k| (Some(k), Some(1), Some("a text of a row"))).collect();
    let many = vec![vec![small_batch(&rows)]];
    let context = context(true, 8192, &[("l", &many), ("r", &many)]);
    for sql in [
        "SELECT k, s, count(*) FROM l GROUP BY k, s",
        "SELECT l.s, r.s FROM l JOIN r ON l.k = r.k",
        "SELECT l.s, r.s FROM l JOIN r ON l.k BETWEEN r.k AND r.k + 1",
    ] {
        let runtime = crate::execution::memory::runtime(Some(64 << 10), &Arc::default()).unwrap();
        let task = datafusion::execution::TaskContext::from(&context.state()).with_runtime(runtime);
        let error = block_on(collect(plan(&context, sql), Arc::new(task))).unwrap_err();
        assert_eq!(saki_catalog::SqlError::from(error).sqlstate(), "53200", "{sql}");
    }
}
