//! Who may do what: there is one role, and it may do everything.

use datafusion::common::{Result, ScalarValue};

use super::super::SystemCatalog;
use super::{Arguments, Definition, Returns, strict};

pub const FUNCTIONS: &[Definition] = &[
    strict("has_any_column_privilege", Returns::Bool, granted),
    strict("has_column_privilege", Returns::Bool, granted),
    strict("has_database_privilege", Returns::Bool, granted),
    strict("has_foreign_data_wrapper_privilege", Returns::Bool, granted),
    strict("has_function_privilege", Returns::Bool, granted),
    strict("has_language_privilege", Returns::Bool, granted),
    strict("has_parameter_privilege", Returns::Bool, granted),
    strict("has_schema_privilege", Returns::Bool, granted),
    strict("has_sequence_privilege", Returns::Bool, granted),
    strict("has_server_privilege", Returns::Bool, granted),
    strict("has_table_privilege", Returns::Bool, granted),
    strict("has_tablespace_privilege", Returns::Bool, granted),
    strict("has_type_privilege", Returns::Bool, granted),
    strict("pg_has_role", Returns::Bool, granted),
    strict("row_security_active", Returns::Bool, |_, _| Ok(ScalarValue::Boolean(Some(false)))),
];

fn granted(_: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Boolean(Some(true)))
}
