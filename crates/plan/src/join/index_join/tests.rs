//! Which joins become lookups, and that they find what a hash join finds.

use std::sync::LazyLock;

use saki_base::DataType;
use saki_base::value::Value;

use crate::fixture::{Fixture, TableBuilder};
use saki_settings::Settings;

static SHOP: LazyLock<Fixture> = LazyLock::new(|| {
    let fixture = Fixture::new();
    let maybe = |value: i64, missing: bool| if missing { Value::Null } else { Value::Int8(value) };
    let outer = TableBuilder::new("o")
        .column("id", DataType::Int8)
        .nullable("a", DataType::Int8)
        .column("b", DataType::Int8)
        .key(&["id"]);
    let rows: Vec<Vec<Value>> =
        (0..60).map(|i| vec![Value::Int8(i), maybe(i % 17, i % 7 == 2), Value::Int8(i % 5)]).collect();
    fixture.load(outer, &rows);
    let inner = TableBuilder::new("t")
        .column("a", DataType::Int8)
        .column("b", DataType::Int8)
        .nullable("c", DataType::Int8)
        .column("text", DataType::Text)
        .key(&["a", "b"])
        .index("t_c", &["c"])
        .covering("t_b", &["b"], &["c"]);
    let rows: Vec<Vec<Value>> = (0..90)
        .map(|i| {
            vec![Value::Int8(i / 5), Value::Int8(i % 5), maybe(i % 11, i % 6 == 4), Value::Text(format!("x{}", i % 3))]
        })
        .collect();
    fixture.load(inner, &rows);
    fixture
});

fn settings(setting: &str, partitions: usize) -> Settings {
    let mut settings = Settings { partitions, batch_rows: 7, ..Settings::default() };
    settings.set("index_join", Some(setting)).unwrap();
    settings
}

/// A join, and the tree that it looks up in; none: it stays a hash join.
const JOINS: [(&str, Option<&str>); 20] = [
    ("SELECT o.id, t.text FROM o JOIN t ON t.a = o.a AND t.b = o.b", Some("join t on a = o.a, b = o.b")),
    ("SELECT o.id, t.b FROM o JOIN t ON t.a = o.a", Some("join t on a = o.a")),
    ("SELECT o.id, t.b FROM o JOIN t ON t.a = o.a AND t.text = 'x1'", Some("where text = 'x1'")),
    ("SELECT o.id, t.text FROM o JOIN t ON t.a = o.a AND t.b = 3", Some("join t on a = o.a, b = 3")),
    ("SELECT o.id, t.c FROM o JOIN t ON t.b = o.b", Some("join t.t_b on b = o.b")),
    ("SELECT o.id, t.text FROM o JOIN t ON t.c = o.a", Some("fetch t on")),
    ("SELECT o.id, t.text FROM o JOIN t ON t.c = o.a WHERE t.text <> 'x0' AND t.b > 1", Some("fetch t on")),
    ("SELECT o.id, t.text FROM o LEFT JOIN t ON t.a = o.a AND t.b = o.b", Some("left join t on a = o.a, b = o.b")),
    ("SELECT o.id, t.text FROM o LEFT JOIN t ON t.c = o.a", Some("left join t.t_c on c = o.a")),
    ("SELECT o.id, t.c FROM o LEFT JOIN t ON t.c = o.a AND t.text = 'x1'", None),
    ("SELECT o.id, t.c FROM o LEFT JOIN t ON t.a = o.a AND t.b < o.id", None),
    ("SELECT t.text, o.id FROM t RIGHT JOIN o ON t.a = o.a AND t.b = o.b", Some("left join t on")),
    ("SELECT o.id FROM o WHERE EXISTS (SELECT 1 FROM t WHERE t.a = o.a)", Some("semi join t")),
    ("SELECT o.id FROM o WHERE EXISTS (SELECT 1 FROM t WHERE t.c = o.a AND t.text = 'x1')", None),
    ("SELECT o.id FROM o WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.c = o.a)", Some("anti join t.t_c on c = o.a")),
    (
        "SELECT o.id FROM o WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.a = o.a AND t.b = o.b AND t.b > 2)",
        Some("anti join t on"),
    ),
    ("SELECT o.id, t.b FROM o JOIN t ON t.a = o.a AND t.b + o.b > 4", Some("join t on a = o.a")),
    ("SELECT o.id, t.text FROM o JOIN t ON t.a = o.a AND t.c = o.b", Some("join t")),
    ("SELECT o.id, t.text FROM o JOIN t ON t.text = 'x' || o.b", None),
    ("SELECT o.id, t.b FROM o FULL JOIN t ON t.a = o.a", None),
];

#[test]
fn a_join_is_a_lookup_where_a_key_allows_it() {
    let env = SHOP.env(settings("always", 1));
    for (sql, expected) in JOINS {
        let text = SHOP.explain(&env, sql);
        match expected {
            Some(stage) => {
                assert!(text.contains("IndexJoinExec") && text.contains(stage), "{sql}: no {stage:?}\n{text}")
            }
            None => assert!(
                !text.contains(": left join") && !text.contains("semi join") && !text.contains("full join"),
                "{sql}\n{text}"
            ),
        }
    }
}

#[test]
fn lookups_find_what_hash_joins_find() {
    for setting in ["always", "never", "auto"] {
        for partitions in [1, 3] {
            let env = SHOP.env(settings(setting, partitions));
            for (sql, _) in JOINS {
                SHOP.check(&env, sql);
            }
        }
    }
}

#[test]
fn no_join_is_a_lookup_if_none_may_be() {
    let env = SHOP.env(settings("never", 2));
    for (sql, _) in JOINS {
        assert!(!SHOP.explain(&env, sql).contains("IndexJoinExec"), "{sql}");
    }
}

#[test]
fn lookups_on_lookups_are_one_pipeline() {
    let env = SHOP.env(settings("always", 1));
    let sql = "SELECT o.id, t.text, u.c FROM o JOIN t ON t.a = o.a AND t.b = o.b JOIN t u ON u.a = t.c AND u.b = o.b \
               WHERE o.id < 20";
    let text = SHOP.explain(&env, sql);
    assert_eq!(text.matches("IndexJoinExec").count(), 1, "{text}");
    assert!(text.contains("stage 1: join t") && text.contains("stage 2: join t"), "{text}");
    SHOP.check(&env, sql);
}

#[test]
fn a_lookup_can_be_fed_from_any_plan() {
    let env = SHOP.env(settings("always", 2));
    let sql = "SELECT g.a, g.n, t.text FROM (SELECT a, b, count(*) AS n FROM o GROUP BY a, b) g \
               JOIN t ON t.a = g.a AND t.b = g.b WHERE g.n > 0";
    let text = SHOP.explain(&env, sql);
    assert!(text.contains("IndexJoinExec: rows of the plan below -> t"), "{text}");
    SHOP.check(&env, sql);
}

#[test]
fn a_limit_stops_a_lookup_early() {
    let env = SHOP.env(settings("always", 2));
    let rows = SHOP.rows(&env, "SELECT o.id, t.b FROM o JOIN t ON t.a = o.a LIMIT 7");
    assert_eq!(rows.len(), 7);
    assert_eq!(SHOP.rows(&env, "SELECT o.id FROM o JOIN t ON t.a = o.a LIMIT 0").len(), 0);
}
