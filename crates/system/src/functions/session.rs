//! What a session is told about itself and the server.

use datafusion::common::{Result, ScalarValue};

use super::super::system::SystemCatalog;
use super::super::types;
use super::function::{Arguments, Definition, Returns, lax, strict, text};
use saki_catalog::{Catalog, RoleId, SqlError};
use saki_parameters::is_temporary;

/// Functions without parentheses that SQL has as words.
pub const WORDS: &[&str] =
    &["current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"];

pub const FUNCTIONS: &[Definition] = &[
    strict("version", Returns::Text, |_, _| {
        let own = env!("CARGO_PKG_VERSION");
        let version = saki_parameters::find("server_version").map_or("", |definition| definition.default);
        Ok(text(Some(format!("PostgreSQL {version} (Sakigake {own}) on {}", std::env::consts::ARCH))))
    }),
    strict("current_user", Returns::Text, user),
    strict("session_user", Returns::Text, |system, _| {
        Ok(text(Some(system.with_catalog(|catalog| catalog.role_name(system.roles().session)))))
    }),
    strict("current_role", Returns::Text, user),
    strict("user", Returns::Text, user),
    strict("current_database", Returns::Text, database),
    strict("current_catalog", Returns::Text, database),
    strict("current_schema", Returns::Text, |system, _| {
        Ok(text(system.objects().path(false).find(|schema| !is_temporary(schema)).map(str::to_owned)))
    }),
    strict("current_schemas", Returns::TextList, |system, args| {
        let objects = system.objects();
        let is_implicit = args.truth(0);
        let shown = |schema: &&str| is_implicit || !is_temporary(schema);
        Ok(super::arrays::text_list(objects.path(is_implicit).filter(shown).map(str::to_owned).collect()))
    }),
    lax("current_setting", Returns::Text, current_setting),
    lax("set_config", Returns::Text, set_config),
    strict("pg_backend_pid", Returns::Int4, |system, _| {
        Ok(ScalarValue::Int32(i32::try_from(system.session().backend_pid).ok()))
    }),
    strict("pg_cancel_backend", Returns::Bool, |system, args| stop_backend(system, args, false)),
    strict("pg_terminate_backend", Returns::Bool, |system, args| stop_backend(system, args, true)),
    strict("pg_is_in_recovery", Returns::Bool, |_, _| Ok(ScalarValue::Boolean(Some(false)))),
    strict("pg_is_other_temp_schema", Returns::Bool, |system, args| {
        let (objects, own) = (system.objects(), system.parameters().temporary_schema());
        let schema = objects.namespaces.iter().find(|schema| Some(schema.oid) == args.integer(0));
        let is_other = schema.is_some_and(|schema| is_temporary(&schema.name) && schema.name != own);
        Ok(ScalarValue::Boolean(Some(is_other)))
    }),
    strict("pg_my_temp_schema", Returns::Int8, |system, _| {
        let objects = system.objects();
        let own = objects.namespace(system.parameters().temporary_schema());
        Ok(ScalarValue::Int64(Some(own.map_or(0, |schema| schema.oid))))
    }),
    strict("pg_postmaster_start_time", Returns::Timestamp, |system, _| Ok(time(system.server_started_micros()))),
    strict("pg_conf_load_time", Returns::Timestamp, |system, _| Ok(time(system.server_started_micros()))),
    lax("pg_typeof", Returns::Text, |_, args| Ok(text(Some(types::name_of(&args.get(0).data_type()))))),
    strict("txid_current", Returns::Int8, transaction),
    strict("pg_current_xact_id", Returns::Int8, transaction),
    strict("inet_server_addr", Returns::Text, |system, _| {
        Ok(text(system.session().server.map(|(address, _)| address)))
    }),
    strict("inet_server_port", Returns::Int4, |system, _| Ok(port(system.session().server))),
    strict("inet_client_addr", Returns::Text, |system, _| {
        Ok(text(system.session().client.map(|(address, _)| address)))
    }),
    strict("inet_client_port", Returns::Int4, |system, _| Ok(port(system.session().client))),
    strict("pg_encoding_to_char", Returns::Text, |_, args| {
        Ok(text(Some(if args.integer(0) == Some(6) { "UTF8" } else { "SQL_ASCII" }.to_owned())))
    }),
    strict("pg_char_to_encoding", Returns::Int4, |_, args| {
        let utf8 = args.text(0).is_some_and(|name| name.eq_ignore_ascii_case("utf8"));
        Ok(ScalarValue::Int32(Some(if utf8 { 6 } else { -1 })))
    }),
    strict("getdatabaseencoding", Returns::Text, |_, _| Ok(text(Some("UTF8".to_owned())))),
    strict("pg_client_encoding", Returns::Text, |_, _| Ok(text(Some("UTF8".to_owned())))),
];

fn user(system: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(text(Some(system.user())))
}

fn database(system: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(text(Some(system.database_name())))
}

fn time(micros: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into()))
}

fn port(end: Option<(String, u16)>) -> ScalarValue {
    ScalarValue::Int32(end.map(|(_, port)| i32::from(port)))
}

/// The number of the newest published state stands for the transaction's.
fn transaction(system: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Int64(i64::try_from(system.generation()).ok()))
}

/// `false`, where PostgreSQL warns, if there is no such connection.
fn stop_backend(system: &SystemCatalog, args: &Arguments<'_>, for_good: bool) -> Result<ScalarValue> {
    let process = args.integer(0).unwrap_or_default();
    let backends = system.views().backends();
    let found = backends.and_then(|backends| backends.user_of(process).map(|user| (backends, user)));
    if let Some((backends, user)) = &found {
        let current = system.roles().current;
        if !system.with_catalog(|catalog| may_stop(catalog, current, user)) {
            let what = if for_good { "process is being terminated" } else { "query is being canceled" };
            let message = format!("must be a member of the role whose {what} or member of pg_signal_backend");
            return Err(SqlError::invalid(message).code("42501").into());
        }
        backends.stop(process, for_good);
    }
    Ok(ScalarValue::Boolean(Some(found.is_some())))
}

/// Whether a role may stop what a connection of `user` does.
fn may_stop(catalog: &Catalog, role: RoleId, user: &str) -> bool {
    let other = catalog.role_named(user);
    if other.is_some_and(|other| catalog.is_superuser(other.id)) {
        return catalog.is_superuser(role);
    }
    other.is_some_and(|other| catalog.inherits(role, other.id)) || catalog.inherits(role, RoleId::SIGNAL_BACKEND)
}

fn current_setting(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let Some(name) = args.text(0) else { return Ok(text(None)) };
    match system.parameters().shown(name) {
        Err(_) if args.truth(1) => Ok(text(None)),
        shown => Ok(text(Some(shown?))),
    }
}

fn set_config(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let Some(name) = args.text(0) else {
        return Err(SqlError::invalid("SET requires parameter name").code("22004").into());
    };
    if name.to_lowercase().starts_with("transaction_") {
        let message = format!("set_config of {name:?} is not supported");
        return Err(SqlError::unsupported(message).hint("SET TRANSACTION sets it").into());
    }
    system.parameters().set(name, args.text(1), args.truth(2))?;
    Ok(text(system.parameters().show(name)))
}
