//! Kept plans beside plans made anew: whatever has happened to the tables meanwhile, both find the same rows, those
//! that DataFusion finds in the same data.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use proptest::prelude::*;
use saki_base::DataType;
use saki_base::value::Value;
use saki_store::Snapshot;

use super::PlanCache;
use crate::fixture::{Fixture, NoTransaction, TableBuilder};
use crate::node::QueryEnv;
use saki_settings::Settings;

const QUERIES: [&str; 8] = [
    "SELECT part FROM t WHERE id = 7",
    "SELECT id, part FROM t WHERE part BETWEEN 3 AND 5",
    "SELECT count(*), sum(part), min(id), max(id) FROM t",
    "SELECT part, count(*) FROM c GROUP BY part",
    "SELECT id FROM c WHERE part = 4 OR id > 55",
    "SELECT t.id, c.part FROM t JOIN c ON t.part = c.id",
    "SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM c WHERE c.id = t.part AND c.part < 6)",
    "SELECT t.id, c.id FROM t LEFT JOIN c ON c.part = t.id WHERE t.id < 9",
];

/// Rows of the two tables by their keys.
type Rows = BTreeMap<i64, i64>;

fn values(rows: &Rows) -> Vec<Vec<Value>> {
    rows.iter().map(|(id, part)| vec![Value::Int8(*id), Value::Int8(*part)]).collect()
}

fn fixture(rows: &Rows) -> Fixture {
    let fixture = Fixture::new();
    let table =
        |name: &str| TableBuilder::new(name).column("id", DataType::Int8).column("part", DataType::Int8).key(&["id"]);
    fixture.load(table("t").index("t_part", &["part"]), &values(rows));
    fixture.load(table("c").with_segments(), &values(rows));
    fixture
}

fn statement(sql: &str) -> ast::Statement {
    Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().swap_remove(0)
}

#[derive(Clone, Debug)]
enum Step {
    /// Rows of `t` or `c` get other contents, in the delta.
    Change(bool, Vec<(i64, i64)>),
    Merge,
    /// A query comes, with what settings it has this time.
    Ask(usize, Settings),
}

fn settings() -> impl Strategy<Value = Settings> {
    let word = |words: &'static [&'static str]| prop::sample::select(words);
    (word(&["auto", "scan", "index", "columns"]), word(&["auto", "always", "never"]), word(&["native", "datafusion"]))
        .prop_map(|(path, join, operators)| {
            let mut settings = Settings { partitions: 2, ..Settings::default() };
            for (name, value) in [("access_path", path), ("index_join", join), ("operators", operators)] {
                settings.set(name, Some(value)).unwrap();
            }
            settings
        })
}

fn step() -> impl Strategy<Value = Step> {
    let row = (0..70_i64, 0..12_i64);
    prop_oneof![
        3 => (any::<bool>(), prop::collection::vec(row, 1..5)).prop_map(|(first, rows)| Step::Change(first, rows)),
        1 => Just(Step::Merge),
        8 => (0..QUERIES.len(), settings()).prop_map(|(query, settings)| Step::Ask(query, settings)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_kept_plan_finds_what_one_made_anew_finds(steps in prop::collection::vec(step(), 1..30)) {
        let mut rows = [true, false].map(|_| (0..60).map(|id| (id, id % 10)).collect::<Rows>());
        let (fixture, cache) = (fixture(&rows[0]), PlanCache::default());
        for step in steps {
            match step {
                Step::Change(first, changed) => {
                    let (name, rows) = if first { ("t", &mut rows[0]) } else { ("c", &mut rows[1]) };
                    rows.extend(changed.iter().copied());
                    fixture.change(name, &values(&changed.into_iter().collect()), &values(rows));
                }
                Step::Merge => drop(fixture.db.checkpoint(&saki_store::Pace::full()).unwrap()),
                Step::Ask(query, settings) => {
                    let (sql, env) = (QUERIES[query], fixture.env(settings));
                    let expected = fixture.expected(sql);
                    if let Some((kept, _)) = cache.find(&statement(sql), &env).unwrap() {
                        let found = fixture.run(&env, &kept.track(&mut NoTransaction).unwrap());
                        prop_assert_eq!(&found, &expected, "kept: {}", sql);
                    }
                    let plan = fixture.plan(&env, sql);
                    cache.keep(statement(sql), &env, &plan, &plan.schema()).unwrap();
                    let found = fixture.run(&env, &plan.track(&mut NoTransaction).unwrap());
                    prop_assert_eq!(&found, &expected, "made anew: {}", sql);
                }
            }
        }
    }
}

#[test]
fn a_plan_is_kept_again_and_again_for_values_that_differ() {
    let rows: Rows = (0..60).map(|id| (id, id % 10)).collect();
    let (fixture, cache) = (fixture(&rows), PlanCache::default());
    let sql = "SELECT t.id, c.part FROM t JOIN c ON t.id = c.id WHERE t.part = $1";
    let env = |value: i64| {
        let snapshot = Snapshot::new(fixture.db.generation(), None);
        let env = QueryEnv::new(&fixture.db, snapshot, Settings::default());
        Arc::new(env.with_parameters([ScalarValue::Int64(Some(value))].into()))
    };
    let plan = fixture.try_plan(&env(1), sql).unwrap();
    assert!(cache.keep(statement(sql), &env(1), &plan, &plan.schema()).unwrap());
    for value in (0..12).chain([3, 3, -1]) {
        let (kept, _) = cache.find(&statement(sql), &env(value)).unwrap().expect("it serves any value");
        let found = fixture.run(&env(value), &kept.track(&mut NoTransaction).unwrap());
        assert_eq!(found, fixture.expected(&sql.replace("$1", &value.to_string())), "{value}");
    }
    assert_eq!(cache.reused(), 15);
}
