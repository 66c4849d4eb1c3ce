//! Types that PostgreSQL has and the planner has not: `oid`, `name`, `"char"`; and those behind `pg_catalog.`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{self, TimezoneInfo};

use super::super::definition::arrow_type;
use super::super::types;
use super::system_name;

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
        let ast::DataType::Custom(name, _) = sql_type else { return Ok(None) };
        let Some(name) = system_name(name) else { return Ok(None) };
        let data_type = match name.as_str() {
            "date" => DataType::Date32,
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "bytea" => DataType::Binary,
            "uuid" => DataType::FixedSizeBinary(16),
            "numeric" | "interval" | "time" | "timetz" | "json" | "jsonb" => return Ok(None),
            known if types::by_name(known).is_some() => arrow_type(known),
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}
