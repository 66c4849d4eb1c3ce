//! Types that a statement itself states for its parameters: `$1::date`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow_schema::DataType;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, visit_expressions};

use super::parameters::placeholder;
use saki_context::statement::Parsed;
use saki_postgres::types::storage_type;

/// Types by the parameter's name, `$1`. The first cast of a parameter counts, as in PostgreSQL.
pub fn stated_types(parsed: &Parsed) -> HashMap<String, DataType> {
    let mut found = HashMap::new();
    let Parsed(Statement::Statement(statement)) = parsed else { return found };
    let _ = visit_expressions(statement.as_ref(), |expr: &Expr| {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let Some(name) = placeholder(expr)
            && let Ok(stated) = storage_type(data_type)
        {
            found.entry(name.to_owned()).or_insert_with(|| saki_exec::arrow_type(stated));
        }
        ControlFlow::<()>::Continue(())
    });
    found
}
