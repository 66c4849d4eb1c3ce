//! Orders of joins, over tables that are only planned with.

use std::sync::LazyLock;

use datafusion::logical_expr::col;
use proptest::prelude::*;
use saki_base::DataType;
use saki_base::value::Value;
use saki_catalog::Test;
use saki_exec::predicate::CompareOp;

use super::*;
use crate::fixture::{Fixture, TableBuilder};
use saki_settings::Settings;

static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);

fn env(changes: &[(&str, &str)]) -> Arc<QueryEnv> {
    let mut settings = Settings { partitions: 2, ..Settings::default() };
    changes.iter().for_each(|(name, value)| settings.set(name, Some(value)).unwrap());
    FIXTURE.env(settings)
}

/// A relation of `id` and `parent` with so many rows.
fn relation(name: &str, rows: u64, parents: f64) -> Relation {
    let table = TableBuilder::new(name)
        .column("id", DataType::Int4)
        .column("parent", DataType::Int4)
        .key(&["id"])
        .with_rows(rows)
        .with_distinct(&[rows as f64, parents])
        .build();
    Relation {
        columns: ["id", "parent"].map(|column| Column::new(Some(name), column)).to_vec(),
        table: Some(table),
        sources: vec![Some(0), Some(1)],
        tests: Vec::new(),
        lookup: true,
        estimate: Estimate { rows: rows as f64, seconds: rows as f64 * 1e-7 },
    }
}

fn graph(relations: Vec<Relation>, conditions: &[Expr], env: &Arc<QueryEnv>) -> JoinGraph {
    let placed = conditions.iter().map(|expr| Condition::place(expr, &relations).unwrap()).collect();
    JoinGraph::new(relations, placed, env)
}

fn text(order: &Order, graph: &JoinGraph) -> String {
    match order {
        Order::Leaf(relation) => graph.relations[*relation].columns[0].relation.as_ref().unwrap().to_string(),
        Order::Join(left, right) => format!("({} {})", text(left, graph), text(right, graph)),
    }
}

/// `child.parent = parent.id`
fn child(child: &str, parent: &str) -> Expr {
    col(format!("{child}.parent")).eq(col(format!("{parent}.id")))
}

#[test]
fn a_condition_says_which_relations_it_needs() {
    let relations = vec![relation("a", 10, 5.0), relation("b", 10, 5.0), relation("c", 10, 5.0)];
    let place = |expr: Expr| Condition::place(&expr, &relations);
    let equality = place(child("a", "c")).unwrap();
    assert_eq!((equality.relations, equality.sides), (0b101, Some((0b001, 0b100))));
    let sum = place((col("a.id") + col("b.id")).eq(col("c.id"))).unwrap();
    assert_eq!((sum.relations, sum.sides, sum.columns.is_none()), (0b111, Some((0b011, 0b100)), true));
    let own = place(col("a.id").eq(col("a.parent"))).unwrap();
    assert_eq!((own.relations, own.sides), (0b001, None));
    let less = place(col("a.id").lt(col("b.id"))).unwrap();
    assert_eq!((less.relations, less.sides), (0b011, None));
    assert!(place(col("d.id").eq(col("a.id"))).is_none());
}

#[test]
fn joined_rows_do_not_depend_on_the_order() {
    let env = env(&[]);
    let relations = vec![relation("a", 1000, 100.0), relation("b", 100, 10.0), relation("c", 10, 5.0)];
    let graph = graph(relations, &[child("a", "b"), child("b", "c")], &env);
    let near = |set, rows: f64| assert!((graph.rows(set) / rows - 1.0).abs() < 1e-6, "{set:b}: {}", graph.rows(set));
    near(0b001, 1000.0);
    near(0b011, 1000.0);
    near(0b110, 100.0);
    near(0b101, 10_000.0);
    near(0b111, 1000.0);
}

#[test]
fn several_equalities_of_two_relations_are_one_key() {
    let env = env(&[]);
    let two = || vec![relation("a", 1000, 100.0), relation("b", 1000, 100.0)];
    let by_parent = col("a.parent").eq(col("b.parent"));
    let one = graph(two(), std::slice::from_ref(&by_parent), &env).rows(0b11);
    assert!((one - 1e6 / 100.0).abs() < 1.0);
    let both = graph(two(), &[by_parent, col("a.id").eq(col("b.id"))], &env).rows(0b11);
    assert!((both - 1e6 / 1000.0).abs() < 1.0, "a key finds at most one row: {both}");
}

#[test]
fn conditions_without_columns_are_guessed() {
    let env = env(&[]);
    let two = || vec![relation("a", 100, 10.0), relation("b", 100, 10.0)];
    let rows = |condition: Expr| graph(two(), &[condition], &env).rows(0b11);
    assert!((rows(col("a.id").lt(col("b.id"))) - 2000.0).abs() < 1.0);
    assert!((rows((col("a.id") + col("a.parent")).eq(col("b.id"))) - 100.0).abs() < 1.0);
    let empty = Relation { estimate: Estimate::default(), ..relation("a", 100, 10.0) };
    let few = graph(vec![empty, relation("b", 100, 10.0)], &[child("a", "b")], &env).rows(0b11);
    assert_eq!(few, guesses::JOINED_ROWS_MIN);
}

#[test]
fn the_small_relation_comes_before_the_large_ones() {
    let env = env(&[("index_join", "never")]);
    let mut few = relation("few", 1_000_000, 1000.0);
    few.estimate.rows = 10.0;
    few.estimate.seconds = 1e-3;
    let relations = vec![relation("large", 1_000_000, 1e6), relation("larger", 5_000_000, 1e6), few];
    let graph = graph(relations, &[child("larger", "large"), child("large", "few")], &env);
    let order = text(&graph.best(), &graph);
    assert!(order.contains("(large few)") || order.contains("(few large)"), "{order}");
}

#[test]
fn a_lookup_is_cheaper_than_reading_a_large_table_for_few_rows() {
    let two = || {
        let mut few = relation("few", 1000, 1000.0);
        few.estimate = Estimate { rows: 5.0, seconds: 1e-4 };
        vec![few, relation("large", 10_000_000, 1e6)]
    };
    let seconds = |setting| {
        let env = env(&[("index_join", setting)]);
        graph(two(), &[child("few", "large")], &env).exhaustive().seconds
    };
    assert!(seconds("auto") < seconds("never") / 10.0);
    assert!(seconds("always") <= seconds("auto") * 1.01);
    let mut no_scan = two();
    no_scan[1].lookup = false;
    let env = env(&[]);
    let hashed = graph(no_scan, &[child("few", "large")], &env).exhaustive().seconds;
    assert_eq!(hashed, seconds("never"), "only a plain scan can be looked up in");
}

#[test]
fn a_test_of_one_value_completes_a_key() {
    let table = TableBuilder::new("t")
        .column("day", DataType::Int4)
        .column("id", DataType::Int4)
        .key(&["day", "id"])
        .with_rows(1_000_000)
        .with_distinct(&[100.0, 10_000.0])
        .build();
    let keyed = |tests| Relation {
        columns: ["day", "id"].map(|column| Column::new(Some("t"), column)).to_vec(),
        table: Some(Arc::clone(&table)),
        sources: vec![Some(0), Some(1)],
        tests,
        lookup: true,
        estimate: Estimate { rows: 1e4, seconds: 1.0 },
    };
    let env = env(&[]);
    let lookup = |tests| {
        let relations = vec![relation("a", 10, 10.0), keyed(tests)];
        graph(relations, &[col("a.id").eq(col("t.id"))], &env).lookup_seconds(0b01, 10.0, 1)
    };
    let on_day = ColumnTest::new(0, Test::Compare(CompareOp::Equal, Value::Int4(3)));
    assert!(lookup(vec![on_day.clone()]).is_some());
    assert!(lookup(vec![]).is_none(), "the key begins with the day");
    let some_days = ColumnTest::new(0, Test::Compare(CompareOp::Less, Value::Int4(3)));
    assert!(lookup(vec![some_days]).is_none());
}

#[test]
fn parts_that_nothing_connects_are_crossed_last() {
    let env = env(&[]);
    let relations = vec![relation("a", 100, 10.0), relation("b", 1000, 100.0), relation("c", 10, 10.0)];
    let graph = graph(relations, &[child("b", "a")], &env);
    let order = text(&graph.best(), &graph);
    assert!(order.contains("(a b)") || order.contains("(b a)"), "{order}");
}

#[test]
fn more_relations_than_can_be_tried_are_joined_greedily() {
    let env = env(&[]);
    let count = EXHAUSTIVE_RELATIONS + 2;
    let names: Vec<String> = (0..count).map(|n| format!("r{n}")).collect();
    let relations = names.iter().map(|name| relation(name, 1000, 100.0)).collect();
    let conditions: Vec<Expr> = names.windows(2).map(|pair| child(&pair[0], &pair[1])).collect();
    let graph = graph(relations, &conditions, &env);
    assert_eq!(graph.best().relations(), (1 << count) - 1);
    fn crosses(order: &Order, graph: &JoinGraph) -> bool {
        match order {
            Order::Leaf(_) => false,
            Order::Join(left, right) => {
                !graph.connected(left.relations(), right.relations()) || crosses(left, graph) || crosses(right, graph)
            }
        }
    }
    assert!(!crosses(&graph.best(), &graph), "a chain of equalities needs no cross product");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn an_order_has_every_relation_once_and_is_no_dearer_than_the_greedy_one(
        rows in prop::collection::vec(1_u64..1_000_000, 3..6),
        edges in prop::collection::vec((0_usize..5, 0_usize..5), 0..7),
    ) {
        let env = env(&[]);
        let names: Vec<String> = (0..rows.len()).map(|n| format!("r{n}")).collect();
        let sized = |(name, rows): (&String, &u64)| relation(name, *rows, (*rows as f64).sqrt());
        let relations = names.iter().zip(&rows).map(sized).collect();
        let conditions: Vec<Expr> = edges
            .iter()
            .map(|(a, b)| (a % rows.len(), b % rows.len()))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| child(&names[a], &names[b]))
            .collect();
        let graph = graph(relations, &conditions, &env);
        fn leaves(order: &Order) -> Vec<usize> {
            match order {
                Order::Leaf(relation) => vec![*relation],
                Order::Join(left, right) => [leaves(left), leaves(right)].concat(),
            }
        }
        let mut found = leaves(&graph.best());
        found.sort_unstable();
        prop_assert_eq!(found, (0..rows.len()).collect::<Vec<_>>());
        prop_assert!(graph.exhaustive().seconds <= graph.greedy().seconds * (1.0 + 1e-9));
    }
}
