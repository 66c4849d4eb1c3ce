//! A table that has everything: a unique index, nullable columns, an index of two columns, bodies of several lengths.

use std::collections::BTreeMap;

use saki_base::{Column, DataType, ValueRef};
use saki_mvcc::{IndexDefinition, IndexId, Table, TableDefinition};

pub const COLOURS: [&str; 3] = ["red", "tan", "sky"];
pub const NAMES: [&str; 4] = ["n0", "n1", "n2", "n3"];
pub const INDEXES: usize = 3;
pub const BY_NAME: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thing {
    pub colour: Option<u8>,
    /// No two things have the same.
    pub name: Option<u8>,
    pub size: i64,
    /// Length of a note.
    pub note: u16,
}

pub type Things = BTreeMap<i64, Thing>;

pub fn definition() -> TableDefinition {
    let column = |name: &str, data_type, nullable| Column { name: name.into(), data_type, nullable };
    let index = |name: &str, columns: &[usize], unique| IndexDefinition {
        name: name.into(),
        columns: columns.into(),
        unique,
        ..Default::default()
    };
    TableDefinition {
        name: "things".into(),
        columns: vec![
            column("id", DataType::Int8, false),
            column("colour", DataType::Text, true),
            column("name", DataType::Text, true),
            column("size", DataType::Int8, false),
            column("note", DataType::Text, false),
        ],
        primary_key: vec![0],
        indexes: vec![
            index("by_colour", &[1], false),
            index("by_name", &[2], true),
            index("by_size_and_colour", &[3, 1], false),
        ],
        ..Default::default()
    }
}

/// Key and body.
pub type Encoded = (Vec<u8>, Vec<u8>);

pub fn encode(table: &Table, id: i64, thing: &Thing) -> Encoded {
    let text =
        |texts: &'static [&str], at: Option<u8>| at.map_or(ValueRef::Null, |at| ValueRef::Text(texts[at as usize]));
    let note = "x".repeat(thing.note.into());
    let values = [
        ValueRef::Int8(id),
        text(&COLOURS, thing.colour),
        text(&NAMES, thing.name),
        ValueRef::Int8(thing.size),
        ValueRef::Text(&note),
    ];
    let (mut key, mut body) = (Vec::new(), Vec::new());
    table.encode(&values, &mut key, &mut body).expect("values of the table");
    (key, body)
}

pub fn key(table: &Table, id: i64) -> Vec<u8> {
    let mut key = Vec::new();
    table.key_layout().encode(&[ValueRef::Int8(id)], &mut key).expect("a key");
    key
}

pub fn index(table: &Table, number: usize) -> IndexId {
    table.index(&table.definition().indexes[number].name).expect("an index")
}

/// The first `columns` columns of a thing's entry in an index.
pub fn prefix(table: &Table, number: usize, columns: usize, thing: &Thing) -> Vec<u8> {
    let text =
        |texts: &'static [&str], at: Option<u8>| at.map_or(ValueRef::Null, |at| ValueRef::Text(texts[at as usize]));
    let value = |column: &usize| match column {
        1 => text(&COLOURS, thing.colour),
        2 => text(&NAMES, thing.name),
        _ => ValueRef::Int8(thing.size),
    };
    let layout = table.index_key_layout(index(table, number));
    let mut prefix = Vec::new();
    for (column, of) in table.definition().indexes[number].columns.iter().zip(layout.columns()).take(columns) {
        saki_base::key::encode_column(*of, value(column), &mut prefix).expect("a value of the column");
    }
    prefix
}

/// The entries of an index, in order, with the rows they lead to.
pub fn entries(table: &Table, number: usize, things: &Things) -> Vec<(Vec<u8>, Encoded)> {
    let entry = |(id, thing): (&i64, &Thing)| {
        let columns = table.definition().indexes[number].columns.len();
        let mut entry = prefix(table, number, columns, thing);
        entry.extend(key(table, *id));
        (entry, encode(table, *id, thing))
    };
    let mut entries: Vec<_> = things.iter().map(entry).collect();
    entries.sort();
    entries
}
