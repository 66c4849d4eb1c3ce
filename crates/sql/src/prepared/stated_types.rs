//! Types that a statement itself states for its parameters: `$1::date`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, ArrayElemTypeDef, Expr, TimezoneInfo};

use super::parameters::placeholder;
use datafusion::logical_expr::planner::TypePlanner;
use saki_context::statement::Parsed;
use saki_postgres::TypeNames;
use saki_postgres::statement::walk::walk_expressions;
use saki_postgres::types::storage_type;

/// What a cast says of its parameter.
pub struct Stated {
    pub data_type: DataType,
    /// PostgreSQL's name of the type, where Arrow's does not tell it: `oid` and `name`, and lists of them.
    pub name: Option<&'static str>,
}

/// By the parameter's name, `$1`. The first cast of a parameter counts, as in PostgreSQL.
pub fn stated_types(parsed: &Parsed) -> HashMap<String, Stated> {
    let mut found = HashMap::new();
    let Parsed(Statement::Statement(statement), _) = parsed else { return found };
    let _ = walk_expressions(statement.as_ref(), |expr: &Expr| {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let Some(parameter) = placeholder(expr)
            && let Some(stated) = stated(data_type)
        {
            let name = stated_name(data_type);
            found.entry(parameter.to_owned()).or_insert(Stated { data_type: stated, name });
        }
        ControlFlow::<()>::Continue(())
    });
    found
}

/// A type that a value can have, be it one that no column has: lists, times and intervals.
fn stated(data_type: &ast::DataType) -> Option<DataType> {
    use ast::DataType as Sql;
    Some(match data_type {
        Sql::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element)) => {
            DataType::List(Field::new_list_field(stated(element)?, true).into())
        }
        Sql::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
        Sql::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Time64(TimeUnit::Microsecond),
        // PostgreSQL's own names, behind its schema or not.
        Sql::Custom(..) if let Ok(Some(field)) = TypeNames.plan_type_field(data_type) => field.data_type().clone(),
        Sql::Custom(name, _) if is_word(name, "interval") => DataType::Interval(IntervalUnit::MonthDayNano),
        Sql::Custom(name, _) if is_word(name, "time") => DataType::Time64(TimeUnit::Microsecond),
        other => saki_exec::arrow_type(storage_type(other).ok()?),
    })
}

/// Whether a name's last part is a word.
fn is_word(name: &ast::ObjectName, word: &str) -> bool {
    name.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| ident.value.eq_ignore_ascii_case(word))
}

fn stated_name(data_type: &ast::DataType) -> Option<&'static str> {
    use ast::DataType as Sql;
    let of = |data_type: &Sql, names: [&'static str; 2]| match data_type {
        Sql::Custom(name, _) if is_word(name, "oid") => Some(names[0]),
        Sql::Custom(name, _) if is_word(name, "name") => Some(names[1]),
        _ => None,
    };
    match data_type {
        Sql::Array(ArrayElemTypeDef::SquareBracket(element, _)) => of(element, ["_oid", "_name"]),
        other => of(other, ["oid", "name"]),
    }
}
