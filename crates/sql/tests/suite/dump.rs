//! All that a database holds, as queries tell it, to be compared with what it holds after it was opened again.

use std::collections::BTreeMap;
use std::sync::Arc;

use saki_sql::{Database, Session, SqlError};

use super::support::text_rows;

type Rows = Vec<Vec<String>>;

/// Relations that outlive their session and that somebody has made.
const LASTING: &str = "NOT LIKE 'pg_%' AND SCHEMA NOT IN ('information_schema', 'saki')";

/// What describes a database, each with the column of the schema.
const DESCRIPTIONS: [(&str, &str); 5] = [
    (
        "SELECT table_schema, table_name, column_name, ordinal_position, data_type, is_nullable, column_default \
         FROM information_schema.columns WHERE SCHEMA",
        "table_schema",
    ),
    ("SELECT schemaname, viewname, viewowner, definition FROM pg_views WHERE SCHEMA", "schemaname"),
    ("SELECT schemaname, tablename, indexdef FROM pg_indexes WHERE SCHEMA", "schemaname"),
    (
        "SELECT n.nspname, r.relname, c.conname, pg_get_constraintdef(c.oid) FROM pg_constraint c \
         JOIN pg_class r ON r.oid = c.conrelid JOIN pg_namespace n ON n.oid = r.relnamespace WHERE SCHEMA",
        "n.nspname",
    ),
    (
        "SELECT schemaname, sequencename, data_type, start_value, min_value, max_value, increment_by, cycle \
         FROM pg_sequences WHERE SCHEMA",
        "schemaname",
    ),
];

pub struct Dump {
    /// Rows, in some order that is always the same, by the query whose they are.
    rows: BTreeMap<String, Rows>,
    /// How far sequences are.
    sequences: BTreeMap<String, Sequence>,
}

/// How far a sequence is, counted in the direction in which it goes.
struct Sequence {
    at: i64,
    goes_round: bool,
}

impl Sequence {
    /// Its name, and how far it is.
    fn of(row: Vec<String>) -> (String, Self) {
        let [schema, name, increment, last, goes_round] = <[String; 5]>::try_from(row).expect("five columns");
        let [increment, last] = [increment, last].map(|text| text.parse::<i64>().expect("a number"));
        let at = if increment < 0 { -last } else { last };
        (format!("{schema}.{name}"), Self { at, goes_round: goes_round == "true" })
    }
}

fn lasting(query: &str, schema: &str) -> String {
    let (query, condition) = (query.replace("SCHEMA", schema), LASTING.replace("SCHEMA", schema));
    format!("{query} {condition}")
}

async fn rows(session: &Session, sql: &str) -> Result<Rows, SqlError> {
    let mut rows = text_rows(session.execute(sql).await?.pop().expect("a result")).await?;
    rows.sort();
    Ok(rows)
}

impl Dump {
    /// # Errors
    /// Those of the queries.
    pub async fn of(database: &Arc<Database>) -> Result<Self, SqlError> {
        let session = Session::new(database);
        let mut all = BTreeMap::new();
        for (query, schema) in DESCRIPTIONS {
            let query = lasting(query, schema);
            let found = rows(&session, &query).await?;
            all.insert(query, found);
        }
        let tables = "SELECT schemaname, tablename FROM pg_tables WHERE SCHEMA";
        for table in rows(&session, &lasting(tables, "schemaname")).await? {
            let name: Vec<String> = table.iter().map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
            let query = format!("SELECT * FROM {}", name.join("."));
            // What cannot be read then must not be readable later either.
            let found = rows(&session, &query).await.unwrap_or_else(|error| vec![vec![error.to_string()]]);
            all.insert(query, found);
        }
        let sequences = "SELECT schemaname, sequencename, increment_by, last_value, cycle FROM pg_sequences \
                         WHERE last_value IS NOT NULL AND SCHEMA";
        let sequences = rows(&session, &lasting(sequences, "schemaname")).await?;
        Ok(Self { rows: all, sequences: sequences.into_iter().map(Sequence::of).collect() })
    }

    /// What is otherwise in one that was made of the same database later.
    pub fn differences(&self, later: &Self) -> Vec<String> {
        let none = Rows::new();
        let mut all = Vec::new();
        for query in self.rows.keys().chain(later.rows.keys().filter(|query| !self.rows.contains_key(*query))) {
            let [before, after] = [self, later].map(|dump| dump.rows.get(query).unwrap_or(&none));
            if before != after {
                let [gone, new] = [(before, after), (after, before)]
                    .map(|(of, other)| of.iter().filter(|row| !other.contains(row)).collect::<Vec<_>>());
                let counts = (before.len(), after.len());
                all.push(format!("{query}: {} rows became {}: {gone:?} went, {new:?} came", counts.0, counts.1));
            }
        }
        for (name, before) in &self.sequences {
            // It may have left out values, and must not give one out twice.
            let is_behind = |after: &Sequence| after.at < before.at && !before.goes_round;
            if later.sequences.get(name).is_none_or(is_behind) {
                let after = later.sequences.get(name).map(|after| after.at);
                all.push(format!("sequence {name} was at {} and is at {after:?}", before.at));
            }
        }
        all
    }
}

#[test]
fn dumps_differ_by_rows_and_by_sequences_that_went_back() {
    let dump = |rows: &[&str], at| {
        let rows: Rows = rows.iter().map(|row| vec![(*row).to_owned()]).collect();
        let sequences = BTreeMap::from([("s".to_owned(), Sequence { at, goes_round: false })]);
        Dump { rows: BTreeMap::from([("q".to_owned(), rows)]), sequences }
    };
    let before = dump(&["1", "2"], 5);
    assert_eq!(before.differences(&dump(&["1", "2"], 30)), [""; 0]);
    assert_eq!(before.differences(&dump(&["1", "2"], 4)), ["sequence s was at 5 and is at Some(4)"]);
    let lost = before.differences(&dump(&["1"], 5));
    assert_eq!(lost, [r#"q: 2 rows became 1: [["2"]] went, [] came"#]);
}
