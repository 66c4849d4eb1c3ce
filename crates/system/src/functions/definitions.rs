//! Functions that show objects as SQL text.

use datafusion::common::{Result, ScalarValue};

use super::super::objects::Detail;
use super::super::system::SystemCatalog;
use super::super::{describe, types};
use super::function::{Arguments, Definition, Returns, lax, strict, text};
use saki_catalog::{RoleId, SqlError};

pub const FUNCTIONS: &[Definition] = &[
    lax("format_type", Returns::Text, format_type),
    strict("pg_get_indexdef", Returns::Text, |system, args| {
        let objects = system.objects();
        let column = args.integer(1).unwrap_or(0);
        let relation = args.integer(0).and_then(|oid| objects.relation(oid));
        Ok(text(relation.and_then(|relation| describe::index(&objects, relation, column, args.truth(2)))))
    }),
    strict("pg_get_constraintdef", Returns::Text, |system, args| {
        let objects = system.objects();
        let constraint = args.integer(0).and_then(|oid| objects.constraint(oid));
        Ok(text(constraint.and_then(|constraint| describe::constraint(&objects, constraint, args.truth(1)))))
    }),
    strict("pg_get_viewdef", Returns::Text, |system, args| {
        let objects = system.objects();
        let relation = system.relation(&objects, args.get(0))?;
        Ok(text(relation.and_then(|relation| match &relation.detail {
            Detail::View(view) => Some(format!(" {};", view.sql)),
            _ => None,
        })))
    }),
    // Expressions are stored as their text.
    strict("pg_get_expr", Returns::Text, |_, args| Ok(text(args.text(0).map(str::to_owned)))),
    strict("pg_get_serial_sequence", Returns::Text, serial_sequence),
    strict("pg_get_userbyid", Returns::Text, |system, args| {
        let id = args.integer(0).unwrap_or_default();
        let name = system.with_catalog(|catalog| catalog.role(RoleId(id as u32)).map(|role| role.name.clone()));
        Ok(text(Some(name.unwrap_or_else(|| format!("unknown (OID={id})")))))
    }),
    strict("pg_get_function_result", Returns::Text, |_, args| {
        Ok(text(procedure(args).map(|procedure| types::format_type(procedure.result, None))))
    }),
    strict("pg_get_function_arguments", Returns::Text, function_arguments),
    strict("pg_get_function_identity_arguments", Returns::Text, function_arguments),
    strict("pg_get_functiondef", Returns::Text, nothing),
    strict("pg_get_ruledef", Returns::Text, nothing),
    strict("pg_get_triggerdef", Returns::Text, nothing),
    strict("pg_get_partkeydef", Returns::Text, nothing),
    strict("pg_get_partition_constraintdef", Returns::Text, nothing),
    strict("pg_get_statisticsobjdef", Returns::Text, nothing),
    strict("pg_get_statisticsobjdef_columns", Returns::Text, nothing),
    strict("obj_description", Returns::Text, |system, args| {
        let objects = system.objects();
        let oid = args.integer(0).unwrap_or_default();
        Ok(text(match args.text(1).unwrap_or("pg_class") {
            "pg_class" => objects.relation(oid).and_then(|relation| relation.comment.clone()),
            "pg_constraint" => objects.constraint(oid).and_then(|constraint| constraint.comment.clone()),
            "pg_namespace" => objects.namespaces.iter().find(|n| n.oid == oid).and_then(|n| n.comment.clone()),
            _ => None,
        }))
    }),
    strict("col_description", Returns::Text, |system, args| {
        let objects = system.objects();
        let relation = args.integer(0).and_then(|oid| objects.relation(oid));
        let at = args.integer(1).and_then(|column| usize::try_from(column - 1).ok());
        Ok(text(relation.zip(at).and_then(|(relation, at)| relation.columns.get(at)?.extras.comment.clone())))
    }),
    strict("shobj_description", Returns::Text, nothing),
];

/// About what Sakigake does not have there is nothing to say.
fn nothing(_: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(text(None))
}

fn format_type(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    if let Some(oid) = args.integer(0).filter(|oid| types::by_oid(*oid).is_none())
        && let Some(name) = system.objects().enumeration(oid)
    {
        return Ok(text(Some(name)));
    }
    Ok(text(args.integer(0).map(|oid| types::format_type(oid, args.integer(1)))))
}

fn procedure(args: &Arguments<'_>) -> Option<&'static types::ProcedureRow> {
    let oid = args.integer(0)?;
    types::procedures().iter().find(|procedure| procedure.oid == oid)
}

fn function_arguments(_: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let spelled = procedure(args).map(|procedure| {
        procedure.arguments.iter().map(|oid| types::format_type(*oid, None)).collect::<Vec<_>>().join(", ")
    });
    Ok(text(spelled))
}

fn serial_sequence(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let objects = system.objects();
    let (Some(table), Some(name)) = (system.relation(&objects, args.get(0))?, args.text(1)) else {
        return Ok(text(None));
    };
    let Some(column) = table.columns.iter().position(|column| column.name == name) else {
        let message = format!("column {name:?} of relation {:?} does not exist", table.name);
        return Err(SqlError::invalid(message).code("42703").into());
    };
    Ok(text(objects.sequence_of(table.oid, column).map(|(sequence, _)| sequence.qualified_name())))
}
