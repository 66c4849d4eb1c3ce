//! Encoded columns. The input begins with the type and the number of rows that a directory would state.

use saki_base::{DataType, Random, ValueRef};
use saki_columns::values::for_each_value;
use saki_columns::{Codec, Test, VortexCodec};
use saki_vector::expr::CompareOp;

use crate::input::{DATA_TYPES, Input};
use crate::values::some_value;

/// An encoded column: an error, or a column of as many rows that can be read and encoded again; what a test finds on
/// the encoded values is of as many rows too.
pub fn column(data: &[u8]) {
    let mut input = Input(data);
    let data_type = input.data_type();
    let rows = usize::from(u16::from_le_bytes([input.byte(), input.byte()]));
    let blob = input.0.to_vec().into();
    let codec = VortexCodec::default();
    let test = Test::Compare(CompareOp::Less, some_value(data_type, &mut Random::new(rows as u64)));
    if let Ok(Some(selected)) = codec.select(&blob, data_type, rows, &test) {
        assert_eq!(selected.len(), rows);
    }
    let Ok(column) = codec.decode(&blob, data_type, rows) else { return };
    let mut read = 0;
    let look = |value: ValueRef<'_>| {
        if let ValueRef::Text(text) = value {
            assert!(std::str::from_utf8(text.as_bytes()).is_ok());
        }
        read += 1;
    };
    for_each_value(&column, data_type, look).expect("a native form");
    assert_eq!(read, rows);
    let again = codec.encode(&column, data_type).expect("a native form");
    assert_eq!(codec.decode(&again.into(), data_type, rows).expect("what was encoded").len(), rows);
}

/// The blobs that the codec's tests keep, one of each type and encoding.
pub fn seeds() -> Vec<Vec<u8>> {
    macro_rules! blobs {
        ($($name:literal: $data_type:expr),* $(,)?) => {
            [$(($data_type, &include_bytes!(concat!("../../../crates/columns/tests/golden/", $name, ".bin"))[..])),*]
        };
    }
    let blobs: [(DataType, &[u8]); 27] = blobs! {
        "int8-anything": DataType::Int8,
        "int8-near": DataType::Int8,
        "int8-small": DataType::Int8,
        "int8-sequence": DataType::Int8,
        "int8-runs": DataType::Int8,
        "int8-short-runs": DataType::Int8,
        "int8-few": DataType::Int8,
        "int4-signed": DataType::Int4,
        "int4-outliers": DataType::Int4,
        "int4-equal": DataType::Int4,
        "int4-sparse": DataType::Int4,
        "int2-nulls": DataType::Int2,
        "date": DataType::Date,
        "timestamp": DataType::Timestamp,
        "timestamptz": DataType::Timestamptz,
        "bool": DataType::Bool,
        "float8-cents": DataType::Float8,
        "float8-real": DataType::Float8,
        "float4-edges": DataType::Float4,
        "decimal-narrow": DataType::Decimal { precision: 15, scale: 2 },
        "decimal-wide": DataType::Decimal { precision: 38, scale: 10 },
        "uuid": DataType::Uuid,
        "text-few": DataType::Text,
        "text-many": DataType::Varchar(12),
        "text-short": DataType::Text,
        "bytea": DataType::Bytea,
        "bytea-few": DataType::Bytea,
    };
    let seed = |(data_type, blob): (DataType, &[u8])| {
        let choice = DATA_TYPES.iter().position(|known| *known == data_type).expect("a type that bodies choose from");
        // The head states the rows at byte 4.
        [&[choice as u8], &blob[4..6], blob].concat()
    };
    blobs.map(seed).to_vec()
}
