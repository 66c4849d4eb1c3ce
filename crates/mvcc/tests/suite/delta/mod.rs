//! Tables over a base, and what sessions of clients need: transactions that wait in their sessions and for each other,
//! snapshots that move, moments for many threads, rows that leave memory.
//!
//! - `model`: all of it against a map, by one thread · `merging`: a base, and a merge, beside transactions
//! - `moments`: readers on other threads · `waiting`: who waits for whom · `tables`: which there are, and the keys of
//!   their indexes · `released`: rows that leave memory between a read and its validation

mod merging;
mod model;
mod moments;
mod released;
mod tables;
mod waiting;

use saki_base::{Column, DataType, KeyColumn, KeyLayout, Value, ValueRef};
use saki_mvcc::{Database, IndexDefinition, Options, Table, TableDefinition};

use crate::suite::support::{SimLogs, options};

/// Notes: number, colour (indexed, descending), text.
pub fn notes() -> TableDefinition {
    let column = |name: &str, data_type, nullable| Column { name: name.into(), data_type, nullable };
    TableDefinition {
        name: "notes".into(),
        columns: vec![
            column("id", DataType::Int8, false),
            column("colour", DataType::Int4, true),
            column("text", DataType::Text, false),
        ],
        primary_key: vec![0],
        indexes: vec![IndexDefinition {
            name: "by_colour".into(),
            columns: vec![1],
            descending: vec![true],
            ..Default::default()
        }],
        over_base: true,
        ..Default::default()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub colour: Option<i32>,
    pub text: String,
}

pub fn note(colour: i32, text: &str) -> Note {
    Note { colour: Some(colour), text: text.into() }
}

impl Note {
    pub fn body(&self, table: &Table) -> Vec<u8> {
        let values = [self.colour.map_or(ValueRef::Null, ValueRef::Int4), ValueRef::Text(&self.text)];
        let mut body = Vec::new();
        table.row_layout().encode(&values, &mut body).expect("values of the table");
        body
    }

    pub fn decode(table: &Table, key: &[u8], body: &[u8]) -> Self {
        let values = table.decode(key, body).expect("a row of the table");
        match &values[1..] {
            [Value::Null, Value::Text(text)] => Self { colour: None, text: text.clone() },
            [Value::Int4(colour), Value::Text(text)] => Self { colour: Some(*colour), text: text.clone() },
            values => panic!("{values:?}"),
        }
    }

    /// Its entry in the index, as a tree of (colour descending, id) would have it.
    pub fn entry(&self, id: i64) -> Vec<u8> {
        let layout = KeyLayout::new([
            KeyColumn { data_type: DataType::Int4, nullable: true, descending: true },
            KeyColumn { data_type: DataType::Int8, nullable: false, descending: false },
        ]);
        let mut entry = Vec::new();
        let values = [self.colour.map_or(ValueRef::Null, ValueRef::Int4), ValueRef::Int8(id)];
        layout.encode(&values, &mut entry).expect("values of the index");
        entry
    }
}

pub fn key(id: i64) -> Vec<u8> {
    let layout = KeyLayout::new([KeyColumn { data_type: DataType::Int8, nullable: false, descending: false }]);
    let mut key = Vec::new();
    layout.encode(&[ValueRef::Int8(id)], &mut key).expect("a number");
    key
}

/// A database with an empty table of notes.
pub fn with_notes(seed: u64) -> (SimLogs, Database, Table) {
    let logs = SimLogs::new(seed, 2, &[notes()]);
    let options = Options { participants_max: 64, ..options() };
    let database = logs.open(options).expect("a new database");
    let table = database.table("notes").expect("the table");
    (logs, database, table)
}
