//! Who may do what: there is one role, and it may do everything.

use datafusion::common::{Result, ScalarValue};

use super::super::system::SystemCatalog;
use super::function::{Arguments, Definition, Returns, strict};

pub const FUNCTIONS: &[Definition] = &[
    strict("has_any_column_privilege", Returns::Bool, granted_on_relation),
    strict("has_column_privilege", Returns::Bool, granted),
    strict("has_database_privilege", Returns::Bool, granted),
    strict("has_foreign_data_wrapper_privilege", Returns::Bool, granted),
    strict("has_function_privilege", Returns::Bool, granted),
    strict("has_language_privilege", Returns::Bool, granted),
    strict("has_parameter_privilege", Returns::Bool, granted),
    strict("has_schema_privilege", Returns::Bool, granted),
    strict("has_sequence_privilege", Returns::Bool, granted_on_relation),
    strict("has_server_privilege", Returns::Bool, granted),
    strict("has_table_privilege", Returns::Bool, granted_on_relation),
    strict("has_tablespace_privilege", Returns::Bool, granted),
    strict("has_type_privilege", Returns::Bool, granted),
    strict("pg_has_role", Returns::Bool, granted),
    strict("row_security_active", Returns::Bool, |_, _| Ok(ScalarValue::Boolean(Some(false)))),
];

fn granted(_: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Boolean(Some(true)))
}

/// `([user,] relation, privilege)`: NULL for an oid that is no relation's, an error for a name that is none's.
fn granted_on_relation(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let objects = system.objects();
    let at = args.len().saturating_sub(2);
    Ok(ScalarValue::Boolean(system.relation(&objects, args.get(at))?.map(|_| true)))
}

#[cfg(test)]
mod tests {
    use crate::fixture::library;

    #[test]
    fn the_one_role_may_do_everything() {
        library().check(&[
            (
                "select has_table_privilege('book', 'select'), has_schema_privilege('public', 'usage'), \
                 has_table_privilege(null, 'select')",
                "true|true|",
            ),
            (
                "select pg_has_role('saki', 'usage'), has_database_privilege('saki', 'connect'), \
                 has_column_privilege('book', 'id', 'select')",
                "true|true|true",
            ),
        ]);
    }

    #[test]
    fn privileges_on_what_is_not_there_are_refused() {
        library().check_refused(&[("select has_table_privilege('nosuch', 'select')", "42P01")]);
    }

    #[test]
    fn privileges_are_of_relations_by_name_or_oid_and_of_nothing_else() {
        library().check(&[
            (
                "select has_table_privilege('saki', 'book', 'insert'), has_table_privilege(0::oid, 'select'), \
                 has_sequence_privilege('shop.ticket', 'usage'), has_any_column_privilege('book', 'update')",
                "true||true|true",
            ),
            ("select has_table_privilege('book'::regclass, 'delete'), row_security_active('book')", "true|false"),
        ]);
    }
}
