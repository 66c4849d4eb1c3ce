//! SQL types as people spell them, and as storage knows them.

use datafusion::sql::sqlparser::ast::{self, CharacterLength, ExactNumberInfo, TimezoneInfo};
use saki_base::types::DECIMAL_PRECISION_MAX;
use saki_base::{DataType, Element, Enumeration};

use saki_catalog::{Result, SqlError};

/// The storage type of a type in CREATE TABLE.
pub fn storage_type(spelled: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Sql;
    Ok(match spelled {
        Sql::Bool | Sql::Boolean => DataType::Bool,
        Sql::SmallInt(_) | Sql::Int2(_) | Sql::Int16 => DataType::Int2,
        Sql::Int(_) | Sql::Int4(_) | Sql::Integer(_) | Sql::Int32 => DataType::Int4,
        Sql::BigInt(_) | Sql::Int8(_) | Sql::Int64 => DataType::Int8,
        Sql::Real | Sql::Float4 | Sql::Float32 => DataType::Float4,
        Sql::DoublePrecision | Sql::Float8 | Sql::Float64 | Sql::Double(_) => DataType::Float8,
        Sql::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => DataType::Float4,
        Sql::Float(_) => DataType::Float8,
        Sql::Numeric(info) | Sql::Decimal(info) | Sql::Dec(info) => decimal(spelled, info)?,
        Sql::Text | Sql::String(_) => DataType::Text,
        Sql::Varchar(length) | Sql::CharacterVarying(length) | Sql::CharVarying(length) => {
            match characters(spelled, length)? {
                Some(length) => DataType::Varchar(length),
                None => DataType::Text,
            }
        }
        Sql::Char(length) | Sql::Character(length) => DataType::Char(characters(spelled, length)?.unwrap_or(1)),
        Sql::Bytea | Sql::Blob(None) => DataType::Bytea,
        Sql::Date => DataType::Date,
        Sql::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Timestamp,
        Sql::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => DataType::Timestamptz,
        // Their digits and fields are not kept, as those of timestamps are not.
        Sql::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Time,
        Sql::Interval { .. } => DataType::Interval,
        Sql::Uuid => DataType::Uuid,
        Sql::JSON => DataType::Json,
        Sql::JSONB => DataType::Jsonb,
        Sql::Custom(name, _) if let Some(of) = enumeration(name) => DataType::Enum(of),
        // As to PostgreSQL, how many dimensions are written and how long they are is no part of the type.
        Sql::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => {
            let mut element = element.as_ref();
            while let Sql::Array(ast::ArrayElemTypeDef::SquareBracket(inner, _)) = element {
                element = inner;
            }
            let data_type = storage_type(element)?;
            let none = || SqlError::unsupported(format!("columns of type {}[] are not supported", shown(element)));
            DataType::Array(Element::new(data_type).ok_or_else(none)?)
        }
        other => {
            return Err(SqlError::unsupported(format!("type {} is not supported", shown(other))).hint(
                "use smallint, integer, bigint, numeric(p,s), real, double precision, text, varchar(n), \
                 char(n), bytea, date, time, timestamp, timestamptz, interval, uuid, json, jsonb or boolean",
            ));
        }
    })
}

/// What names of enumerations begin with once it is known what they name; the number of its state follows. The first
/// character is none that texts have: Unicode keeps it for the inner use of programs.
const ENUMERATION: &str = "\u{fdd0}enum ";

/// The enumeration that a name means which is one of those.
pub fn enumeration(name: &ast::ObjectName) -> Option<Enumeration> {
    match &name.0[..] {
        [ast::ObjectNamePart::Identifier(ident)] if ident.quote_style == Some('"') => {
            Enumeration::numbered(ident.value.strip_prefix(ENUMERATION)?.parse().ok()?)
        }
        _ => None,
    }
}

/// The name that stands for an enumeration in a statement that is carried out, so that whoever sees the name needs no
/// catalogue to know the type.
pub fn enumeration_name(of: Enumeration) -> ast::ObjectName {
    ast::ObjectName::from(vec![ast::Ident::with_quote('"', format!("{ENUMERATION}{}", of.number()))])
}

/// A type as statements that are carried out have it.
pub fn spelled(data_type: DataType) -> String {
    match data_type {
        DataType::Enum(of) => enumeration_name(of).to_string(),
        other => other.to_string(),
    }
}

/// A type as people spell it, in statements that are carried out too.
fn shown(spelled: &ast::DataType) -> String {
    use ast::DataType as Sql;
    match spelled {
        Sql::Custom(name, _) if let Some(of) = enumeration(name) => of.name().to_owned(),
        Sql::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => format!("{}[]", shown(element)),
        other => other.to_string(),
    }
}

fn decimal(spelled: &ast::DataType, info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => (38, 9),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let fits = (1..=u64::from(DECIMAL_PRECISION_MAX)).contains(&precision) && scale >= 0 && scale as u64 <= precision;
    if !fits {
        return Err(SqlError::invalid(format!(
            "{spelled}: precision must be 1 to {DECIMAL_PRECISION_MAX} and scale 0 to precision"
        ))
        .code("22023"));
    }
    Ok(DataType::Decimal { precision: precision as u8, scale: scale as u8 })
}

fn characters(spelled: &ast::DataType, length: &Option<CharacterLength>) -> Result<Option<u32>> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => match u32::try_from(*length) {
            Ok(length) if length > 0 => Ok(Some(length)),
            _ => Err(SqlError::invalid(format!("{spelled}: the length must be at least 1")).code("22023")),
        },
    }
}

/// The type of a table's column for values of an Arrow type; `None`: there is none.
pub fn stored_as(arrow: &arrow_schema::DataType) -> Option<DataType> {
    use arrow_schema::DataType as Arrow;
    Some(match arrow {
        Arrow::Boolean => DataType::Bool,
        Arrow::Int8 | Arrow::Int16 | Arrow::UInt8 => DataType::Int2,
        Arrow::Int32 | Arrow::UInt16 => DataType::Int4,
        Arrow::Int64 | Arrow::UInt32 => DataType::Int8,
        Arrow::UInt64 => DataType::Decimal { precision: 20, scale: 0 },
        Arrow::Float16 | Arrow::Float32 => DataType::Float4,
        Arrow::Float64 => DataType::Float8,
        Arrow::Decimal128(precision, scale) if *scale >= 0 => {
            DataType::Decimal { precision: *precision, scale: *scale as u8 }
        }
        // As PostgreSQL: what has no type of its own is text.
        Arrow::Utf8 | Arrow::Utf8View | Arrow::Null => DataType::Text,
        Arrow::Binary | Arrow::BinaryView => DataType::Bytea,
        Arrow::LargeBinary => DataType::Json,
        Arrow::LargeUtf8 => DataType::Jsonb,
        Arrow::FixedSizeBinary(16) => DataType::Uuid,
        Arrow::Date32 => DataType::Date,
        labels if let Some(of) = saki_catalog::enumeration(labels) => DataType::Enum(of),
        Arrow::Timestamp(_, None) | Arrow::Date64 => DataType::Timestamp,
        Arrow::Timestamp(_, Some(_)) => DataType::Timestamptz,
        Arrow::Time32(_) | Arrow::Time64(_) => DataType::Time,
        Arrow::List(field) => DataType::Array(Element::new(stored_as(field.data_type())?)?),
        Arrow::Interval(_) | Arrow::Duration(_) => DataType::Interval,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{storage_type, stored_as};
    use crate::fixture::check;
    use arrow_schema::{DataType as Arrow, TimeUnit};
    use datafusion::sql::sqlparser::ast::Expr;

    fn stored(spelled: &str) -> String {
        let Ok(Expr::Cast { data_type, .. }) = crate::parse_expression(&format!("a::{spelled}")) else {
            return "no type".to_owned();
        };
        match storage_type(&data_type) {
            Ok(data_type) => data_type.to_string(),
            Err(error) => error.sqlstate().to_owned(),
        }
    }

    #[test]
    fn types_are_known_by_all_their_names() {
        check(
            &[
                ("bool", "boolean"),
                ("boolean", "boolean"),
                ("int2", "smallint"),
                ("smallint", "smallint"),
                ("int", "integer"),
                ("int4", "integer"),
                ("INTEGER", "integer"),
                ("int8", "bigint"),
                ("bigint", "bigint"),
                ("real", "real"),
                ("float4", "real"),
                ("float(1)", "real"),
                ("float(24)", "real"),
                ("float(25)", "double precision"),
                ("float", "double precision"),
                ("float8", "double precision"),
                ("double precision", "double precision"),
                ("numeric(10,2)", "numeric(10,2)"),
                ("decimal(5)", "numeric(5,0)"),
                ("dec(5,5)", "numeric(5,5)"),
                ("text", "text"),
                ("varchar", "text"),
                ("varchar(3)", "character varying(3)"),
                ("character varying(3)", "character varying(3)"),
                ("char", "character(1)"),
                ("character(7)", "character(7)"),
                ("bytea", "bytea"),
                ("date", "date"),
                ("timestamp", "timestamp without time zone"),
                ("timestamp without time zone", "timestamp without time zone"),
                ("timestamptz", "timestamp with time zone"),
                ("timestamp with time zone", "timestamp with time zone"),
                ("time", "time without time zone"),
                ("interval", "interval"),
                ("uuid", "uuid"),
                ("json", "json"),
                ("jsonb", "jsonb"),
                ("int[]", "integer[]"),
                ("varchar(3)[]", "character varying(3)[]"),
            ],
            stored,
        );
    }

    #[test]
    fn types_that_cannot_be_stored_are_refused() {
        for spelled in ["timetz", "point[]", "point"] {
            assert_eq!(stored(spelled), "0A000", "{spelled}");
        }
    }

    #[test]
    fn lengths_and_precisions_have_bounds() {
        for spelled in ["numeric(0)", "numeric(39)", "numeric(5,6)", "numeric(5,-1)", "varchar(0)", "char(0)"] {
            assert_eq!(stored(spelled), "22023", "{spelled}");
        }
    }

    #[test]
    fn values_of_queries_have_types_of_columns() {
        for (arrow, expected) in [
            (Arrow::Boolean, "boolean"),
            (Arrow::Int8, "smallint"),
            (Arrow::UInt16, "integer"),
            (Arrow::Int32, "integer"),
            (Arrow::UInt32, "bigint"),
            (Arrow::Int64, "bigint"),
            (Arrow::UInt64, "numeric(20,0)"),
            (Arrow::Float32, "real"),
            (Arrow::Float64, "double precision"),
            (Arrow::Decimal128(12, 3), "numeric(12,3)"),
            (Arrow::Utf8View, "text"),
            (Arrow::Null, "text"),
            (Arrow::BinaryView, "bytea"),
            (Arrow::LargeBinary, "json"),
            (Arrow::LargeUtf8, "jsonb"),
            (Arrow::FixedSizeBinary(16), "uuid"),
            (Arrow::Date32, "date"),
            (Arrow::Time64(TimeUnit::Nanosecond), "time without time zone"),
            (Arrow::Duration(TimeUnit::Second), "interval"),
            (Arrow::Timestamp(TimeUnit::Microsecond, None), "timestamp without time zone"),
            (Arrow::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), "timestamp with time zone"),
        ] {
            assert_eq!(stored_as(&arrow).map(|data_type| data_type.to_string()).as_deref(), Some(expected), "{arrow}");
        }
        for arrow in [Arrow::FixedSizeBinary(15), Arrow::Decimal128(5, -1)] {
            assert_eq!(stored_as(&arrow), None, "{arrow}");
        }
    }
}
