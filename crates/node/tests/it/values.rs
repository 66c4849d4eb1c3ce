//! Values of every type, in and out, in both formats.

use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

use crate::server::TestServer;

/// A value's bytes as they are.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// What a table stores, as text, comes out as bytes; the bytes go in as parameters; as text they are the same again.
#[tokio::test]
async fn values_go_round() {
    let server = TestServer::start();
    let client = server.client().await;
    for (index, (kind, text)) in [
        ("boolean", "t"),
        ("smallint", "-7"),
        ("int", "2147483647"),
        ("bigint", "-9223372036854775808"),
        ("real", "1.5"),
        ("double precision", "1e+20"),
        ("numeric(38,10)", "-1234567890123456789012345678.0123456789"),
        ("text", "it's \\ grüße"),
        ("varchar(5)", "abc"),
        ("bytea", "\\x00ff10"),
        ("date", "1815-12-10"),
        ("timestamp", "2024-02-29 12:34:56.789"),
        ("timestamptz", "1999-12-31 23:59:59+00"),
        ("time", "24:00:00"),
        ("time without time zone", "04:05:06.789"),
        ("interval", "1 year 2 mons -3 days +04:05:06.789"),
        ("interval", "-1 mons"),
        ("uuid", "6ecd8c99-4036-403d-bf84-cf8400f67836"),
        ("jsonb", "{\"a\": [1.50, null], \"bb\": \"it's grüße\"}"),
    ]
    .into_iter()
    .enumerate()
    {
        let escaped = text.replace('\'', "''");
        client.batch_execute(&format!("CREATE TABLE t{index} (id int PRIMARY KEY, v {kind})")).await.unwrap();
        client.batch_execute(&format!("INSERT INTO t{index} VALUES (1, '{escaped}')")).await.unwrap();
        let bytes: Raw = client.query_one(&format!("SELECT v FROM t{index}"), &[]).await.unwrap().get(0);
        client.execute(&format!("INSERT INTO t{index} VALUES ($1, $2)"), &[&2, &bytes]).await.unwrap_or_else(|error| {
            panic!("{kind}: {error:?}");
        });
        let null: Option<Raw> = None;
        client.execute(&format!("INSERT INTO t{index} VALUES ($1, $2)"), &[&3, &null]).await.unwrap();
        let found = client.query(&format!("SELECT id FROM t{index} WHERE v = $1 ORDER BY id"), &[&bytes]).await;
        let found: Vec<i32> =
            found.unwrap_or_else(|error| panic!("{kind}: {error:?}")).iter().map(|r| r.get(0)).collect();
        assert_eq!(found, [1, 2], "{kind}");
        let texts = client.simple_query(&format!("SELECT v FROM t{index} ORDER BY id")).await.unwrap();
        let texts: Vec<Option<String>> = texts
            .iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
                _ => None,
            })
            .collect();
        assert_eq!(texts, [Some(text.to_owned()), Some(text.to_owned()), None], "{kind}");
    }
}

#[tokio::test]
async fn lists_go_out_and_in() {
    let server = TestServer::start();
    let client = server.client().await;
    let row = client.query_one("SELECT ARRAY[1, NULL, 3]::int[], ARRAY['a b', '']", &[]).await.unwrap();
    assert_eq!(row.get::<_, Vec<Option<i32>>>(0), [Some(1), None, Some(3)]);
    assert_eq!(row.get::<_, Vec<String>>(1), ["a b", ""]);
    let statement = client.prepare_typed("SELECT cardinality($1)::bigint", &[Type::INT8_ARRAY]).await.unwrap();
    assert_eq!(client.query_one(&statement, &[&vec![1_i64, 2]]).await.unwrap().get::<_, i64>(0), 2);
}

#[tokio::test]
async fn objects_are_of_type_json() {
    let server = TestServer::start();
    let client = server.client().await;
    for sql in [
        "SELECT json_build_object('a', 1)",
        "SELECT CASE WHEN true THEN (SELECT json_build_object('a', n) FROM (VALUES (1)) AS v(n)) ELSE NULL END",
    ] {
        let statement = client.prepare(sql).await.unwrap();
        assert_eq!(statement.columns()[0].type_(), &Type::JSON, "{sql}");
    }
}

/// Bytes of `jsonb` begin with the number of their version; what is stored of either type is what it says of itself.
#[tokio::test]
async fn json_goes_in_and_out() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE d (id int PRIMARY KEY, j json, b jsonb)").await.unwrap();
    let insert = client.prepare("INSERT INTO d VALUES ($1, $2, $3)").await.unwrap();
    assert_eq!(insert.params(), [Type::INT4, Type::JSON, Type::JSONB]);
    let (json, jsonb) = (b"{\"b\":1,  \"a\":[2]}".to_vec(), b"\x01{\"b\":1,  \"a\":[2]}".to_vec());
    client.execute(&insert, &[&1, &Raw(json.clone()), &Raw(jsonb)]).await.unwrap();
    let row = client.query_one("SELECT j, b, b -> 'a' AS part, j ->> 'a' AS text FROM d", &[]).await.unwrap();
    let types: Vec<&Type> = row.columns().iter().map(|column| column.type_()).collect();
    assert_eq!(types, [&Type::JSON, &Type::JSONB, &Type::JSONB, &Type::TEXT]);
    assert_eq!(row.get::<_, Raw>(0), Raw(json));
    assert_eq!(row.get::<_, Raw>(1), Raw(b"\x01{\"a\": [2], \"b\": 1}".to_vec()));
    assert_eq!(row.get::<_, Raw>(2), Raw(b"\x01[2]".to_vec()));
    assert_eq!(row.get::<_, String>(3), "[2]");

    for (id, j, b, code) in [(2, "{", "\u{1}{}", "22P02"), (3, "{}", "\u{1}{\"a\"}", "22P02"), (4, "{}", "{}", "22P03")]
    {
        let bytes = |text: &str| Raw(text.as_bytes().to_vec());
        let error = client.execute(&insert, &[&id, &bytes(j), &bytes(b)]).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some(code), "{id}");
    }

    let asked = client.prepare("SELECT id FROM d WHERE b @> $1 AND b ->> $2 = $3 AND b ? $4").await.unwrap();
    assert_eq!(asked.params(), [Type::JSONB, Type::TEXT, Type::TEXT, Type::TEXT]);
    let part = Raw(b"\x01{\"b\": 1.0}".to_vec());
    assert_eq!(client.query(&asked, &[&part, &"b", &"1", &"a"]).await.unwrap().len(), 1);
    let change = client.prepare("UPDATE d SET b = jsonb_set(b, $1, $2) WHERE id = $3").await.unwrap();
    assert_eq!(change.params(), [Type::TEXT_ARRAY, Type::JSONB, Type::INT4]);
    let path = vec!["a".to_owned(), "0".to_owned()];
    assert_eq!(client.execute(&change, &[&path, &part, &1]).await.unwrap(), 1);
    let text: String = client.query_one("SELECT b::text FROM d", &[]).await.unwrap().get(0);
    assert_eq!(text, "{\"a\": [{\"b\": 1.0}], \"b\": 1}");
    let cast = client.prepare("SELECT $1::jsonb, $2::json").await.unwrap();
    assert_eq!(cast.params(), [Type::JSONB, Type::JSON]);
}

/// What clients make of enumerations they find in the catalogue; a label's bytes are its text.
#[tokio::test]
async fn labels_go_round() {
    let server = TestServer::start();
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok', 'contents'); CREATE TABLE t (id int PRIMARY KEY, m mood)",
        )
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2)").await.unwrap();
    let mood = insert.params()[1].clone();
    let labels = ["sad", "ok", "contents"].map(str::to_owned);
    assert_eq!((mood.name(), mood.kind()), ("mood", &Kind::Enum(labels.to_vec())));
    let bytes = |text: &str| Raw(text.as_bytes().to_vec());
    for (id, label) in [(1, "contents"), (2, "sad"), (3, "ok")] {
        client.execute(&insert, &[&id, &bytes(label)]).await.unwrap();
    }
    client.execute(&insert, &[&4, &None::<Raw>]).await.unwrap();
    let error = client.execute(&insert, &[&5, &bytes("x")]).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("22P02"));
    let told = error.as_db_error().map(|error| error.message().to_owned());
    assert_eq!(told.as_deref(), Some("invalid input value for enum mood: \"x\""));

    let by_key = client.prepare("SELECT m FROM t WHERE id = $1").await.unwrap();
    assert_eq!(by_key.columns()[0].type_(), &mood);
    let at = async |id: i32| client.query_one(&by_key, &[&id]).await.unwrap().get::<_, Option<Raw>>(0);
    assert_eq!((at(1).await, at(4).await), (Some(bytes("contents")), None));
    let few = client.prepare("SELECT id FROM t WHERE m >= $1 ORDER BY m DESC").await.unwrap();
    let ids: Vec<i32> = client.query(&few, &[&bytes("ok")]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(ids, [1, 3]);
    let array = client.query_one("SELECT array_agg(m ORDER BY m DESC NULLS LAST) FROM t", &[]).await.unwrap();
    assert_eq!(array.columns()[0].type_().kind(), &Kind::Array(mood.clone()));
    let given = [Some(bytes("contents")), Some(bytes("ok")), Some(bytes("sad")), None];
    assert_eq!(array.get::<_, Vec<Option<Raw>>>(0), given);
    let among = client.prepare("SELECT count(*) FROM t WHERE m = ANY ($1::mood[])").await.unwrap();
    let two = vec![bytes("contents"), bytes("sad")];
    assert_eq!(client.query_one(&among, &[&two]).await.unwrap().get::<_, i64>(0), 2);
    // A client may state the types of parameters.
    let stated = client.prepare_typed("SELECT $1", std::slice::from_ref(&mood)).await.unwrap();
    assert_eq!(client.query_one(&stated, &[&bytes("ok")]).await.unwrap().get::<_, Raw>(0), bytes("ok"));

    // Statements of before know the labels of now.
    client
        .batch_execute("ALTER TYPE mood RENAME VALUE 'contents' TO 'glad'; ALTER TYPE mood ADD VALUE 'new'")
        .await
        .unwrap();
    client.execute(&insert, &[&5, &bytes("new")]).await.unwrap();
    assert_eq!((at(1).await, at(5).await), (Some(bytes("glad")), Some(bytes("new"))));
    let ids: Vec<i32> = client.query(&few, &[&bytes("glad")]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(ids, [5, 1]);
}

/// Arrays that are stored, as compiled statements and plans send them, in both formats.
#[tokio::test]
async fn stored_arrays_go_round() {
    let server = TestServer::start();
    let client = server.client().await;
    let columns =
        "id int PRIMARY KEY, n int[], t text[], v varchar(3)[], c char(4)[], d numeric(6,2)[], w timestamptz[]";
    client.batch_execute(&format!("CREATE TABLE a ({columns})")).await.unwrap();
    let insert = client.prepare("INSERT INTO a (id, n, t, v) VALUES ($1, $2, $3, $4)").await.unwrap();
    assert_eq!(insert.params()[1..], [Type::INT4_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY]);
    let numbers = [Some(1), None, Some(-3)].to_vec();
    let texts = ["a b", "", "NULL", "q\"\\"].map(str::to_owned).to_vec();
    let short = vec!["abc".to_owned()];
    client.execute(&insert, &[&1, &numbers, &texts, &short]).await.unwrap();
    client.execute(&insert, &[&2, &None::<Vec<i32>>, &Vec::<String>::new(), &None::<Vec<String>>]).await.unwrap();
    let long = client.execute(&insert, &[&3, &numbers, &texts, &texts]).await.unwrap_err();
    assert_eq!(long.code().map(|code| code.code()), Some("22001"));
    let change = "UPDATE a SET c = '{ab}', d = '{1.5,2}', w = '{2024-02-29 12:00+00}' WHERE id = 1";
    client.batch_execute(change).await.unwrap();
    for query in
        ["SELECT n, t, v, c, d::text, w FROM a WHERE id = $1", "SELECT n, t, v, c, d::text, w FROM a WHERE id + 0 = $1"]
    {
        let query = client.prepare(query).await.unwrap();
        let types = query.columns().iter().map(|column| column.type_().clone()).collect::<Vec<_>>();
        assert_eq!(types[..4], [Type::INT4_ARRAY, Type::TEXT_ARRAY, Type::VARCHAR_ARRAY, Type::BPCHAR_ARRAY]);
        let row = client.query_one(&query, &[&1]).await.unwrap();
        assert_eq!(row.get::<_, Vec<Option<i32>>>(0), numbers);
        assert_eq!((row.get::<_, Vec<String>>(1), row.get::<_, Vec<String>>(2)), (texts.clone(), short.clone()));
        assert_eq!(
            (row.get::<_, Vec<String>>(3), row.get::<_, String>(4)),
            (vec!["ab  ".to_owned()], "{1.50,2.00}".to_owned())
        );
        let row = client.query_one(&query, &[&2]).await.unwrap();
        assert_eq!((row.get::<_, Option<Vec<i32>>>(0), row.get::<_, Vec<String>>(1)), (None, Vec::new()));
    }
    let found = client.query("SELECT id FROM a WHERE n = $1", &[&numbers]).await.unwrap();
    assert_eq!(found.len(), 1);
    let within = client.query("SELECT id FROM a WHERE n @> $1", &[&vec![-3]]).await.unwrap();
    assert_eq!(within.len(), 1);
    // As text, and in the session's style.
    let texts = async |sql: &str| {
        let messages = client.simple_query(sql).await.unwrap();
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.expect("one row");
        (0..row.len()).map(|at| row.get(at).unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    client.batch_execute("SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'").await.unwrap();
    let expected = [
        "{1,NULL,-3}",
        "{\"a b\",\"\",\"NULL\",\"q\\\"\\\\\"}",
        "{\"ab  \"}",
        "{1.50,2.00}",
        "{\"29.02.2024 21:00:00 JST\"}",
    ];
    assert_eq!(texts("SELECT n, t, c, d, w FROM a WHERE id = 1").await, expected);
    assert_eq!(texts("SELECT n, t, c, d, w FROM a WHERE id + 0 = 1").await, expected);
    client.batch_execute("UPDATE a SET w = '{2024-03-01 00:00}' WHERE id = 2").await.unwrap();
    client.batch_execute("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'").await.unwrap();
    assert_eq!(texts("SELECT w FROM a WHERE id = 2").await, ["{\"2024-02-29 15:00:00+00\"}"]);
}
