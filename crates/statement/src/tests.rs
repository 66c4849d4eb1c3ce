use proptest::prelude::*;

use super::*;
use crate::fixture::{check, code, parsed, refused};

/// Statements of every kind, as clients write them.
const STATEMENTS: [&str; 40] = [
    "SELECT 1",
    "SELECT a.*, b FROM t AS a LEFT JOIN u USING (id) WHERE a.x = 'it''s' ORDER BY 2 DESC NULLS LAST LIMIT 3",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT CASE WHEN a THEN 1 ELSE 2 END, $1::numeric(10,2), E'\\t', U&'\\0041', $$body$$ FROM t",
    "SELECT count(*) FILTER (WHERE a > 1) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND \
             CURRENT ROW) FROM t",
    "VALUES (1, 'a'), (2, NULL)",
    "INSERT INTO t (a, b) VALUES (1, DEFAULT) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *",
    "INSERT INTO t SELECT * FROM u",
    "UPDATE t SET a = a + 1 FROM u WHERE t.id = u.id RETURNING a",
    "DELETE FROM t USING u WHERE t.id = u.id",
    "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE",
    "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (CYCLE START WITH 2), b text DEFAULT 'x' CHECK (b <> ''))",
    "CREATE TABLE t (a, b) WITH (columns = on) AS SELECT 1, 2",
    "CREATE TABLE s.t (a int REFERENCES u (b) ON DELETE CASCADE, PRIMARY KEY (a)) WITH (bloom = 'a')",
    "ALTER TABLE t ADD COLUMN a int NOT NULL, DROP COLUMN b CASCADE",
    "ALTER TABLE t ALTER a TYPE bigint USING a::bigint",
    "ALTER SEQUENCE s RESTART WITH -5 INCREMENT BY 2 NO CYCLE OWNED BY t.a",
    "CREATE SEQUENCE s AS int START 5 MINVALUE 1 NO MAXVALUE CACHE 3",
    "CREATE UNIQUE INDEX IF NOT EXISTS i ON t USING btree (a DESC, b) INCLUDE (c) WHERE a > 1",
    "CREATE OR REPLACE VIEW v (a) AS SELECT 1",
    "ALTER VIEW v RENAME TO w",
    "CREATE SCHEMA IF NOT EXISTS s",
    "DROP TABLE IF EXISTS t, u CASCADE",
    "TRUNCATE t RESTART IDENTITY CASCADE",
    "COMMENT ON COLUMN t.a IS 'what it is'",
    "COPY t (a, b) FROM 'f.csv' WITH (FORMAT csv, HEADER true, FREEZE on)",
    "COPY (SELECT 1) TO 'f.parquet' (FORMAT parquet)",
    "VACUUM (FULL, ANALYZE) t",
    "REINDEX TABLE CONCURRENTLY t",
    "ANALYZE t",
    "CHECKPOINT",
    "EXPLAIN (ANALYZE, FORMAT json) SELECT 1",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "COMMIT AND CHAIN",
    "SAVEPOINT a",
    "SET search_path TO a, \"B\"",
    "SHOW server_version",
    "PREPARE p (int) AS SELECT $1",
    "DECLARE c CURSOR FOR SELECT 1",
    "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION 'f'",
];

fn count(sql: &str) -> String {
    match parse(sql) {
        Ok(statements) => statements.len().to_string(),
        Err(error) => code(&error),
    }
}

#[test]
fn a_text_is_cut_at_semicolons_outside_of_literals_and_comments() {
    check(
        &[
            ("", "0"),
            (";;;", "0"),
            (" \n\t ", "0"),
            ("-- nothing", "0"),
            ("/* nothing /* at all */ */", "0"),
            ("SELECT 1", "1"),
            ("SELECT 1;", "1"),
            ("SELECT 1; SELECT 2", "2"),
            (";SELECT 1;;SELECT 2;", "2"),
            ("SELECT ';'; SELECT \";\"", "2"),
            ("SELECT $$;$$; SELECT $a$;$$;$a$", "2"),
            ("SELECT 1 -- ; SELECT 2\n; SELECT 3", "2"),
            ("SELECT /* ; */ 1", "1"),
            ("SELECT E'\\';'", "1"),
            ("CHECKPOINT; VACUUM; CREATE TABLE t (a) AS SELECT 1; COPY t TO 'f'", "4"),
        ],
        count,
    );
}

#[test]
fn errors_say_where_the_text_ends_to_make_sense() {
    check(
        &[
            ("SELECT 1 1", "42601 at 1:10"),
            ("SELECT 1 SELECT 2", "42601 at 1:10"),
            ("SELECT 1;\nSELECT\n  ) ", "42601 at 3:3"),
            ("SELEC 1", "42601 at 1:1"),
            ("SELECT 'open", "42601 at 1:8"),
            ("SELECT \"open", "42601 at 1:8"),
            ("SELECT /* open", "42601 at 1:15"),
            ("SELECT $$open", "42601 at 1:14"),
            ("SELECT (1", "42601"),
            ("SELECT * FROM", "42601"),
            ("INSERT INTO", "42601"),
            ("CHECKPOINT 1", "42601 at 1:1"),
        ],
        |sql| code(&refused(sql)),
    );
}

#[test]
fn every_kind_of_statement_is_read() {
    for sql in STATEMENTS {
        match parse(sql) {
            Ok(statements) => assert_eq!(statements.len(), 1, "{sql}"),
            Err(error) => panic!("{sql}: {error}"),
        }
    }
}

#[test]
fn a_checkpoint_is_the_call_of_a_procedure_and_still_a_name() {
    assert_eq!(parsed("checkpoint").to_string(), "CALL checkpoint()");
    assert_eq!(parsed("CHECKPOINT;").to_string(), "CALL checkpoint()");
    assert_eq!(parsed("SELECT checkpoint FROM checkpoint").to_string(), "SELECT checkpoint FROM checkpoint");
}

#[test]
fn freeze_takes_on_and_off_wherever_copy_stands() {
    for (sql, expected) in [
        ("COPY t FROM 'f' (FREEZE on)", "COPY t FROM 'f' (FREEZE)"),
        ("copy t from 'f' (freeze OFF, header)", "COPY t FROM 'f' (FREEZE FALSE, HEADER)"),
        ("COPY identity FROM 'f' (FREEZE on)", "COPY identity FROM 'f' (FREEZE)"),
        ("COPY t FROM 'f' (FREEZE /* yes */ on)", "COPY t FROM 'f' (FREEZE)"),
    ] {
        assert_eq!(parsed(sql).to_string(), expected, "{sql}");
    }
    let join = "SELECT * FROM copy JOIN \"freeze\" ON true";
    assert_eq!(parsed(join).to_string(), join, "a table may have the name");
}

#[test]
fn names_of_relations_are_folded_unless_quoted() {
    let shown = |name: &str| match parse_relation(name) {
        Ok(RelationName { schema, name, .. }) => format!("{schema} {name} {}", bare(&schema, &name)),
        Err(error) => error.sqlstate().to_owned(),
    };
    check(
        &[
            ("t", "public t t"),
            ("T", "public t t"),
            ("\"T\"", "public T T"),
            ("public.t", "public t t"),
            ("PUBLIC.t", "public t t"),
            ("s.t", "s s.t t"),
            ("\"S\".\"T u\"", "S S.T u T u"),
            ("saki.public.t", "public t t"),
            ("saki.s.t", "s s.t t"),
            ("\"a.b\"", "public a.b a.b"),
            ("\"a\"\"b\"", "public a\"b a\"b"),
            ("É", "public é é"),
            ("日本", "public 日本 日本"),
            ("other.s.t", "0A000"),
            ("a.b.c.d", "42601"),
            ("t u", "42602"),
            ("t;", "42602"),
            ("", "42601"),
            ("1", "42601"),
            ("a.", "42601"),
        ],
        shown,
    );
}

#[test]
fn a_name_in_another_database_is_refused_with_a_hint() {
    let error = parse_relation("other.s.t").unwrap_err();
    assert_eq!(
        error.hint.as_deref(),
        Some("connect to the server of other, or leave its name out if it is this database")
    );
    assert_eq!(code(&error), "0A000 at 1:9");
}

#[test]
fn expressions_and_queries_of_the_catalog_are_read_back() {
    for text in ["a > 0", "lower(a) = 'x' AND b IS NOT NULL", "nextval('s')", "'it''s'", "-1"] {
        assert_eq!(parse_expression(text).unwrap().to_string(), text);
    }
    assert_eq!(parse_query("SELECT 1 UNION SELECT 2").unwrap().to_string(), "SELECT 1 UNION SELECT 2");
    for text in ["", ")", "a >"] {
        assert_eq!(parse_expression(text).unwrap_err().sqlstate(), "42601", "{text:?}");
    }
    assert_eq!(parse_query("a > 0").unwrap_err().sqlstate(), "42601");
}

#[test]
fn queries_within_expressions_are_found() {
    for (text, expected) in [
        ("a + 1", false),
        ("(SELECT 1)", true),
        ("a + (SELECT 1)", true),
        ("EXISTS (SELECT 1)", true),
        ("a IN (SELECT 1)", true),
        ("a IN (1, 2)", false),
        ("f(g((SELECT 1)))", true),
        ("CASE WHEN a IN (SELECT 1) THEN 1 END", true),
        ("a = ANY (SELECT 1)", true),
        ("ARRAY(SELECT 1)", true),
    ] {
        assert_eq!(has_subquery(&parse_expression(text).unwrap()), expected, "{text}");
    }
}

#[test]
fn settings_are_text_whatever_they_are_written_as() {
    let text = |value: &str| setting_text(&parse_expression(value).unwrap()).unwrap_or_else(|| "(default)".to_owned());
    check(
        &[
            ("on", "on"),
            ("ON", "on"),
            ("DEFAULT", "(default)"),
            ("'default'", "default"),
            ("\"DEFAULT\"", "DEFAULT"),
            ("'a b'", "a b"),
            ("5", "5"),
            ("1.5", "1.5"),
            ("-5", "-5"),
            ("true", "true"),
            ("'64MB'", "64MB"),
            ("Abc", "abc"),
        ],
        text,
    );
}

#[test]
fn what_is_beyond_is_cut_at_the_word_that_differs() {
    check(
        &[
            ("CREATE TABLE t (a INT) ON COMMIT DROP", "INT) ON COMMIT DROP"),
            ("CREATE TEMPORARY TABLE t (a INT)", "TEMPORARY TABLE t (a INT)"),
        ],
        |full| beyond(full, "CREATE TABLE t (a INT)"),
    );
    assert_eq!(beyond(&format!("x {}", "y".repeat(100)), "x z"), "y".repeat(40), "a message stays short");
}

/// Texts that nest something `depth` times.
fn nested(depth: usize) -> Vec<(&'static str, String)> {
    let around =
        |open: &str, middle: &str, close: &str| format!("SELECT {}{middle}{}", open.repeat(depth), close.repeat(depth));
    vec![
        ("parentheses", around("(", "1", ")")),
        ("unclosed parentheses", around("(", "", "")),
        ("queries", around("(SELECT ", "1", ")")),
        ("queries in FROM", format!("{}t{}", "SELECT * FROM (".repeat(depth), ") AS t".repeat(depth))),
        ("arrays", around("ARRAY[", "1", "]")),
        ("brackets", around("[", "1", "]")),
        ("CASE", around("CASE WHEN ", "true", " THEN 1 END")),
        ("NOT", around("NOT ", "true", "")),
        ("signs", around("- ", "1", "")),
        ("EXISTS", around("EXISTS (SELECT ", "1", ")")),
        ("casts in front", around("CAST(", "1", " AS int)")),
        ("WITH", format!("{}SELECT 1{}", "WITH a AS (".repeat(depth), ") SELECT 1".repeat(depth))),
        ("calls", around("f(", "1", ")")),
        ("calls of names", around("f(a => ", "1", ")")),
        ("unclosed calls", around("f(", "", "")),
        ("rows", around("ROW(1, ", "1", ")")),
        ("NOT in brackets", around("NOT (", "true", ")")),
        ("unclosed NOT", around("NOT (", "", "")),
        ("unclosed casts", around("CAST(", "", "")),
        ("joins", format!("SELECT * FROM {}t{}", "(".repeat(depth), " JOIN t USING (a))".repeat(depth))),
        (
            "queries that are joined",
            format!("SELECT * FROM {}t{}", "((SELECT * FROM ".repeat(depth), ") AS t JOIN t ON true)".repeat(depth)),
        ),
        ("unions", format!("{}SELECT 1{}", "(".repeat(depth), " UNION SELECT 1)".repeat(depth))),
        ("comments", format!("{}{}SELECT 1", "/*".repeat(depth), "*/".repeat(depth))),
        ("array types", format!("SELECT NULL::int{}", "[]".repeat(depth))),
        ("explained", format!("{}SELECT 1", "EXPLAIN ".repeat(depth))),
    ]
}

/// What a text is read as, if that is known before long.
fn read_in_time(sql: String) -> Option<std::result::Result<(), SqlError>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(parse(&sql).map(|_| ())));
    receiver.recv_timeout(std::time::Duration::from_secs(10)).ok()
}

#[test]
fn deep_nesting_is_refused_or_read_and_ends_no_stack() {
    let mut slow = Vec::new();
    for depth in [20, 40, 500, 10_000] {
        for (what, sql) in nested(depth) {
            match read_in_time(sql) {
                Some(Err(error)) => assert!(["42601", "54001"].contains(&error.sqlstate()), "{what}: {error}"),
                Some(Ok(())) => {}
                None => slow.push((depth, what)),
            }
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn brackets_in_literals_are_no_nesting() {
    let many = "(".repeat(500);
    assert_eq!(count(&format!("SELECT '{many}' -- {many}")), "1");
    assert_eq!(count(&format!("SELECT ({many}")), "54001");
    let calls = format!("SELECT {}1{} FROM t", "f(".repeat(20), ")".repeat(20));
    assert_eq!(count(&calls), "1", "as deep as people write");
    let joined = |depth| {
        format!("SELECT * FROM {}t{}", "((SELECT * FROM ".repeat(depth), ") AS t JOIN t ON true)".repeat(depth))
    };
    assert_eq!(count(&joined(6)), "1", "as deep as people write");
    assert_eq!(count(&joined(12)), "54001");
    let unions = format!("{}SELECT 1{}", "(".repeat(20), " UNION SELECT 1)".repeat(20));
    assert_eq!(count(&unions), "1", "no query in them is read more than once for each bracket");
}

#[test]
fn long_chains_are_read() {
    let terms = 1000;
    for (what, sql) in [
        ("sums", format!("SELECT 1{}", " + 1".repeat(terms))),
        ("conditions", format!("SELECT true{}", " AND true".repeat(terms))),
        ("lists", format!("SELECT 1 IN (1{})", ", 1".repeat(terms))),
        ("rows", format!("VALUES (1){}", ", (1)".repeat(terms))),
        ("columns", format!("SELECT 1{}", ", 1".repeat(terms))),
        ("statements", "SELECT 1;".repeat(terms)),
    ] {
        assert!(parse(&sql).is_ok(), "{what}");
    }
}

#[test]
fn odd_letters_are_read_or_refused() {
    for sql in [
        "SELECT '\u{0}'",
        "\u{feff}SELECT 1",
        "SELECT\u{a0}1",
        "SELECT\u{3000}1",
        "SELECT '\u{202e}'",
        "SELECT \"\u{1f600}\"",
        "SELECT 1 AS \u{65e5}",
        "SELECT 'e\u{301}'",
        "\u{ff33}ELECT 1",
        "SELECT U&'\\D800'",
        "SELECT U&'\\+110000'",
        "SELECT E'\\xFF'",
        "SELECT E'\\u00zz'",
        "SELECT 1e",
        "SELECT 0x",
        "SELECT 1.2.3",
        "SELECT $",
        "SELECT $1a",
        "SELECT $99999999999999999999",
        "SELECT :a",
        "SELECT \\",
        "SELECT `a`",
        "SELECT #1",
        "SELECT {a}",
    ] {
        if let Err(error) = parse(sql) {
            assert_eq!(error.sqlstate(), "42601", "{sql:?}: {error}");
        }
    }
}

#[test]
fn a_statement_that_is_cut_off_anywhere_is_refused_or_read() {
    for sql in STATEMENTS {
        for (end, _) in sql.char_indices() {
            if let Err(error) = parse(&sql[..end]) {
                assert_eq!(error.sqlstate(), "42601", "{}: {error}", &sql[..end]);
                if let Some(Position { line, column }) = error.position {
                    assert!(line == 1 && column as usize <= end + 1, "{}: {error}", &sql[..end]);
                }
            }
        }
    }
}

/// A statement with words of another in it, or letters changed.
fn mutated() -> impl Strategy<Value = String> {
    let statement = || prop::sample::select(STATEMENTS.to_vec());
    let words = |sql: &str| sql.split_inclusive([' ', '(', ')', ',']).map(str::to_owned).collect::<Vec<String>>();
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..5_u8, any::<char>());
    (statement(), statement(), prop::collection::vec(change, 1..6)).prop_map(move |(sql, other, changes)| {
        let (mut words, others) = (words(sql), words(other));
        for (at, from, kind, letter) in changes {
            if words.is_empty() {
                break;
            }
            let (at, from) = (at.index(words.len()), from.index(others.len()));
            match kind {
                0 => drop(words.remove(at)),
                1 => words.insert(at, others[from].clone()),
                2 => words[at].clone_from(&others[from]),
                3 => words[at].insert(0, letter),
                _ => {
                    let last = words.len() - 1;
                    words.swap(at, last);
                }
            }
        }
        words.concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_text_ends_the_parser(sql in mutated()) {
        if let Err(error) = parse(&sql) {
            prop_assert!(["42601", "0A000"].contains(&error.sqlstate()), "{}: {}", sql, error);
        }
    }

    #[test]
    fn no_letters_end_the_parser(sql in "[ -~\\n\u{e9}\u{65e5}]{0,60}") {
        let _ = parse(&sql);
        let _ = parse_expression(&sql);
        let _ = parse_query(&sql);
        let _ = parse_relation(&sql);
    }

    #[test]
    fn a_quoted_name_means_itself(name in "[^\\x00]{1,20}", schema in "[a-z\"A-Z. ]{1,8}") {
        prop_assume!(schema != "saki");
        let text = format!("{}.{}", quoted(&schema), quoted(&name));
        let read = parse_relation(&text).unwrap();
        prop_assert_eq!(&read.schema, &schema);
        prop_assert_eq!(read.bare(), name);
    }
}

#[test]
fn chains_are_read_as_long_as_they_can_be_planned() {
    let chain = |link: &str, links: usize| format!("SELECT 1{}", link.repeat(links));
    for link in [" + 1", " || 'a'", "::int", " IS NULL", " EXCEPT SELECT 1", " BETWEEN 1 AND 2"] {
        assert_eq!(count(&chain(link, 2_000)), "1", "{link}");
        for links in [20_000, 200_000] {
            assert_eq!(count(&chain(link, links)), "54001", "{link}");
        }
    }
    for link in [" OR true", " AND true", " UNION ALL SELECT 1", " UNION SELECT 1"] {
        assert_eq!(count(&chain(link, 20_000)), "1", "{link}");
        assert_eq!(count(&chain(link, 200_000)), "54001", "{link}");
    }
    let within = format!("SELECT {}1{}", "(".repeat(40), format!("{})", " + 1".repeat(1_000)).repeat(40));
    assert_eq!(count(&within), "54001", "chains within chains");
    let beside = format!("SELECT {}", vec!["1 + 1"; 50_000].join(", "));
    assert_eq!(count(&beside), "1", "what stands side by side is not deep");
    let rows = format!("INSERT INTO t VALUES {}", vec!["(1, 'a' || 'b')"; 50_000].join(", "));
    assert_eq!(count(&rows), "1");
}
