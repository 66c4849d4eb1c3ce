//! SQL types on the wire: their numbers, and values as text and as bytes.

pub mod decode;
pub mod encode;
mod moments;
pub mod numeric;
pub mod single;
mod sized;
mod text;

use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use pgwire::api::Type;
use saki_sql::{PG_COLUMN, PG_MODIFIER, PG_TABLE, PG_TYPE, enumeration};

pub use sized::sized;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Text,
    Binary,
}

impl Format {
    /// From its code; other codes mean nothing.
    pub fn of_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Text),
            1 => Some(Self::Binary),
            _ => None,
        }
    }

    pub fn code(self) -> u16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// A type as a client knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireType {
    /// Its row of `pg_type`.
    pub oid: u32,
    /// Bytes of a value; negative if they differ.
    pub size: i16,
    /// PostgreSQL's `atttypmod`: of `varchar(20)` the length and 4; -1 for none.
    pub modifier: i32,
    /// The table's oid and the column's number, of what is a column of a table; zeros otherwise.
    pub column: (u32, i16),
}

/// What a field says of its type besides the Arrow type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    Nothing,
    Oid,
    Oids,
    /// Of procedures, which are told by their names.
    Procedure,
    Name,
    Names,
    Char,
    Varchar,
    /// Of so many characters, blanks at the end included.
    Bpchar(usize),
    Varchars,
    /// Arrays of these.
    Bpchars(usize),
    Int2vector,
    Oidvector,
}

impl Known {
    pub fn of(field: &Field) -> Self {
        match field.metadata().get(PG_TYPE).map(String::as_str) {
            Some("oid" | "xid") => Self::Oid,
            Some("regproc") => Self::Procedure,
            // Names of other objects are their numbers here.
            Some(name) if name.starts_with("reg") => Self::Oid,
            Some("name") => Self::Name,
            Some("_name") => Self::Names,
            Some("_oid") => Self::Oids,
            Some("char") => Self::Char,
            Some("varchar") => Self::Varchar,
            Some("bpchar") => Self::Bpchar(usize::try_from(modifier(field) - 4).unwrap_or(0)),
            Some("_varchar") => Self::Varchars,
            Some("_bpchar") => Self::Bpchars(usize::try_from(modifier(field) - 4).unwrap_or(0)),
            Some("int2vector") => Self::Int2vector,
            Some("oidvector") => Self::Oidvector,
            _ => Self::Nothing,
        }
    }
}

/// A number that a field has in its metadata.
fn noted<T: FromStr>(field: &Field, key: &str) -> Option<T> {
    field.metadata().get(key)?.parse().ok()
}

fn modifier(field: &Field) -> i32 {
    noted(field, PG_MODIFIER).unwrap_or(-1)
}

fn place(field: &Field) -> (u32, i16) {
    noted(field, PG_TABLE).zip(noted(field, PG_COLUMN)).unwrap_or_default()
}

/// The type of which values of a result's column are sent.
pub fn field_type(field: &Field) -> WireType {
    let arrow = wire_type(field.data_type());
    let (postgres, size) = match (Known::of(field), canonical(field.data_type())) {
        (Known::Oid, DataType::Int64) => (Type::OID, 4),
        (Known::Procedure, DataType::Int64) => (Type::REGPROC, 4),
        (Known::Name, DataType::Utf8) => (Type::NAME, 64),
        (Known::Oids, DataType::List(_)) => (Type::OID_ARRAY, -1),
        (Known::Names, DataType::List(_)) => (Type::NAME_ARRAY, -1),
        (Known::Char, DataType::Utf8) => (Type::CHAR, 1),
        (Known::Varchar, DataType::Utf8) => (Type::VARCHAR, -1),
        (Known::Bpchar(_), DataType::Utf8) => (Type::BPCHAR, -1),
        (Known::Varchars, DataType::List(_)) => (Type::VARCHAR_ARRAY, -1),
        (Known::Bpchars(_), DataType::List(_)) => (Type::BPCHAR_ARRAY, -1),
        (Known::Int2vector, DataType::List(_)) => (Type::INT2_VECTOR, -1),
        (Known::Oidvector, DataType::List(_)) => (Type::OID_VECTOR, -1),
        _ => return WireType { modifier: modifier(field), column: place(field), ..arrow },
    };
    WireType { oid: postgres.oid(), size, modifier: modifier(field), column: place(field) }
}

/// Days from 1970-01-01 to 2000-01-01, from which PostgreSQL counts.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
pub(crate) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// What begins a value of `jsonb` in binary: the only version of that format (PostgreSQL's `jsonb_send`).
pub(crate) const JSONB_VERSION: u8 = 1;

/// The Arrow type in which values of a type are written: one per SQL type.
pub fn canonical(data_type: &DataType) -> DataType {
    match data_type {
        labels if enumeration(labels).is_some() => labels.clone(),
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::BinaryView => DataType::Binary,
        DataType::FixedSizeBinary(size) if *size != 16 => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| "UTC".into())),
        DataType::Interval(_) | DataType::Duration(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Dictionary(_, value) => canonical(value),
        DataType::RunEndEncoded(_, value) => canonical(value.data_type()),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => {
            DataType::List(Field::new_list_field(canonical(field.data_type()), true).into())
        }
        DataType::Struct(fields) => {
            let canonical = |field: &Arc<Field>| field.as_ref().clone().with_data_type(canonical(field.data_type()));
            DataType::Struct(fields.iter().map(canonical).collect())
        }
        DataType::Boolean
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)
        | DataType::FixedSizeBinary(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::LargeUtf8
        | DataType::Date32 => data_type.clone(),
        // What has no type of its own is shown as text.
        _ => DataType::Utf8,
    }
}

/// The type of which values of `data_type` are sent.
pub fn wire_type(data_type: &DataType) -> WireType {
    let canonical = canonical(data_type);
    if let Some(of) = enumeration(&canonical) {
        return WireType { oid: of.oid(), size: 4, modifier: -1, column: (0, 0) };
    }
    if let DataType::List(field) = &canonical
        && let Some(of) = enumeration(innermost(field.data_type()))
    {
        return WireType { oid: of.array(), size: -1, modifier: -1, column: (0, 0) };
    }
    let (postgres, size) = match canonical {
        DataType::Struct(_) => (Type::RECORD, -1),
        DataType::Boolean => (Type::BOOL, 1),
        DataType::Int16 => (Type::INT2, 2),
        DataType::Int32 => (Type::INT4, 4),
        DataType::Int64 => (Type::INT8, 8),
        DataType::Float32 => (Type::FLOAT4, 4),
        DataType::Float64 => (Type::FLOAT8, 8),
        DataType::Decimal128(..) | DataType::Decimal256(..) => (Type::NUMERIC, -1),
        DataType::Binary => (Type::BYTEA, -1),
        DataType::FixedSizeBinary(_) => (Type::UUID, 16),
        DataType::LargeBinary => (Type::JSON, -1),
        DataType::LargeUtf8 => (Type::JSONB, -1),
        DataType::Date32 => (Type::DATE, 4),
        DataType::Time64(_) => (Type::TIME, 8),
        DataType::Timestamp(_, None) => (Type::TIMESTAMP, 8),
        DataType::Timestamp(_, Some(_)) => (Type::TIMESTAMPTZ, 8),
        DataType::Interval(_) => (Type::INTERVAL, 16),
        DataType::List(field) => (array_of(innermost(field.data_type())), -1),
        _ => (Type::TEXT, -1),
    };
    WireType { oid: postgres.oid(), size, modifier: -1, column: (0, 0) }
}

/// Arrays of arrays have the type of arrays of what is in them.
fn innermost(element: &DataType) -> &DataType {
    match element {
        DataType::List(field) => innermost(field.data_type()),
        other => other,
    }
}

fn array_of(element: &DataType) -> Type {
    match element {
        DataType::Boolean => Type::BOOL_ARRAY,
        DataType::Int16 => Type::INT2_ARRAY,
        DataType::Int32 => Type::INT4_ARRAY,
        DataType::Int64 => Type::INT8_ARRAY,
        DataType::Float32 => Type::FLOAT4_ARRAY,
        DataType::Float64 => Type::FLOAT8_ARRAY,
        DataType::Decimal128(..) | DataType::Decimal256(..) => Type::NUMERIC_ARRAY,
        DataType::Binary => Type::BYTEA_ARRAY,
        DataType::FixedSizeBinary(_) => Type::UUID_ARRAY,
        DataType::LargeBinary => Type::JSON_ARRAY,
        DataType::LargeUtf8 => Type::JSONB_ARRAY,
        DataType::Date32 => Type::DATE_ARRAY,
        DataType::Time64(_) => Type::TIME_ARRAY,
        DataType::Timestamp(_, None) => Type::TIMESTAMP_ARRAY,
        DataType::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ_ARRAY,
        DataType::Interval(_) => Type::INTERVAL_ARRAY,
        _ => Type::TEXT_ARRAY,
    }
}

/// The Arrow type of a client's type; `None`: it states none (0, or `unknown`), or one that is not known here.
pub fn arrow_type(oid: u32) -> Option<DataType> {
    let postgres = Type::from_oid(oid)?;
    Some(match postgres {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(38, 10),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::CHAR => DataType::Utf8,
        Type::BYTEA => DataType::Binary,
        Type::UUID => DataType::FixedSizeBinary(16),
        Type::JSON => DataType::LargeBinary,
        Type::JSONB => DataType::LargeUtf8,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => return element_of(oid).map(|element| DataType::List(Field::new_list_field(element, true).into())),
    })
}

/// The oid of a type that Arrow's types do not tell.
pub fn named_oid(name: &str) -> u32 {
    match name {
        "oid" => Type::OID,
        "_oid" => Type::OID_ARRAY,
        "name" => Type::NAME,
        "_name" => Type::NAME_ARRAY,
        _ => Type::TEXT,
    }
    .oid()
}

/// The element's type of an array type.
fn element_of(oid: u32) -> Option<DataType> {
    let elements = [
        Type::BOOL,
        Type::INT2,
        Type::INT4,
        Type::INT8,
        Type::FLOAT4,
        Type::FLOAT8,
        Type::NUMERIC,
        Type::TEXT,
        Type::BYTEA,
        Type::UUID,
        Type::JSON,
        Type::JSONB,
        Type::DATE,
        Type::TIME,
        Type::TIMESTAMP,
        Type::TIMESTAMPTZ,
        Type::INTERVAL,
    ];
    if [Type::VARCHAR_ARRAY, Type::BPCHAR_ARRAY, Type::NAME_ARRAY].iter().any(|text| text.oid() == oid) {
        return Some(DataType::Utf8);
    }
    let arrow = elements.iter().filter_map(|element| arrow_type(element.oid()));
    arrow.into_iter().find(|arrow| array_of(arrow).oid() == oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_both_ways() {
        for oid in [
            16, 17, 20, 21, 23, 25, 700, 701, 1082, 1083, 1114, 1184, 1186, 1700, 2950, 114, 3802, 199, 3807, 1007,
            1009, 1231,
        ] {
            assert_eq!(wire_type(&arrow_type(oid).unwrap()).oid, oid);
        }
        assert_eq!(arrow_type(0), None);
    }

    #[test]
    fn fields_say_more_than_their_arrow_types() {
        let told = |name: &str, modifier: &str, data_type| {
            let known = [(PG_TYPE.to_owned(), name.to_owned()), (PG_MODIFIER.to_owned(), modifier.to_owned())];
            let told = field_type(&Field::new("a", data_type, true).with_metadata(known.into()));
            (told.oid, told.modifier)
        };
        assert_eq!(told("varchar", "24", DataType::Utf8), (1043, 24));
        assert_eq!(told("oid", "-1", DataType::Int64), (26, -1));
        assert_eq!(told("numeric", "655366", DataType::Decimal128(10, 2)), (1700, 655_366));
        // What became of it is not what was said.
        assert_eq!(told("oid", "-1", DataType::Utf8).0, 25);
    }
}
