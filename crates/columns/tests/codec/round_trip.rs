//! What is encoded is decoded, to the last bit.

use arrow_array::cast::AsArray;
use arrow_buffer::Buffer;
use arrow_schema::DataType as ArrowType;
use proptest::prelude::*;
use saki_base::{DataType, Random, Value};
use saki_columns::codec::EncodedColumn;
use saki_columns::{Codec, ColumnsError, VortexCodec};

use crate::model::{self, DATA_TYPES, Spread};

/// Encodes and decodes; gives the blob too.
#[track_caller]
fn check(data_type: DataType, values: &[Value]) -> Buffer {
    let codec = VortexCodec::default();
    let column = model::column(data_type, values);
    let EncodedColumn { blob, encodings } = codec.encode_among(&column, data_type, None).expect("values of the type");
    let alike = codec.encode_among(&column, data_type, Some(encodings)).expect("in the encodings it has");
    assert!(alike.blob.len() <= blob.len() + blob.len() / 8 + 64, "{} bytes, then {}", blob.len(), alike.blob.len());
    let alike = codec.decode(&Buffer::from_vec(alike.blob), data_type, values.len()).expect("what was encoded");
    model::assert_same(&model::values(&alike, data_type), values);
    let blob = Buffer::from_slice_ref(&blob);
    let decoded = codec.decode(&blob, data_type, values.len()).expect("what was encoded");
    model::assert_same(&model::values(&decoded, data_type), values);
    // Any native form will do: the decoded one too, and a part of it.
    let again = codec.encode(&decoded, data_type).expect("a native form");
    let again = codec.decode(&Buffer::from_vec(again), data_type, values.len()).expect("what was encoded");
    model::assert_same(&model::values(&again, data_type), values);
    let (start, rows) = (values.len() / 3, values.len() / 2);
    let part = codec.encode(&decoded.slice(start, rows), data_type).expect("a slice");
    let part = codec.decode(&Buffer::from_vec(part), data_type, rows).expect("what was encoded");
    model::assert_same(&model::values(&part, data_type), &values[start..start + rows]);
    blob
}

fn spread() -> impl Strategy<Value = Spread> {
    prop_oneof![
        Just(Spread::AllEqual),
        (1..400_u64).prop_map(Spread::Few),
        (1..200_u64).prop_map(Spread::Runs),
        Just(Spread::Sorted),
        Just(Spread::Near),
        Just(Spread::Outliers),
        Just(Spread::Anything),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_column(
        data_type in prop::sample::select(&DATA_TYPES[..]),
        spread in spread(),
        rows in prop_oneof![0..4_usize, 0..3000_usize],
        nulls in prop_oneof![Just(0), Just(1), 2..100_u64],
        seed: u64,
    ) {
        check(data_type, &model::data(data_type, spread, rows, nulls, &mut Random::new(seed)));
    }
}

#[test]
fn segments_of_full_size() {
    let mut random = Random::new(11);
    for (data_type, spread) in [
        (DataType::Int8, Spread::Sorted),
        (DataType::Text, Spread::Few(3)),
        (DataType::Text, Spread::Few(70_000)),
        (DataType::Text, Spread::Anything),
        (DataType::Float8, Spread::Anything),
        (DataType::Uuid, Spread::Anything),
        (DataType::Decimal { precision: 38, scale: 10 }, Spread::Anything),
    ] {
        check(data_type, &model::data(data_type, spread, 128 * 1024, 0, &mut random));
        check(data_type, &model::data(data_type, spread, 128 * 1024, 20, &mut random));
    }
}

#[test]
fn columns_of_no_row_and_of_nothing_but_null_are_heads_alone() {
    for data_type in DATA_TYPES {
        assert_eq!(check(data_type, &[]).len(), 8);
        assert_eq!(check(data_type, &vec![Value::Null; 1000]).len(), 8);
        check(data_type, &[Value::Null]);
        check(data_type, &[Value::Null, model::value(data_type, 77), Value::Null]);
    }
}

#[test]
fn ends_of_types() {
    for data_type in DATA_TYPES {
        let ends: Vec<Value> = (0..16_u64)
            .flat_map(|high| (0..6).map(move |low| model::value(data_type, high << 60 | low)))
            .chain([u64::MAX, 0, 1, 1 << 63, (1 << 63) - 1].map(|number| model::value(data_type, number)))
            .collect();
        check(data_type, &ends);
        for end in ends {
            check(data_type, &vec![end; 3]);
        }
    }
}

#[test]
fn long_and_empty_text() {
    let mebibyte = |letter: &str| Value::Text(letter.repeat(1 << 20));
    check(DataType::Text, &[mebibyte("a")]);
    check(DataType::Text, &[mebibyte("ab"), Value::Text(String::new()), mebibyte("c"), Value::Null]);
    check(DataType::Text, &vec![Value::Text(String::new()); 10]);
    check(DataType::Bytea, &[Value::Bytea(vec![0xff; 1 << 20]), Value::Bytea(Vec::new()), Value::Null]);
    let mut random = Random::new(3);
    let noise: Vec<Value> = (0..50)
        .map(|_| {
            let mut bytes = vec![0; 10_000];
            random.fill(&mut bytes);
            Value::Bytea(bytes)
        })
        .collect();
    check(DataType::Bytea, &noise);
}

#[test]
fn text_of_few_values_is_a_dictionary() {
    let form = |values: &[Value]| {
        let blob = check(DataType::Text, values);
        VortexCodec::default().decode(&blob, DataType::Text, values.len()).unwrap()
    };
    let mut random = Random::new(5);
    for (spread, distinct) in [(Spread::AllEqual, 1), (Spread::Few(7), 7), (Spread::Few(300), 300)] {
        let column = form(&model::data(DataType::Text, spread, 20_000, 0, &mut random));
        let dictionary = column.array().as_dictionary::<arrow_array::types::UInt16Type>();
        assert_eq!(dictionary.values().len(), distinct);
    }
    let column = form(&model::data(DataType::Text, Spread::Sorted, 20_000, 0, &mut random));
    assert_eq!(column.array().data_type(), &ArrowType::Utf8View);
}

#[test]
fn equal_columns_have_equal_bytes() {
    for data_type in DATA_TYPES {
        let values = model::data(data_type, Spread::Few(50), 2000, 9, &mut Random::new(8));
        let codec = VortexCodec::default();
        let whole = codec.encode(&model::column(data_type, &values[100..1733]), data_type).unwrap();
        let slice = codec.encode(&model::column(data_type, &values).slice(100, 1633), data_type).unwrap();
        assert_eq!(whole, slice, "{data_type}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let codec = VortexCodec::default();
    let values = model::data(DataType::Int8, Spread::Near, 1000, 5, &mut Random::new(1));
    let blob = codec.encode(&model::column(DataType::Int8, &values), DataType::Int8).unwrap();
    let refused = |bytes: Vec<u8>, data_type, rows| match codec.decode(&Buffer::from_vec(bytes), data_type, rows) {
        Err(ColumnsError::Corrupt(what)) => what,
        other => panic!("{other:?}"),
    };
    assert!(refused(blob.clone(), DataType::Int8, 999).contains("another number of rows"));
    assert!(refused(blob[..20].to_vec(), DataType::Int8, 1000).contains("cut off"));
    assert!(refused(blob[..7].to_vec(), DataType::Int8, 1000).contains("no head"));
    let mut newer = blob.clone();
    newer[0] = 2;
    assert!(refused(newer, DataType::Int8, 1000).contains("version 2 is not known"));
    assert!(refused(blob, DataType::Uuid, 1000).contains("is not encoded as"));
    let error = codec.encode(&model::column(DataType::Int8, &values), DataType::Text).unwrap_err();
    assert!(matches!(error, ColumnsError::Internal(_)));
}
