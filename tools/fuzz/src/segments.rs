//! Entries of the directory of column segments. The input begins with the columns of the table.

use std::sync::Arc;

use saki_base::{DataType, PageAddress, Random, Value};
use saki_columns::{Bloom, ColumnRun, ColumnType, Segment, SegmentColumns, Zone, entry::decode, entry::encode};

use crate::input::{DATA_TYPES, Input};

/// An entry: a segment or an error. What is read, written and read again is the same.
pub fn entry(data: &[u8]) {
    let mut input = Input(data);
    let (mut present, mut dropped) = (Vec::new(), Vec::new());
    for (place, (data_type, nullable, is_dropped)) in input.columns().into_iter().enumerate() {
        match is_dropped {
            true => dropped.push((place, data_type)),
            false => present.push(column(data_type, nullable)),
        }
    }
    let columns = SegmentColumns::new(present, dropped);
    let mut segment = match decode(b"key", input.0, &columns) {
        Ok(segment) => segment,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    segment.take_dropped(4096);
    let mut written = Vec::new();
    // Bytes may spell what no writer writes (a decimal with too many digits): an error then.
    if encode(&segment, &columns, &mut written).is_err() {
        return;
    }
    let again = decode(b"key", &written, &columns).expect("what was written can be read");
    let mut rewritten = Vec::new();
    encode(&again, &columns, &mut rewritten).expect("what was read can be written");
    assert_eq!(written, rewritten, "a segment has two encodings");
}

/// Of a column's choice: the table has lost it ([`Input::columns`]).
const DROPPED: u8 = 0x80;

fn column(data_type: DataType, nullable: bool) -> ColumnType {
    ColumnType { name: String::new(), data_type, nullable, missing: nullable.then_some(Value::Null) }
}

/// Entries of small tables, with zones of every kind.
pub fn entry_seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(11);
    let choices = [2_u8, 8, 11, 13];
    let columns: Vec<ColumnType> =
        choices.iter().map(|choice| column(DATA_TYPES[usize::from(*choice)], false)).collect();
    let bloom = Bloom::read(&[0x5a; 64]).map(Arc::new);
    let zones = [
        Zone { min: Value::Int4(-3), max: Value::Int4(9), distinct: 5, bloom, ..Zone::default() },
        Zone {
            nulls: 2,
            min: Value::Text("a".into()),
            max: Value::Text("c".into()),
            distinct: 3,
            values: Some(["a", "b", "c"].map(|text| Value::Text(text.into())).into()),
            bloom: None,
        },
        Zone { nulls: 7, values: Some(Box::default()), ..Zone::default() },
        Zone { min: Value::Timestamp(random.next_u64() as i64), ..Zone::default() },
    ];
    let run = |zone: &Zone| {
        let addresses = u64::MAX >> random.below(32);
        ColumnRun {
            first_page: PageAddress(1 + random.below(addresses)),
            bytes: 1 + random.below(1 << 20) as u32,
            checksum: random.next_u64(),
            zone: zone.clone(),
        }
    };
    let columns_of = zones.iter().map(run).collect();
    let segment = Segment { first_key: b"key".to_vec(), rows: 7, columns: columns_of, dropped: Vec::new() };
    let seed = |choices: [u8; 4]| {
        let mut seed = vec![choices.len() as u8];
        seed.extend_from_slice(&choices);
        encode(&segment, &columns.clone().into(), &mut seed).expect("zones of the columns' types");
        seed
    };
    // The same, of a table that has lost the second one since.
    let [a, b, c, d] = choices;
    vec![seed(choices), seed([a, b | DROPPED, c, d])]
}
