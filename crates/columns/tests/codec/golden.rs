//! Blobs of every encoding, as they were written once: they are read as the same values forever.
//!
//! A new case gets its blob from `cargo test -p saki-columns --test codec -- --ignored`; a blob that is there is never
//! written again.

use std::path::PathBuf;

use arrow_buffer::Buffer;
use saki_base::{DataType, Interval, Value};
use saki_columns::{Codec, VortexCodec};

use crate::model;

/// Every encoding that blobs may have.
const ENCODINGS: [&str; 16] = [
    "vortex.primitive",
    "vortex.bool",
    "vortex.varbinview",
    "vortex.varbin",
    "vortex.constant",
    "vortex.struct",
    "vortex.dict",
    "vortex.runend",
    "vortex.sequence",
    "vortex.sparse",
    "vortex.zigzag",
    "fastlanes.bitpacked",
    "fastlanes.for",
    "vortex.alp",
    "vortex.alprd",
    "vortex.fsst",
];

struct Case {
    name: &'static str,
    data_type: DataType,
    values: Vec<Value>,
}

/// The cases. Their values must not change, so that they are made of arithmetic alone.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name, data_type, values: Vec<Value>| cases.push(Case { name, data_type, values });
    let rows = || 0..2500_i64;
    // Multiplied by an odd constant, numbers are in no order that an encoding finds.
    let mixed = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let near = |row: i64| (mixed(row) >> 33).rem_euclid(1000);
    case("int8-anything", DataType::Int8, (0..300).map(|row| Value::Int8(mixed(row))).collect());
    case("int8-near", DataType::Int8, rows().map(|row| Value::Int8(5_000_000_000 + near(row))).collect());
    case("int8-small", DataType::Int8, rows().map(|row| Value::Int8(near(row))).collect());
    case("int4-signed", DataType::Int4, rows().map(|row| Value::Int4(near(row) as i32 - 500)).collect());
    case(
        "int4-outliers",
        DataType::Int4,
        rows().map(|row| Value::Int4(if row % 97 == 5 { mixed(row) as i32 } else { near(row) as i32 })).collect(),
    );
    case("int4-equal", DataType::Int4, rows().map(|_| Value::Int4(-7)).collect());
    case(
        "int4-sparse",
        DataType::Int4,
        rows().map(|row| Value::Int4(if row % 61 == 3 { mixed(row) as i32 } else { 12 })).collect(),
    );
    case("int8-sequence", DataType::Int8, rows().map(|row| Value::Int8(7 * row - 100)).collect());
    case("int8-runs", DataType::Int8, rows().map(|row| Value::Int8(mixed(row / 100) >> 20)).collect());
    case("int8-short-runs", DataType::Int8, rows().map(|row| Value::Int8(mixed(row / 6) >> 3)).collect());
    case("int8-few", DataType::Int8, rows().map(|row| Value::Int8(mixed(near(row) % 9))).collect());
    case("int2-nulls", DataType::Int2, rows().map(|row| null_or(row, Value::Int2(near(row) as i16))).collect());
    case("date", DataType::Date, rows().map(|row| Value::Date(9000 + near(row) as i32)).collect());
    case(
        "timestamp",
        DataType::Timestamp,
        rows().map(|row| Value::Timestamp(1_700_000_000_000_000 + near(row))).collect(),
    );
    case("timestamptz", DataType::Timestamptz, rows().map(|row| Value::Timestamptz(near(row) * 1_000_000)).collect());
    case("time", DataType::Time, rows().map(|row| null_or(row, Value::Time(near(row) * 60_000_000))).collect());
    case(
        "interval",
        DataType::Interval,
        rows()
            .map(|row| Interval {
                months: near(row) as i32 % 5 - 2,
                days: near(row) as i32,
                micros: near(row) * 1_000_000,
            })
            .map(Value::Interval)
            .collect(),
    );
    case("bool", DataType::Bool, rows().map(|row| null_or(row, Value::Bool(near(row) > 300))).collect());
    case("float8-cents", DataType::Float8, rows().map(|row| Value::Float8(near(row) as f64 / 100.0)).collect());
    case(
        "float8-real",
        DataType::Float8,
        rows().map(|row| Value::Float8(1.0 + (mixed(row) as u64 >> 12) as f64 / (1_u64 << 52) as f64)).collect(),
    );
    case("float4-edges", DataType::Float4, edges(|edge| Value::Float4(edge as f32)));
    case("float8-edges", DataType::Float8, edges(Value::Float8));
    case(
        "decimal-narrow",
        DataType::Decimal { precision: 15, scale: 2 },
        rows().map(|row| Value::Decimal(i128::from(near(row)) * 100)).collect(),
    );
    case(
        "decimal-wide",
        DataType::Decimal { precision: 38, scale: 10 },
        (0..300).map(|row| Value::Decimal(i128::from(mixed(row)) * 1_000_000_007)).collect(),
    );
    case(
        "uuid",
        DataType::Uuid,
        (0..300_i64).map(|row| Value::Uuid((i128::from(mixed(row)) << 64 | i128::from(row)).to_be_bytes())).collect(),
    );
    let words = ["", "AIR", "TRUCK", "DELIVER IN PERSON", "東京から大阪まで"];
    case("text-few", DataType::Text, rows().map(|row| text(words[(near(row) % 5) as usize])).collect());
    case("text-equal", DataType::Char(10), rows().map(|_| text("same")).collect());
    case(
        "text-many",
        DataType::Varchar(80),
        rows()
            .map(|row| null_or(row, text(&format!("Customer#{:09} of ward {}", mixed(row) >> 40, near(row)))))
            .collect(),
    );
    case("text-short", DataType::Text, words.map(text).to_vec());
    case("bytea", DataType::Bytea, (0..400).map(|row| Value::Bytea(mixed(row).to_be_bytes().repeat(2))).collect());
    case("bytea-few", DataType::Bytea, rows().map(|row| Value::Bytea(vec![(near(row) % 3) as u8; 20])).collect());
    case("no-rows", DataType::Text, Vec::new());
    case("nulls-only", DataType::Int8, vec![Value::Null; 100]);
    cases
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn null_or(row: i64, value: Value) -> Value {
    if row % 7 == 2 { Value::Null } else { value }
}

fn edges(float: impl Fn(f64) -> Value) -> Vec<Value> {
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.5, f64::MIN_POSITIVE, f64::MAX].map(float).to_vec()
}

fn path(case: &Case) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(case.name).with_extension("bin")
}

#[test]
fn blobs_of_old_are_read() {
    let codec = VortexCodec::default();
    let mut found = String::new();
    for case in cases() {
        let bytes = std::fs::read(path(&case)).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let blob = Buffer::from_slice_ref(&bytes);
        let column = codec.decode(&blob, case.data_type, case.values.len()).unwrap();
        model::assert_same(&model::values(&column, case.data_type), &case.values);
        found += &format!("{}: {}\n", case.name, VortexCodec::describe(&blob, case.values.len()).unwrap());
    }
    for encoding in ENCODINGS {
        assert!(found.contains(encoding), "no blob has {encoding}:\n{found}");
    }
}

#[test]
fn what_is_written_today_is_read() {
    let codec = VortexCodec::default();
    for case in cases() {
        let blob = codec.encode(&model::column(case.data_type, &case.values), case.data_type).unwrap();
        let column = codec.decode(&Buffer::from_vec(blob), case.data_type, case.values.len()).unwrap();
        model::assert_same(&model::values(&column, case.data_type), &case.values);
    }
}

#[test]
#[ignore = "writes the blobs of new cases"]
fn write_missing_blobs() {
    let codec = VortexCodec::default();
    for case in cases().iter().filter(|case| !path(case).exists()) {
        let blob = codec.encode(&model::column(case.data_type, &case.values), case.data_type).unwrap();
        std::fs::create_dir_all(path(case).parent().unwrap()).unwrap();
        std::fs::write(path(case), blob).unwrap();
    }
}
