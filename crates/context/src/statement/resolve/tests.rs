use super::*;
use saki_catalog::SchemaEntry;

fn scope<'c>(catalog: &'c Catalog, path: &'c [String]) -> Scope<'c> {
    let is_external = &|name: &str| name == "file";
    Scope { catalog, database: "shop", path, completes: true, temporary: "pg_temp_1", is_external }
}

fn check(scope: &Scope<'_>, cases: &[(&str, std::result::Result<&str, &str>)]) {
    for (sql, expected) in cases {
        let mut parsed = saki_postgres::statement::parse(sql).unwrap().remove(0);
        let found =
            resolve(&mut parsed, scope).map(|_| parsed.to_string()).map_err(|error| error.sqlstate().to_owned());
        assert_eq!(found.as_ref().map(|s| s.as_str()).map_err(|s| s.as_str()), *expected, "{sql}");
    }
}

#[test]
fn with_and_functions_are_not_looked_for() {
    let mut catalog = Catalog::default();
    let id = catalog.new_table_id();
    catalog.put_schema(SchemaEntry { id, name: "ten_a".to_owned(), comment: None });
    let path = vec!["ten_a".to_owned()];
    check(
        &scope(&catalog, &path),
        &[
            ("WITH a AS (SELECT 1) SELECT * FROM a", Ok("WITH a AS (SELECT 1) SELECT * FROM a")),
            ("WITH a AS (SELECT * FROM a) SELECT 1", Err("42P01")),
            ("WITH RECURSIVE a AS (SELECT * FROM a) SELECT 1", Ok("WITH RECURSIVE a AS (SELECT * FROM a) SELECT 1")),
            ("SELECT (WITH a AS (SELECT 1) SELECT 1 FROM a) FROM a", Err("42P01")),
            ("SELECT * FROM generate_series(1, 2)", Ok("SELECT * FROM generate_series(1, 2)")),
            ("SELECT * FROM file, pg_class", Ok("SELECT * FROM file, pg_class")),
            ("SELECT * FROM public.t", Ok("SELECT * FROM public.t")),
            ("CREATE SEQUENCE s", Ok("CREATE SEQUENCE \"ten_a\".s")),
            ("DROP TABLE IF EXISTS t", Ok("DROP TABLE IF EXISTS \"ten_a\".t")),
            ("SELECT nextval('s')", Err("42P01")),
            ("CREATE TEMP SEQUENCE s", Ok("CREATE SEQUENCE \"pg_temp_1\".s")),
            ("CREATE TABLE pg_temp.t (i INT)", Ok("CREATE TABLE pg_temp_1.t (i INT)")),
            ("CREATE TABLE pg_temp_2.t (i INT)", Err("42P16")),
            ("CREATE TEMP TABLE ten_a.t (i INT)", Err("42P16")),
            ("SELECT * FROM pg_temp.t", Ok("SELECT * FROM pg_temp_1.t")),
        ],
    );
}

#[test]
fn the_database_may_be_said_before_a_schema() {
    let catalog = Catalog::default();
    let scope = Scope { completes: false, ..scope(&catalog, &[]) };
    check(
        &scope,
        &[
            ("SELECT shop.s.t.a FROM shop.s.t, u", Ok("SELECT s.t.a FROM s.t, u")),
            (
                "INSERT INTO \"shop\".\"s\".\"t\" SELECT * FROM Shop.s.u",
                Ok("INSERT INTO \"s\".\"t\" SELECT * FROM s.u"),
            ),
            ("DELETE FROM shop.s.t WHERE i IN (SELECT i FROM shop.s.u)", {
                Ok("DELETE FROM s.t WHERE i IN (SELECT i FROM s.u)")
            }),
            ("UPDATE shop.s.t SET i = 1", Ok("UPDATE s.t SET i = 1")),
            ("CREATE VIEW shop.s.v AS SELECT 1", Ok("CREATE VIEW s.v AS SELECT 1")),
            ("CREATE TABLE shop.s.t (i INT REFERENCES shop.s.u)", Ok("CREATE TABLE s.t (i INT REFERENCES s.u)")),
            ("DROP TABLE IF EXISTS shop.s.t CASCADE", Ok("DROP TABLE IF EXISTS s.t CASCADE")),
            ("ALTER TABLE shop.s.t RENAME TO u", Ok("ALTER TABLE s.t RENAME TO u")),
            ("CREATE INDEX ON shop.s.t(i)", Ok("CREATE INDEX ON s.t(i)")),
            ("TRUNCATE shop.s.t", Ok("TRUNCATE s.t")),
            ("COMMENT ON TABLE shop.s.t IS 'x'", Ok("COMMENT ON TABLE s.t IS 'x'")),
            ("COMMENT ON COLUMN shop.s.t.i IS 'x'", Ok("COMMENT ON COLUMN s.t.i IS 'x'")),
            ("SELECT * FROM other.s.t, t", Ok("SELECT * FROM other.s.t, t")),
        ],
    );
}
