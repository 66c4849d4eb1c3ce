//! Types that PostgreSQL has and the planner has not: `oid`, `name`, `"char"`; and those behind `pg_catalog.`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{self, TimezoneInfo};

use super::syntax::system_name;
use saki_statement::name_of;
use saki_system::definition::arrow_type;
use saki_system::types;
use saki_times::{INTERVAL, TIME};

/// Resolves such names.
#[derive(Debug)]
pub struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        if let ast::DataType::Timestamp(None, zone) = sql_type {
            // Microseconds, as columns have: nanoseconds end in 2262.
            let zone = matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz).then(|| "UTC".into());
            return Ok(Some(Arc::new(Field::new("", DataType::Timestamp(TimeUnit::Microsecond, zone), true))));
        }
        if let ast::DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) = sql_type {
            return Ok(Some(Arc::new(Field::new("", TIME, true))));
        }
        let ast::DataType::Custom(name, _) = sql_type else { return Ok(None) };
        if let Some(of) = saki_statement::types::enumeration(name) {
            let labels = saki_exec::arrow_type(saki_base::DataType::Enum(of));
            return Ok(Some(Arc::new(Field::new("", labels, true))));
        }
        let Some(name) = system_name(name) else { return Ok(None) };
        let data_type = match name.as_str() {
            "date" => DataType::Date32,
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "time" => TIME,
            "interval" => INTERVAL,
            "bytea" => DataType::Binary,
            "uuid" => DataType::FixedSizeBinary(16),
            "numeric" | "timetz" | "json" | "jsonb" => return Ok(None),
            known if types::by_name(known).is_some() => arrow_type(known),
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}

/// Whether PostgreSQL has a type of this name.
pub fn is_type(name: &ast::ObjectName) -> bool {
    let is_of_information =
        name.0.len() == 2 && name.0[0].as_ident().map(name_of).as_deref() == Some("information_schema");
    is_of_information
        || saki_statement::types::enumeration(name).is_some()
        || system_name(name).is_some_and(|name| types::by_name(&name).is_some())
}

#[cfg(test)]
mod tests {
    use crate::fixture::library;

    #[test]
    fn types_of_postgresql_are_known_with_and_without_schema() {
        library().check(&[
            ("select '5'::oid, '5'::pg_catalog.oid, 'a'::name, 'a'::pg_catalog.text", "5|5|a|a"),
            ("select '5'::pg_catalog.int4 + 1, '5'::pg_catalog.int8, 'r'::pg_catalog.\"char\"", "6|5|r"),
            ("select '2020-01-02'::pg_catalog.date", "2020-01-02"),
            ("select 't'::pg_catalog.bool", "true"),
        ]);
    }

    #[test]
    fn moments_reach_beyond_the_nanoseconds() {
        library().check(&[
            ("select '2500-01-01'::timestamp = timestamp '2500-01-01 00:00:00'", "true"),
            ("select '2500-01-01'::pg_catalog.timestamp > '2262-12-31'::timestamp", "true"),
        ]);
    }
}
